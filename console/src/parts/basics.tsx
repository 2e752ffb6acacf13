/** Small parts that every page is made of. */
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/call.ts";
import { link, place } from "../core/route.ts";

type Children = { children?: ComponentChildren };
export type Tone = "good" | "warn" | "bad" | "info" | "";

export function Badge({ tone = "", bare, children }: Children & { tone?: Tone; bare?: boolean }) {
  return <span class={`badge ${tone} ${bare ? "bare" : ""}`}>{children}</span>;
}

export function Panel(
  { title, aside, flush, children }: Children & { title?: string; aside?: ComponentChildren; flush?: boolean },
) {
  return (
    <section class={flush ? "panel flush" : "panel"}>
      {(title || aside) && (
        <header>
          {title && <h2>{title}</h2>}
          {aside && <div class="row">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export function Figure({ label, tone = "", children }: Children & { label: string; tone?: Tone }) {
  return (
    <div class={`figure ${tone}`}>
      <span class="value">{children}</span>
      <span class="label">{label}</span>
    </div>
  );
}

export function Head({ title, up, children }: Children & { title: string; up?: [string, string] }) {
  return (
    <div class="head">
      <div class="title">
        {up && <a class="crumb" href={up[1]}>{up[0]}</a>}
        {up && <span class="crumb" aria-hidden="true">/</span>}
        <h1>{title}</h1>
      </div>
      {children}
    </div>
  );
}

/** Tabs are links: the one that is open stands in the address. */
export function Tabs({ tabs, open }: { tabs: [string, string][]; open: string }) {
  return (
    <nav class="tabs" aria-label="Sections">
      {tabs.map(([name, title]) => (
        <a key={name} href={link(place.value.path, { tab: name })} aria-current={name === open ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

export function Trouble({ problem, again }: { problem: Problem | null; again?: () => void }) {
  if (!problem) return null;
  return (
    <div class="notice bad" role="alert">
      <span>{problem.message}</span>
      {again && <button type="button" class="tiny" onClick={again}>Try again</button>}
    </div>
  );
}

export function Field({ label, children }: Children & { label: string }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
    </label>
  );
}

export function Segments<Value extends string>(
  { label, choices, chosen, onChoose }: {
    label: string;
    choices: [Value, string][];
    chosen: Value | null;
    onChoose: (value: Value) => void;
  },
) {
  return (
    <div class="segments" role="group" aria-label={label}>
      {choices.map(([value, title]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === chosen}
          onClick={() => onChoose(value)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.flatMap(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name}:`}>{value}</dd>])}
    </dl>
  );
}

export type TextEvent = { currentTarget: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement };
export const textOf = (event: TextEvent): string => event.currentTarget.value;
