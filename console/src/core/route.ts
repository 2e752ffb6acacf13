/**
 * Where the viewer is: the part of the address after `#`. A page's filters and time range are its query, so that an address
 * can be sent to somebody else. Everything before `#` stays as it is, so the console works under any prefix.
 */
import { computed, signal } from "@preact/signals";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

export type Changes = Record<string, string | number | null | undefined>;

export function parsePlace(hash: string): Place {
  const text = hash.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  return {
    path: path.split("/").filter(Boolean).map(unescaped),
    query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)),
  };
}

function unescaped(piece: string): string {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

export function link(path: string[], query: Changes = {}): string {
  return "#/" + path.map(encodeURIComponent).join("/") + queryText(new URLSearchParams(), query);
}

function queryText(start: URLSearchParams, changes: Changes): string {
  const query = new URLSearchParams(start);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

const hash = signal(globalThis.location?.hash ?? "");
export const place = computed(() => parsePlace(hash.value));

/** An address like `/console/topics/reminders` is as good as `/console/#/topics/reminders`. */
export function asHash(root: URL, here: { pathname: string; search: string; hash: string }): string | null {
  const rest = here.pathname.startsWith(root.pathname) ? here.pathname.slice(root.pathname.length) : "";
  return rest && rest !== "index.html" && !here.hash ? `${root.pathname}#/${rest}${here.search}` : null;
}

export function listenToAddress(): void {
  const better = asHash(new URL("..", import.meta.url), location);
  if (better) {
    // What the page names relative to its address stays where it is.
    for (const one of document.querySelectorAll("link")) one.setAttribute("href", one.href);
    history.replaceState(null, "", better);
    hash.value = location.hash;
  }
  addEventListener("hashchange", () => (hash.value = location.hash));
}

export function go(target: string): void {
  location.hash = target;
}

/** Changes filters of the page that is open. `replace` leaves no step in the browser's history. */
export function setQuery(changes: Changes, replace = false): void {
  const { path, query } = place.value;
  const target = "#/" + path.map(encodeURIComponent).join("/") + queryText(query, changes);
  if (!replace) return go(target);
  history.replaceState(null, "", target);
  hash.value = target;
}

export function query(name: string): string | null {
  return place.value.query.get(name);
}

export function numberIn(name: string): number | null {
  const text = query(name);
  return text !== null && /^-?\d+$/.test(text) ? Number(text) : null;
}
