/** The data of the pages of runs and threads, and the times of calls for the waterfall. */
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { AttemptEnd, CallStatus, RunState, type Call, type CallCounts, type RunSummary, type WaitingCall } from "../../../gen/toold/v1/call_pb.ts";
import { CallOrder } from "../../../gen/toold/v1/call_service_pb.ts";
import { calls } from "../../api/clients.ts";
import type { IconName } from "../../parts/Icon.tsx";

/** A run with its newest calls, oldest first, and the runs that these calls started. */
export interface Tree {
  run: RunSummary;
  modes: string[];
  calls: Call[];
  /** True when the run has older calls. */
  more: boolean;
  children: Tree[];
}

/** Maximum numbers that a page shows: calls of a run, child runs of a run, and levels of child runs. */
export const mostCalls = 200;
const mostChildren = 20;
const deepest = 3;

const readMask = {
  paths: [
    "call_id", "status", "executed", "tool", "description.title", "model_reason", "batch_id", "created_at", "started_at", "ended_at", "attempts", "result.error",
    "suspension.suspension_id", "suspension.action", "suspension.created_at", "suspension.approvers", "decisions",
  ],
};

/** Reads a run and its child runs. */
export async function readTree(runId: string, signal: AbortSignal, depth = 0): Promise<Tree> {
  const [got, list] = await Promise.all([calls.getRun({ runId }, { signal }), calls.listCalls({ runId, pageSize: mostCalls, order: CallOrder.NEWEST_FIRST, readMask }, { signal })]);
  const run = got.run!;
  const children = depth < deepest ? await Promise.all(run.children.slice(0, mostChildren).map((c) => readTree(c.runId, signal, depth + 1))) : [];
  const byTime = list.calls.reverse().sort((a, b) => ms(a.createdAt) - ms(b.createdAt));
  return { run, modes: got.permissionModes, calls: byTime, more: list.nextPageToken !== "", children };
}

/** Returns all runs of a tree. */
export const runsOf = (t: Tree): Tree[] => [t, ...t.children.flatMap(runsOf)];

export const ms = (t?: Timestamp) => (t ? timestampMs(t) : 0);

export const total = (c?: CallCounts) => (c ? Number(c.new + c.running + c.suspended + c.resuming + c.succeeded + c.failed + c.cancelled) : 0);
export const active = (c?: CallCounts) => (c ? Number(c.new + c.running + c.resuming) : 0);

export const ended = (c: Call) => c.status === CallStatus.SUCCEEDED || c.status === CallStatus.FAILED || c.status === CallStatus.CANCELLED;

/** Returns how to show the state of a run. */
export function stateOf(r: RunSummary): { tone: "wait" | "run" | "fail" | "none"; icon: IconName; word: string } {
  switch (r.state) {
    case RunState.WAITING:
      return { tone: "wait", icon: "wait", word: `Waiting for ${Number(r.calls?.suspended ?? 1)}` };
    case RunState.BLOCKED:
      return { tone: "fail", icon: "deny", word: "Blocked" };
    case RunState.ENDED:
      return { tone: "none", icon: "stop", word: "Ended" };
    default:
      return active(r.calls) > 0 ? { tone: "run", icon: "run", word: "Running" } : { tone: "none", icon: "new", word: "Open" };
  }
}

/** Says who may answer a question. */
export function answerers(w: Pick<WaitingCall, "approvers">): string {
  const a = w.approvers;
  if (!a) return "the caller or an approver";
  const who = a.groups.length > 0 ? `a member of ${a.groups.join(" or ")}` : "an approver";
  return a.count > 1 ? `${a.count} answers of ${who}` : a.distinctFromCaller ? `${who} who is not the caller` : who;
}

/** A part of a call's time. Times are milliseconds since 1970. */
export interface Segment {
  from: number;
  to: number;
  kind: "ok" | "run" | "wait" | "fail" | "q";
  says: string;
}

