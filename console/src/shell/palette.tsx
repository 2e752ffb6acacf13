/** Search over everything that has a page. Names are asked for when the palette is opened; a text that looks like a token or
 * an id can be looked up as such. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { go, link } from "../core/route.ts";
import { textOf } from "../parts/basics.tsx";
import { ADMIN_ENTRIES, ENTRIES } from "./navigation.tsx";
import { type Found, ranked, searched } from "./search.ts";
import { overlay } from "./shortcuts.tsx";

const pages = (): Found[] =>
  [...ENTRIES, ...ADMIN_ENTRIES].filter((one) => one.shown?.() ?? true)
    .map(({ name, title }) => ({ kind: "page", name: title, target: link(name ? [name] : []) }));

export function Palette() {
  const element = useRef<HTMLDialogElement>(null);
  const text = useSignal("");
  const all = useSignal<Found[]>(pages());
  const known = useSignal(false);
  const chosen = useSignal(0);
  /** A token is offered once it is clear which names there are, so that the first hit does not change under Enter. */
  const shown = useComputed(() => ranked(all.value, text.value, known.value));
  const close = () => (overlay.value = null);
  useEffect(() => {
    element.current?.showModal();
    searched().then((found) => {
      all.value = [...pages(), ...found];
      known.value = true;
    });
  }, []);
  const open = (one: Found | undefined) => {
    if (!one) return;
    close();
    go(one.target);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) chosen.value = Math.max(0, Math.min(shown.value.length - 1, chosen.value + move));
    else if (event.key === "Enter") open(shown.value[chosen.value]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog class="palette" ref={element} onClose={close} aria-label="Search">
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={shown.value.length ? `found-${chosen.value}` : undefined}
        aria-label="Event type, topic, application, schedule or token"
        placeholder="Event type, topic, application, schedule, token"
        value={text.value}
        onInput={(event) => {
          text.value = textOf(event);
          chosen.value = 0;
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="found" role="listbox" aria-label="Found">
        {shown.value.map((one, index) => (
          <li
            key={one.kind + one.name}
            id={`found-${index}`}
            role="option"
            aria-selected={index === chosen.value}
            onClick={() => open(one)}
            onPointerMove={() => (chosen.value = index)}
          >
            <span class="break">{one.name}</span>
            <span class="muted">{one.kind}</span>
          </li>
        ))}
        {shown.value.length === 0 && (
          <li role="option" aria-selected="false" class="muted">
            {known.value ? "Nothing has this in its name." : "Looking …"}
          </li>
        )}
      </ul>
    </dialog>
  );
}
