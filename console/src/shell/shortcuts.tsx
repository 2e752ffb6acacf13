/** The keyboard: what each key does, shown by `?`. Keys are not taken from whoever is writing. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { paused } from "../core/pause.ts";
import { go, link } from "../core/route.ts";
import { toggleTheme } from "../core/theme.ts";
import { Dialog } from "../parts/dialog.tsx";

export const overlay = signal<"palette" | "shortcuts" | null>(null);

const PAGES: Record<string, string> = {
  o: "",
  e: "event-types",
  t: "topics",
  i: "timers",
  s: "schedules",
  w: "workers",
};
const KEYS: [string, string][] = [
  ["Ctrl K or /", "search"],
  ["g o", "overview"],
  ["g e", "event types"],
  ["g t", "topics"],
  ["g i", "timers"],
  ["g s", "schedules"],
  ["g w", "workers"],
  ["p", "pause or resume live updates"],
  ["d", "light or dark"],
  ["?", "these shortcuts"],
  ["Esc", "close what is open"],
];

function isWriting(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
}

export function useShortcuts(): void {
  useEffect(() => {
    let after = "";
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        overlay.value = "palette";
        return;
      }
      if (
        isWriting(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")
      ) return;
      const before = after;
      after = event.key;
      const page = before === "g" ? PAGES[event.key] : undefined;
      if (page !== undefined) go(link(page ? [page] : []));
      else if (event.key === "/") overlay.value = "palette";
      else if (event.key === "?") overlay.value = "shortcuts";
      else if (event.key === "p") paused.value = !paused.value;
      else if (event.key === "d") toggleTheme();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

export function Shortcuts() {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (overlay.value = null)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => [
          <dt key={key}>
            <kbd>{key}</kbd>
          </dt>,
          <dd key={what}>{what}</dd>,
        ])}
      </dl>
      <div class="actions">
        <button type="button" onClick={() => (overlay.value = null)}>Close</button>
      </div>
    </Dialog>
  );
}
