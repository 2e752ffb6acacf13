/** One application: who owns which queue, hand-overs as they happen, lag; pause, reset; retries and dead letters. */
import { call } from "../../api/call.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { link } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { Figure, Head, Panel, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { attempt } from "../../parts/toasts.tsx";
import { stateOf } from "./apps.tsx";
import { type HandOver, useOwners } from "./owners.ts";
import { Matrix } from "./matrix.tsx";
import { Queues } from "./queues.tsx";

export function AppPage({ app }: { app: string }) {
  const path = { app };
  const about = useAsk(`app ${app}`, (signal) => call("GET /apps/{app}", { path, signal }), 3);
  const queues = useAsk(`queues ${app}`, (signal) => call("GET /apps/{app}/queues", { path, signal }), 2);
  const workers = useAsk(`workers ${app}`, (signal) => call("GET /apps/{app}/workers", { path, signal }), 2);
  const followed = useOwners(app);
  const { owners, seen } = followed.value;
  const rows = (queues.answer.value?.queues ?? []).map((one) =>
    owners.has(one.queue) ? { ...one, owner: owners.get(one.queue)! } : one
  );
  const again = () => {
    about.again();
    queues.again();
  };
  const steer = (action: "pause" | "resume") =>
    void attempt(
      () => call(`POST /apps/{app}/${action}`, { path }),
      action === "pause" ? "All queues are paused." : "The queues go on.",
    ).then(again);
  const info = about.answer.value;
  return (
    <>
      <Head title={app} up={["Workers", link(["workers"])]}>
        {info && stateOf(info)}
        {info && may("apps") && (info.paused
          ? <button type="button" onClick={() => steer("resume")}>Resume all</button>
          : <button type="button" onClick={() => steer("pause")}>Pause all</button>)}
      </Head>
      <Trouble problem={about.problem.value ?? queues.problem.value} again={again} />
      <Figures app={app} lag={rows.reduce((sum, one) => sum + (one.lag ?? 0), 0)} workers={info?.workers} />
      {queues.answer.value && (
        <>
          <div class="grid">
            <Panel title="Who owns which queue">
              <Matrix queues={rows} workers={workers.answer.value?.workers ?? []} fresh={seen} />
            </Panel>
            <Panel title="Hand-overs">
              <HandOvers seen={seen} />
            </Panel>
          </div>
          <Panel title="Queues" flush>
            <Queues app={app} queues={rows} done={again} />
          </Panel>
        </>
      )}
    </>
  );
}

/** Retries and dead letters are topics of the application; they are there once something has failed. */
function Figures({ app, lag, workers }: { app: string; lag: number; workers: number | undefined }) {
  const counts = useAsk(`failures ${app}`, async (signal) => {
    const of = async (topic: string) => {
      try {
        const { counts } = await call("GET /topics/{topic}", { path: { topic }, signal });
        return counts.waiting + counts.available + counts.processing + counts.dead;
      } catch {
        return null;
      }
    };
    return { retry: await of(`${app}.retry`), dead: await of(`${app}.dead`) };
  }, 5);
  const { retry = null, dead = null } = counts.answer.value ?? {};
  return (
    <div class="grid small">
      <Panel>
        <Figure label="workers" tone={workers === 0 ? "bad" : ""}>{count(workers)}</Figure>
      </Panel>
      <Panel>
        <Figure label="left to do">{count(lag)}</Figure>
      </Panel>
      <Panel>
        <Figure label="to be tried again">
          {retry === null ? "0" : <a href={link(["topics", `${app}.retry`])}>{count(retry)}</a>}
        </Figure>
      </Panel>
      <Panel>
        <Figure label="given up" tone={dead ? "bad" : ""}>
          {dead === null ? "0" : <a href={link(["topics", `${app}.dead`], { tab: "messages" })}>{count(dead)}</a>}
        </Figure>
      </Panel>
    </div>
  );
}

function HandOvers({ seen }: { seen: HandOver[] }) {
  if (!seen.length) {
    return (
      <Empty title="No queue has changed hands" command={`meantime worker run module:app`}>
        While this page is open. One more worker takes its share:
      </Empty>
    );
  }
  return (
    <ul class="log" aria-label="Hand-overs">
      {seen.map((one) => (
        <li key={`${one.queue} ${one.at}`}>
          <Instant at={one.at} /> <strong>{one.name}</strong> <span>{one.from ?? "nobody"} → {one.to ?? "nobody"}</span>
        </li>
      ))}
    </ul>
  );
}