/** Splits the time of a call into segments: it waited for a person, was queued, or ran. */
export function segments(c: Call, now: number): Segment[] {
  const out: Segment[] = [];
  let at = ms(c.createdAt);
  const add = (to: number, kind: Segment["kind"], says: string) => {
    if (to > at) out.push({ from: at, to, kind, says });
    at = Math.max(at, to);
  };
  const changes = [
    ...c.decisions.map((d) => ({ at: ms(d.time), who: d.decidedBy?.subject ?? "", attempt: undefined })),
    ...c.attempts.map((attempt) => ({ at: ms(attempt.startedAt), who: "", attempt })),
  ].sort((a, b) => a.at - b.at);
  for (const change of changes) {
    const a = change.attempt;
    if (!a) {
      add(change.at, "wait", `waited for a person; ${change.who} decided`);
      continue;
    }
    add(change.at, "q", "gates and queue");
    const last = a === c.attempts.at(-1);
    const end = a.endedAt ? ms(a.endedAt) : last ? (ended(c) ? ms(c.endedAt) : now) : change.at;
    const lost = a.end === AttemptEnd.LOST || a.end === AttemptEnd.TIMED_OUT || a.end === AttemptEnd.FAILED;
    const kind = lost ? "fail" : !last || a.end === AttemptEnd.SUSPENDED ? "ok" : !ended(c) ? "run" : c.status === CallStatus.SUCCEEDED ? "ok" : "fail";
    out.push({ from: change.at, to: end, kind, says: `attempt ${a.attempt}${lost ? ` ${AttemptEnd[a.end].toLowerCase().replace("_", " ")}` : kind === "run" ? " runs" : ""}` });
    at = Math.max(at, end);
  }
  if (c.status === CallStatus.SUSPENDED) {
    add(ms(c.suspension?.createdAt), "q", "gates");
    add(now, "wait", "waits for a person");
  } else if (!ended(c)) add(now, "q", "gates and queue");
  else if (out.length === 0) out.push({ from: at, to: ms(c.endedAt), kind: c.status === CallStatus.SUCCEEDED ? "ok" : "fail", says: "ended without an attempt" });
  else add(ms(c.endedAt), "wait", "waited for a person");
  return out;
}

/** Maps times to percent of the waterfall's width. `folds` are spans in which all calls wait. They are drawn narrow. */
export interface Scale {
  at: (time: number) => number;
  folds: { from: number; to: number }[];
  start: number;
  end: number;
}

const foldWidth = 10; // percent

export function scale(all: Segment[], fold: boolean): Scale {
  const start = Math.min(...all.map((s) => s.from)), end = Math.max(...all.map((s) => s.to), start + 1);
  const folds = fold ? quiet(all, start, end) : [];
  const width = Math.min(foldWidth, 40 / Math.max(folds.length, 1));
  const live = end - start - folds.reduce((sum, f) => sum + f.to - f.from, 0);
  const perMs = (100 - width * folds.length) / Math.max(live, 1);
  const at = (time: number) => {
    let left = 0, from = start;
    for (const f of folds) {
      if (time <= f.from) break;
      left += (f.from - from) * perMs + (width * (Math.min(time, f.to) - f.from)) / (f.to - f.from);
      from = f.to;
    }
    return Math.min(100, left + Math.max(0, time - from) * perMs);
  };
  return { at, folds, start, end };
}

/** Returns the longest spans, at most four, in which all calls wait. It ignores short spans, because folding them saves little space. */
function quiet(all: Segment[], start: number, end: number): { from: number; to: number }[] {
  const busy = [...all.filter((s) => s.kind !== "wait"), ...all.filter((s) => s.kind === "wait").flatMap((s) => [{ from: s.from, to: s.from }, { from: s.to, to: s.to }])].sort((a, b) => a.from - b.from);
  const gaps: { from: number; to: number }[] = [];
  let at = start;
  for (const b of busy) {
    if (b.from > at) gaps.push({ from: at, to: b.from });
    at = Math.max(at, b.to);
  }
  if (end > at) gaps.push({ from: at, to: end });
  const least = Math.max(5000, (end - start) * 0.15);
  return gaps.filter((g) => g.to - g.from >= least).sort((a, b) => b.to - b.from - (a.to - a.from)).slice(0, 4).sort((a, b) => a.from - b.from);
}
