/** The page of a thread: its runs, its open questions, its mode and its documents. */
import { Code, ConnectError } from "@connectrpc/connect";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { DocumentScope } from "../../../gen/toold/v1/event_pb.ts";
import { calls } from "../../api/clients.ts";
import { useKeys } from "../../keys.ts";
import { Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { oneLine } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { useFresh } from "./live.ts";
import { active } from "./model.ts";
import { Documents, Lost, Mode, step, threadPath, useId, useTitle, Waits } from "./parts.tsx";
import { Back } from "./Run.tsx";
import { RunTable } from "./table.tsx";
import "./runs.css";

export default function Thread() {
  const id = useId();
  return <Page key={id} id={id} />;
}

function Page({ id }: { id: string }) {
  useTitle(`Thread ${id}`);
  const queries = useQueryClient();
  const key = ["thread-page", id];
  const { data, error, refetch } = useQuery({
    queryKey: key, placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const [got, runs] = await Promise.all([calls.getThread({ threadId: id }, { signal }), calls.listRuns({ threadId: id, pageSize: 50 }, { signal })]);
      return { thread: got.thread!, modes: got.permissionModes, runs: runs.runs, more: runs.nextPageToken !== "" };
    },
    retry: (n, e) => n < 2 && !(e instanceof ConnectError && e.code === Code.NotFound),
  });
  const live = useFresh(key, true, 1000, { selector: { case: "threadId", value: id }, follow: true });
  useKeys({ j: () => step(".t tbody a.row", 1), k: () => step(".t tbody a.row", -1) });
  const bar = (
    <header className="bar runbar">
      <Back to="/runs?by=threads" />
      <h1 className="cut" title={oneLine(id, 128)}>Thread {oneLine(id, 80)}</h1>
      {data && <span className="t3 wide cut">for {oneLine(data.thread.onBehalfOf || data.thread.caller, 60)}</span>}
      {data && (
        <div className="right rowx">
          <Mode of={{ case: "threadId", value: id }} mode={data.thread.permissionMode} choices={data.modes} changed={() => void queries.invalidateQueries({ queryKey: key })} />
        </div>
      )}
    </header>
  );
  if (!data) {
    const missing = error instanceof ConnectError && error.code === Code.NotFound;
    return (
      <>
        {bar}
        {!error ? (
          <Skeleton />
        ) : missing ? (
          <Empty title="There is no such thread">No thread of this namespace that you may see has this id. Its calls may have been trimmed. <Link href="/runs?by=threads">All threads</Link></Empty>
        ) : (
          <Failure error={error} what="The thread was not read." again={() => void refetch()} />
        )}
      </>
    );
  }
  const { thread, runs } = data;
  return (
    <>
      {bar}
      <Lost live={live} />
      <div className="body" tabIndex={0} role="region" aria-label="Thread">
        <div className="pad stack">
          <Waits waits={thread.waits} running={runs.reduce((sum, r) => sum + active(r.calls), 0)} />
          <p className="t2">
            {runs.length}{data.more && "+"} {runs.length === 1 ? "run" : "runs"}; the first call was <Time at={thread.createdAt} />
            {thread.parentThreadId && <>, started from thread <Link href={threadPath(thread.parentThreadId)}>{oneLine(thread.parentThreadId, 80)}</Link></>}
          </p>
        </div>
        <RunTable runs={runs} thread={false} />
        <div className="pad stack">
          {data.more && <p className="t3">These are the newest 50 runs. <Link href={`/runs?q=${encodeURIComponent(`thread:${id}`)}`}>All runs of the thread</Link></p>}
          <Documents scope={DocumentScope.THREAD} id={id} title="Documents of this thread" />
        </div>
      </div>
    </>
  );
}
