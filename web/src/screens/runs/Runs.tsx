/** The list of runs or threads. The run or thread with the newest call comes first. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { RunState } from "../../../gen/toold/v1/call_pb.ts";
import type { ListRunsResponse, ListThreadsResponse } from "../../../gen/toold/v1/call_service_pb.ts";
import { calls } from "../../api/clients.ts";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { say } from "../../parts/say.ts";
import { Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { parse, type Filter } from "./filter.ts";
import { useFresh } from "./live.ts";
import { Lost, runPath, step, threadPath, useHeld, useTitle } from "./parts.tsx";
import { RunTable, ThreadTable } from "./table.tsx";
import "./runs.css";

const states = { waiting: RunState.WAITING, open: RunState.OPEN, blocked: RunState.BLOCKED, ended: RunState.ENDED };
const pageSize = 50;

export default function Runs() {
  useTitle("Runs");
  const [params, setParams] = useSearchParams();
  const [, go] = useLocation();
  const search = params.get("q") ?? "", state = params.get("state") ?? "", byThread = params.get("by") === "threads";
  const filter = parse(search);
  const set = (change: Record<string, string>) => {
    const next = { q: search, state, by: byThread ? "threads" : "", ...change };
    setParams(Object.fromEntries(Object.entries(next).filter(([, v]) => v)), { replace: true });
  };
  const find = (text: string) => {
    const id = parse(text).id;
    if (id) go(byThread ? threadPath(id) : runPath(id));
    else set({ q: text });
  };
  return (
    <>
      <header className="bar top">
        <h1>Runs</h1>
        <span className="seg" role="group" aria-label="List">
          <button aria-pressed={!byThread} onClick={() => set({ by: "" })}>Runs</button>
          <button aria-pressed={byThread} onClick={() => set({ by: "threads", state: state === "waiting" ? state : "" })}>Threads</button>
        </span>
        <div className="right rowx">
          <Search value={search} find={find} />
        </div>
      </header>
      <div className="filters" role="group" aria-label="State">
        {[["", "All"], ["waiting", "Waiting"], ...(byThread ? [] : [["open", "Open"], ["blocked", "Blocked"], ["ended", "Ended"]])].map(([value, word]) => (
          <button key={value} className="chip" aria-pressed={state === value} onClick={() => set({ state: value! })}>{word}</button>
        ))}
      </div>
      {filter.wrong ? <Empty title="The search cannot be read">{filter.wrong}</Empty> : <List key={`${search} ${state} ${byThread}`} filter={filter} state={state} byThread={byThread} filtered={search + state !== ""} />}
    </>
  );
}

function Search({ value, find }: { value: string; find: (text: string) => void }) {
  const [text, type] = useState(value);
  useEffect(() => type(value), [value]);
  return (
    <form
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        find(text.trim());
      }}
    >
      <label className="search">
        <Icon name="search" small />
        <span className="sr">Search: agent, thread, parent, caller or label, each with a colon; or an id to open it</span>
        <input placeholder="id, agent: label:env=prod" size={22} maxLength={400} value={text} onChange={(e) => type(e.target.value)} />
        <kbd>/</kbd>
      </label>
    </form>
  );
}

/** A page of runs or of threads. */
type Page = ListRunsResponse | ListThreadsResponse;

function List({ filter, state, byThread, filtered }: { filter: Filter; state: string; byThread: boolean; filtered: boolean }) {
  const [paused, pause] = useState(false);
  const { held, hold } = useHeld();
  const key = ["runs", byThread, state, JSON.stringify(filter)];
  const { agentId, caller, labels, threadId, parentRunId } = filter;
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }): Promise<Page> => {
      if (byThread) return calls.listThreads({ waiting: state === "waiting", agentId, caller, labels, pageSize, pageToken: pageParam }, { signal });
      return calls.listRuns({ states: state in states ? [states[state as keyof typeof states]] : [], agentId, caller, labels, threadId, parentRunId, pageSize, pageToken: pageParam }, { signal });
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    staleTime: Infinity,
  });
  const live = useFresh(key, !paused && !held, 1000);
  useKeys({ p: () => pause(!paused), j: () => step(".runt a.row", 1), k: () => step(".runt a.row", -1), ".": () => void refetch() });
  const pages = data?.pages ?? [];
  const runs = pages.flatMap((p) => ("runs" in p ? p.runs : [])), threads = pages.flatMap((p) => ("threads" in p ? p.threads : []));
  const count = runs.length + threads.length, waiting = [...runs, ...threads].filter((r) => r.waits.length > 0).length;
  useEffect(() => {
    if (data) say(`${count} ${byThread ? "threads" : "runs"}, ${waiting} waiting.`);
  }, [count, waiting]);
  const none = byThread ? "thread" : "run";
  // A page may be empty although there are more. The newest calls then belong to runs that do not match.
  useEffect(() => {
    if (count < 10 && pages.length < 20 && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [count, pages.length, hasNextPage, isFetchingNextPage]);
  return (
    <>
      <Lost live={live} />
      <div className="body" tabIndex={0} role="region" aria-label={byThread ? "Threads" : "Runs"} {...hold}>
        {!data && error ? (
          <Failure error={error} what={`The ${none}s were not read.`} again={() => void refetch()} />
        ) : !data ? (
          <Skeleton rows={10} />
        ) : count === 0 && !hasNextPage ? (
          <Empty title={filtered ? `No ${none} matches` : `There is no ${none} yet`}>
            {filtered ? "Remove a part of the search." : <>Calls with a <code>{none}_id</code> appear here: <code>toold call glob pattern='*' --{none} first</code></>}
          </Empty>
        ) : byThread ? (
          <ThreadTable threads={threads} />
        ) : (
          <RunTable runs={runs} />
        )}
        {hasNextPage && count > 0 && (
          <div className="pad">
            <button className="btn" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>Show older {none}s</button>
          </div>
        )}
        <div className="pad listfoot t3 rowx">
          <button className="btn sm" aria-pressed={paused} onClick={() => pause(!paused)}>
            <span>{paused ? "Paused" : "Live"}</span> <kbd>p</kbd>
          </button>
        </div>
      </div>
    </>
  );
}
