/** The bar at the top: search, how fresh everything is, theme, and who is logged in. */
import { liveState, staleSince } from "../core/live.ts";
import { paused } from "../core/pause.ts";
import { link } from "../core/route.ts";
import { logout, scopes, session } from "../core/session.ts";
import { theme, toggleTheme } from "../core/theme.ts";
import { localTime } from "../core/time.ts";
import { Logo } from "./logo.tsx";
import { overlay } from "./shortcuts.tsx";

export function TopBar({ onMenu, menuOpen }: { onMenu: () => void; menuOpen: boolean }) {
  return (
    <header class="topbar">
      <button type="button" class="burger plain" onClick={onMenu} aria-expanded={menuOpen} aria-label="Menu">☰</button>
      <a class="brand" href={link([])} aria-label="Meantime, overview">
        <Logo /> <span>Meantime</span>
      </a>
      <button type="button" class="search" onClick={() => (overlay.value = "palette")}>
        Search <kbd class="wide">Ctrl K</kbd>
      </button>
      <span class="spacer" />
      <Live />
      <button
        type="button"
        class="plain"
        onClick={toggleTheme}
        aria-label={theme.value === "dark" ? "Use light colours" : "Use dark colours"}
        title="Light or dark"
      >
        {theme.value === "dark" ? "☀" : "☾"}
      </button>
      <button type="button" class="plain wide" onClick={() => (overlay.value = "shortcuts")} aria-label="Keyboard shortcuts">
        ?
      </button>
      {session.value?.authentication && (
        <>
          <span class="muted wide" title={scopes.value.join(", ")}>{session.value.identity?.name}</span>
          <button type="button" class="plain" onClick={() => void logout()}>Log out</button>
        </>
      )}
    </header>
  );
}

function Live() {
  const state = liveState.value, since = staleSince.value;
  const words = {
    connecting: "connecting",
    live: "live",
    paused: "paused",
    stale: since ? `stale since ${localTime(since)}` : "stale",
    lost: since ? `stale since ${localTime(since)}` : "no connection",
  }[state];
  const dot = { connecting: "paused", live: "", paused: "paused", stale: "stale", lost: "lost" }[state];
  return (
    <span class="live">
      <span class={`dot ${dot}`} aria-hidden="true" />
      <span class="small" role="status">{words}</span>
      <button type="button" class="tiny" onClick={() => (paused.value = !paused.value)}>
        {paused.value ? "Resume" : "Pause"}
      </button>
    </span>
  );
}
