/** What is wrong now, the worst first, each with a link to its cause. */
import type { LiveProblem } from "../../api/types.ts";

export function Wrong({ problems }: { problems: Record<string, LiveProblem> }) {
  const found = Object.entries(problems).sort(([, a], [, b]) => weight(a) - weight(b));
  if (!found.length) return <div class="notice good" role="status">Nothing is wrong.</div>;
  return (
    <ul class="wrong" aria-label="What is wrong">
      {found.map(([key, one]) => (
        <li key={key} class={one.severity === "error" ? "notice bad" : "notice warn"}>
          <strong>{one.link ? <a href={`#/${one.link}`}>{one.title}</a> : one.title}</strong>
          <span>{one.detail}</span>
        </li>
      ))}
    </ul>
  );
}

function weight(one: LiveProblem): number {
  return one.severity === "error" ? 0 : 1;
}
