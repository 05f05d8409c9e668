/** The page of a run: the conversation beside the waterfall of its calls, its lineage, its documents, and its open questions. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { Code, ConnectError } from "@connectrpc/connect";
import { useState } from "react";
import { Link } from "wouter";
import { DocumentScope } from "../../../gen/toold/v1/event_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { calls } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { oneLine } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { Conversation } from "./Conversation.tsx";
import { useFresh } from "./live.ts";
import { active, mostCalls, readTree, runsOf, type Tree } from "./model.ts";
import { Documents, EndRun, Lost, Mode, runPath, State, StateTag, step, threadPath, useId, useTitle, Waits } from "./parts.tsx";
import { Waterfall } from "./Waterfall.tsx";
import "./runs.css";

export default function Run() {
  const id = useId();
  return <Page key={id} id={id} />;
}

function Page({ id }: { id: string }) {
  useTitle(`Run ${id}`);
  const queries = useQueryClient();
  const [paused, setPaused] = useState(false);
  const [selected, select] = useState("");
  const key = ["run", id];
  const { data, error, refetch } = useQuery({ queryKey: key, queryFn: ({ signal }) => readTree(id, signal), enabled: !paused, refetchInterval: 30_000, placeholderData: keepPreviousData, retry: (n, e) => n < 2 && !missing(e) });
  const live = useFresh(key, !paused, 400, { selector: { case: "runId", value: id }, follow: true });
  useKeys({
    p: () => setPaused((p) => !p), j: () => step(".conv .ccard", 1), k: () => step(".conv .ccard", -1),
  });
  if (!data) {
    return (
      <>
        <header className="bar">
          <Back />
          <h1 className="cut">Run {oneLine(id, 80)}</h1>
        </header>
        {!error ? (
          <Skeleton rows={8} />
        ) : missing(error) ? (
          <Empty title="There is no such run">
            No run of this namespace that you may see has the id <code>{oneLine(id, 128)}</code>. Its calls may have been trimmed. <Link href="/runs">All runs</Link>
          </Empty>
        ) : (
          <Failure error={error} what="The run was not read." again={() => void refetch()} />
        )}
      </>
    );
  }
  const changed = () => void queries.invalidateQueries({ queryKey: key });
  return (
    <>
      <Bar tree={data} changed={changed} />
      <Lost live={live} />
      <div className="runs">
        <section className="pane conv" aria-label="Conversation" tabIndex={0}>
          {data.more && (
            <p className="t3">
              These are the newest {mostCalls} calls. <Link href={`/calls?run=${encodeURIComponent(id)}`}>All calls of the run</Link>
            </p>
          )}
          {data.calls.length === 0 ? <Empty title="No call is stored">The calls of this run were trimmed.</Empty> : <Conversation tree={data} selected={selected} select={select} />}
          <Waits waits={data.run.waits} running={active(data.run.calls)} />
        </section>
        <section className="pane wfp" aria-label="Waterfall of calls">
          <Waterfall tree={data} selected={selected} select={select} paused={paused} pause={() => setPaused(!paused)} />
          <div className="pad stack">
            <Lineage tree={data} />
            <Documents scope={DocumentScope.RUN} id={id} title="Documents of this run" />
          </div>
        </section>
      </div>
    </>
  );
}

const missing = (e: unknown) => e instanceof ConnectError && (e.code === Code.NotFound || e.code === Code.PermissionDenied);

export const Back = ({ to = "/runs" }: { to?: string }) => (
  <Link className="btn bare icon" href={to} aria-label="Back to the list">
    <Icon name="left" />
  </Link>
);

function Bar({ tree: { run, modes }, changed }: { tree: Tree; changed: () => void }) {
  const { me, has } = useSession();
  const mine = run.caller === me.principal?.subject && has(Role.CALLER, Role.DELEGATE);
  return (
    <header className="bar runbar">
      <Back />
      <h1 className="cut" title={oneLine(run.runId, 128)}>Run {oneLine(run.runId, 80)}</h1>
      <State run={run} />
      <span className="t3 wide cut">
        {run.threadId && (
          <>
            thread <Link href={threadPath(run.threadId)}>{oneLine(run.threadId, 60)}</Link> ·{" "}
          </>
        )}
        for {oneLine(run.onBehalfOf || run.caller, 60)}
      </span>
      <div className="right rowx">
        <Mode of={{ case: "runId", value: run.runId }} mode={run.permissionMode} choices={modes} changed={changed} />
        {(mine || has(Role.OPERATOR)) && <EndRun run={run} done={changed} />}
      </div>
    </header>
  );
}

/** Shows from which thread, run and call this run comes, and which runs it started. */
function Lineage({ tree }: { tree: Tree }) {
  const { run } = tree;
  const { data: thread } = useQuery({ queryKey: ["thread", run.threadId], queryFn: () => calls.getThread({ threadId: run.threadId }), enabled: run.threadId !== "", retry: false });
  let level = 0;
  const at = () => ({ paddingLeft: `calc(var(--sp-5) * ${level})` });
  return (
    <section className="sec">
      <header>
        <h2>Lineage</h2>
      </header>
      <ul className="lin">
        {run.threadId && (
          <li>
            <Icon name="runs" small className="t3" /> thread <Link href={threadPath(run.threadId)}>{oneLine(run.threadId, 80)}</Link>{" "}
            {thread?.thread && (
              <span className="t3">
                first call <Time at={thread.thread.createdAt} />
              </span>
            )}
          </li>
        )}
        {run.parentRunId && (
          <li style={((level = 1), at())}>
            <Icon name="fork" small className="t3" /> started by <Link href={`/calls/${encodeURIComponent(run.parentCallId)}`}>a call</Link> of run{" "}
            <Link href={runPath(run.parentRunId)}>{oneLine(run.parentRunId, 80)}</Link>
          </li>
        )}
        {runsOf(tree).map((t) => {
          level = 1 + depthOf(tree, t) + (run.parentRunId ? 1 : 0);
          return (
            <li key={t.run.runId} style={at()}>
              <Icon name={t === tree ? "run" : "fork"} small className={t === tree ? "run" : "t3"} />{" "}
              {t === tree ? (
                <>run <b>{oneLine(run.runId, 80)}</b></>
              ) : (
                <>
                  <Link href={`/calls/${encodeURIComponent(t.run.parentCallId)}`}>a call</Link> started run <Link href={runPath(t.run.runId)}>{oneLine(t.run.runId, 80)}</Link>
                </>
              )}{" "}
              <span className="t2">{oneLine(t.run.agentId, 60)}</span> <StateTag run={t.run} />
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function depthOf(tree: Tree, wanted: Tree): number {
  if (tree === wanted) return 0;
  for (const c of tree.children) {
    const d = depthOf(c, wanted);
    if (d >= 0) return d + 1;
  }
  return -1;
}
