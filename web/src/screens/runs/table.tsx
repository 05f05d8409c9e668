/** Tables of runs and of threads. */
import { Link } from "wouter";
import type { RunSummary, ThreadSummary, WaitingCall } from "../../../gen/toold/v1/call_pb.ts";
import { Icon } from "../../parts/Icon.tsx";
import { oneLine } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { total } from "./model.ts";
import { runPath, State, threadPath } from "./parts.tsx";

export function RunTable({ runs, thread = true }: { runs: RunSummary[]; thread?: boolean }) {
  return (
    <table className="t runt">
      <thead>
        <tr>
          <th className="w-state">State</th>
          <th>Run</th>
          {thread && <th className="wide">Thread</th>}
          <th className="wide">Agent</th>
          <th className="wide">For</th>
          <th>Waits for</th>
          <th className="r wide w-num">Calls</th>
          <th className="r w-time">Last call</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((r) => (
          <tr key={r.runId}>
            <td><State run={r} /></td>
            <td><Link className="row" href={runPath(r.runId)} title={oneLine(r.runId, 128)}>{oneLine(r.runId, 128)}</Link></td>
            {thread && <td className="wide">{r.threadId && <Link href={threadPath(r.threadId)}>{oneLine(r.threadId, 128)}</Link>}</td>}
            <td className="wide">{oneLine(r.agentId, 80)}</td>
            <td className="wide t2">{oneLine(r.onBehalfOf || r.caller, 80)}</td>
            <td><First waits={r.waits} /></td>
            <td className="r num wide">
              {total(r.calls)}
              {Number(r.calls?.failed ?? 0n) > 0 && <span className="fail-text"> {Number(r.calls!.failed)} failed</span>}
            </td>
            <td className="r t3"><Time at={r.lastCallAt} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function ThreadTable({ threads }: { threads: ThreadSummary[] }) {
  return (
    <table className="t runt">
      <thead>
        <tr>
          <th>Thread</th>
          <th className="wide">Newest run</th>
          <th className="wide">Agent</th>
          <th className="wide">For</th>
          <th>Waits for</th>
          <th className="r w-time">Last call</th>
        </tr>
      </thead>
      <tbody>
        {threads.map((t) => (
          <tr key={t.threadId}>
            <td><Link className="row" href={threadPath(t.threadId)} title={oneLine(t.threadId, 128)}>{oneLine(t.threadId, 128)}</Link></td>
            <td className="wide">{t.lastRunId && <Link href={runPath(t.lastRunId)}>{oneLine(t.lastRunId, 128)}</Link>}</td>
            <td className="wide">{oneLine(t.agentId, 80)}</td>
            <td className="wide t2">{oneLine(t.onBehalfOf || t.caller, 80)}</td>
            <td><First waits={t.waits} /></td>
            <td className="r t3"><Time at={t.lastCallAt} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Shows the oldest open question, and the number of further questions. */
function First({ waits }: { waits: WaitingCall[] }) {
  const w = waits[0];
  if (!w) return null;
  return (
    <span className="rowx first-wait">
      <Icon name="wait" small className="wait" />
      <Link className="cut" href={`/inbox/${encodeURIComponent(w.suspensionId)}`} title={oneLine(w.title, 200)}>
        <code>{oneLine(w.tool, 64)}</code> {oneLine(w.title === w.tool ? "" : w.title, 120)}
      </Link>
      {waits.length > 1 && <span className="t3">and {waits.length - 1} more</span>}
    </span>
  );
}
