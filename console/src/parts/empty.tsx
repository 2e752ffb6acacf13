/** Nothing to show: says what to do next, with a command to copy. Copying works without HTTPS too. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

export function Empty({ title, command, children }: { title: string; command?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {command && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  const copied = useSignal(false);
  const onClick = async () => {
    copied.value = await copy(text);
    setTimeout(() => (copied.value = false), 1500);
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="tiny plain" onClick={onClick} aria-label={`Copy ${text}`}>
        {copied.value ? "Copied" : "Copy"}
      </button>
    </span>
  );
}

/** `navigator.clipboard` is there only on secure origins. */
export async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed: the old way is tried.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
