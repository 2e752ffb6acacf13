/** The frame around every page: navigation, the bar at the top, and what lies over the page. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { place } from "../core/route.ts";
import { loginNeeded, session } from "../core/session.ts";
import { Toasts } from "../parts/toasts.tsx";
import { pageOf, titleOf } from "../pages/pages.tsx";
import { Login } from "./login.tsx";
import { Logo } from "./logo.tsx";
import { Navigation } from "./navigation.tsx";
import { Palette } from "./palette.tsx";
import { overlay, Shortcuts, useShortcuts } from "./shortcuts.tsx";
import { TopBar } from "./topbar.tsx";

export function App() {
  if (loginNeeded.value) return <Login />;
  if (!session.value) return <Unreachable />;
  return <Frame />;
}

function Unreachable() {
  return (
    <main class="login">
      <div class="panel stack">
        <div class="brand">
          <Logo /> Meantime
        </div>
        <p role="alert">The node does not answer.</p>
        <button type="button" onClick={() => location.reload()}>Try again</button>
      </div>
    </main>
  );
}

function Frame() {
  const menu = useSignal(false);
  const { path } = place.value;
  useShortcuts();
  useEffect(() => {
    document.title = titleOf(path);
    menu.value = false;
    scrollTo(0, 0);
  }, [path.join("/")]);
  const toMain = (event: Event) => {
    event.preventDefault();
    document.getElementById("main")?.focus();
  };
  return (
    <div class={menu.value ? "shell open" : "shell"}>
      <a class="skip" href="#main" onClick={toMain}>To the page</a>
      <TopBar onMenu={() => (menu.value = !menu.value)} menuOpen={menu.value} />
      <Navigation />
      <main id="main" tabIndex={-1} key={path.join("/")}>
        <div class="stack">{pageOf(path)}</div>
      </main>
      {overlay.value === "palette" && <Palette />}
      {overlay.value === "shortcuts" && <Shortcuts />}
      <Toasts />
    </div>
  );
}
