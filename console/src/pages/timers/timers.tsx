/** Timers: what is pending when, how late they were, whether the books balance, and one timer by its token. */
import { call } from "../../api/call.ts";
import type { TimersStatus } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { may } from "../../core/session.ts";
import { duration } from "../../core/time.ts";
import { Badge, Facts, Figure, Head, Panel, Trouble } from "../../parts/basics.tsx";
import { Instant } from "../../parts/instant.tsx";
import { Lateness } from "./lateness.tsx";
import { TimersLoad } from "./load.tsx";
import { LookUp } from "./look_up.tsx";
import { SetTimer } from "./set_timer.tsx";

export function TimersPage() {
  const { answer, problem, again } = useAsk("timers status", (signal) => call("GET /timers/status", { signal }), 2);
  const status = answer.value as TimersStatus | null;
  return (
    <>
      <Head title="Timers" />
      <Trouble problem={problem.value} again={again} />
      {status && <Ledger ledger={status.ledger} />}
      <TimersLoad />
      {status && (
        <div class="grid">
          <Lateness dispatcher={status.dispatcher} />
          <Oscillator oscillator={status.oscillator} />
          <SparkJob futures={status.futures} />
        </div>
      )}
      <div class="grid">
        <LookUp />
        {may("timers") && <SetTimer />}
      </div>
    </>
  );
}

function Ledger({ ledger }: { ledger: TimersStatus["ledger"] }) {
  const parts = ["requested", "fired", "cancelled", "rejected", "pending"] as const;
  return (
    <Panel
      title="Ledger"
      aside={ledger.difference === 0
        ? <Badge tone="good">every timer is accounted for</Badge>
        : <Badge tone="bad">{count(ledger.difference)} unaccounted for</Badge>}
    >
      <div class="grid small">
        {parts.map((part) => <Figure key={part} label={part}>{count(ledger[part])}</Figure>)}
        <Figure label="difference" tone={ledger.difference ? "bad" : ""}>{count(ledger.difference)}</Figure>
        <Figure label="overdue" tone={ledger.overdue ? "bad" : ""}>{count(ledger.overdue)}</Figure>
      </div>
    </Panel>
  );
}

const SILENT_AFTER_MS = 5_000;

function Oscillator({ oscillator }: { oscillator: TimersStatus["oscillator"] }) {
  const age = oscillator.age_ms ?? null;
  const silent = age === null || age > SILENT_AFTER_MS;
  return (
    <Panel title="Oscillator" aside={<Badge tone={silent ? "bad" : "good"}>{silent ? "silent" : "ticking"}</Badge>}>
      <Facts
        facts={[
          ["Leader", oscillator.leader ?? "none"],
          ["Last tick", <Instant at={oscillator.last_tick ? oscillator.last_tick * 1000 : null} key="tick" />],
          ["Written", age === null ? "–" : `${duration(age)} ago`],
          ["Ahead of time by", oscillator.lead_s ? `${oscillator.lead_s} s` : "–"],
        ]}
      />
    </Panel>
  );
}

function SparkJob({ futures }: { futures: TimersStatus["futures"] }) {
  const known = futures.batch_ms !== null && futures.batch_ms !== undefined;
  return (
    <Panel title="Spark job" aside={<Badge tone={known ? "good" : "warn"}>{known ? "running" : "no report yet"}</Badge>}>
      <Facts
        facts={[
          ["Last micro-batch", known ? duration(futures.batch_ms ?? 0) : "–"],
          ["Rows of state", count(futures.state_rows)],
          ["Requests not taken in", count(futures.lag)],
          ["Last report", futures.age_ms ? `${duration(futures.age_ms)} ago` : "–"],
        ]}
      />
    </Panel>
  );
}
