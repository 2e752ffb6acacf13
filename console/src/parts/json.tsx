/** JSON exactly as it was sent, with new lines for people. */
import { pretty } from "../core/exact_json.ts";

export function Json({ text, label }: { text: string; label: string }) {
  return <pre class="json" tabIndex={0} role="region" aria-label={label}>{pretty(text)}</pre>;
}
