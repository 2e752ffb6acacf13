/**
 * Asking the API from a page: the latest answer as a signal, asked again at an interval while the page is visible and live
 * updates are not paused. Answers of a question that is no longer asked are dropped.
 */
import { type Signal, useSignal, useSignalEffect } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { Problem } from "../api/call.ts";
import { paused } from "./pause.ts";

export interface Asked<Answer> {
  answer: Signal<Answer | null>;
  problem: Signal<Problem | null>;
  asking: Signal<boolean>;
  again: () => void;
}

/** `key` says what is asked; when it changes, the old answer stays until the new one is there. */
export function useAsk<Answer>(key: string, ask: (signal: AbortSignal) => Promise<Answer>, everySeconds = 0): Asked<Answer> {
  const answer = useSignal<Answer | null>(null);
  const problem = useSignal<Problem | null>(null);
  const asking = useSignal(true);
  const latest = useRef(ask);
  latest.current = ask;
  const running = useRef<AbortController | null>(null);

  const again = useCallback(async () => {
    running.current?.abort();
    const mine = running.current = new AbortController();
    asking.value = true;
    try {
      const found = await latest.current(mine.signal);
      if (mine.signal.aborted) return;
      answer.value = found;
      problem.value = null;
    } catch (failure) {
      if (mine.signal.aborted) return;
      problem.value = failure instanceof Problem ? failure : new Problem(0, String(failure), "");
    }
    asking.value = false;
  }, []);

  useEffect(() => {
    void again();
    return () => running.current?.abort();
  }, [key]);

  useEffect(() => {
    if (!everySeconds) return;
    const timer = setInterval(() => {
      if (!paused.value && !document.hidden && !asking.value) void again();
    }, everySeconds * 1000);
    return () => clearInterval(timer);
  }, [everySeconds, key]);

  return { answer, problem, asking, again };
}

/** The time of the cluster, ticking; it stands still while live updates are paused. */
export function useTick(everySeconds: number, tick: () => void): void {
  const latest = useRef(tick);
  latest.current = tick;
  useEffect(() => {
    const timer = setInterval(() => !paused.value && latest.current(), everySeconds * 1000);
    return () => clearInterval(timer);
  }, [everySeconds]);
}

export { useSignalEffect };
