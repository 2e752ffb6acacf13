/** Light or dark: what the system says, unless the viewer has chosen here. */
import { signal } from "@preact/signals";

export type Theme = "light" | "dark";
const KEY = "meantime-theme";
const system = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

function chosen(): Theme | null {
  try {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : null;
  } catch {
    return null;
  }
}

const systemTheme = (): Theme => (system?.matches ? "dark" : "light");
export const theme = signal<Theme>(chosen() ?? systemTheme());

function show(): void {
  document.documentElement.dataset.theme = theme.value;
}

export function startTheme(): void {
  show();
  system?.addEventListener("change", () => {
    if (chosen()) return;
    theme.value = systemTheme();
    show();
  });
}

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  show();
  try {
    if (theme.value === systemTheme()) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme.value);
  } catch {
    // A browser that keeps nothing shows the theme until the page is left.
  }
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
