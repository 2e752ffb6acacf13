/** Dialogs: the browser's own, so that focus, Escape and the background are its business. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../api/call.ts";
import { tell } from "./toasts.tsx";

export function Dialog({ title, onClose, children, wide }: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-label={title} onClose={onClose}>
      <div class="content">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something is done, says what exactly, does it, and shows what the node objects to. */
export function Confirm({ title, children, action, danger, act, done, onClose }: {
  title: string;
  children: ComponentChildren;
  action: string;
  danger?: boolean;
  act: () => Promise<string | void>;
  done?: () => void;
  onClose: () => void;
}) {
  const busy = useSignal(false);
  const problem = useSignal<string | null>(null);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    problem.value = null;
    try {
      const said = await act();
      if (said) tell(said);
      done?.();
      onClose();
    } catch (failure) {
      problem.value = failure instanceof Problem ? failure.message : String(failure);
    }
    busy.value = false;
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={onSubmit} class="bare">
        {children}
        {problem.value && <div class="notice bad" role="alert">{problem.value}</div>}
        <div class="actions">
          <button type="button" onClick={onClose}>Keep as it is</button>
          <button type="submit" class={danger ? "primary danger" : "primary"} disabled={busy.value}>{action}</button>
        </div>
      </form>
    </Dialog>
  );
}
