/** Where it begins: theme, address, clock and session, then the application. */
import { render } from "preact";
import { startClock } from "./core/pause.ts";
import { startLive } from "./core/live.ts";
import { listenToAddress } from "./core/route.ts";
import { loadSession } from "./core/session.ts";
import { startTheme } from "./core/theme.ts";
import { App } from "./shell/app.tsx";

startTheme();
listenToAddress();
startClock();

/** What the page shows by itself stays until it is known who is looking. */
function show(): void {
  const root = document.getElementById("app");
  if (!root) return;
  root.replaceChildren();
  render(<App />, root);
}

try {
  await loadSession();
  startLive();
} catch (failure) {
  console.warn("the session could not be read", failure);
}
show();
