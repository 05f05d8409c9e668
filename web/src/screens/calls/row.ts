/** A row of the list of calls. It is made from a record and kept up to date with events. */
import { create } from "@bufbuild/protobuf";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { type Call, CallStatus, Executed } from "../../../gen/toold/v1/call_pb.ts";
import type { CallEvent } from "../../../gen/toold/v1/event_pb.ts";
import { DecisionAction } from "../../../gen/toold/v1/suspension_pb.ts";
import { ErrorCode, type ToolResult, ToolResultSchema } from "../../../gen/toold/v1/result_pb.ts";

/** The fields of Call that a row needs. */
export const paths = [
  "call_id", "status", "executed", "tool", "run.run_id", "caller.subject", "description.title", "result.error", "suspension.action", "suspension.origin",
  "suspension.created_at", "attempts", "decisions", "created_at", "ended_at", "last_sequence",
];

export interface Row {
  readonly id: string;
  /** Sequence of the last event that is included in the row. */
  readonly sequence: bigint;
  readonly tool: string;
  readonly title: string;
  readonly run: string;
  readonly caller: string;
  readonly created: number;
  readonly status: CallStatus;
  readonly executed: Executed;
  readonly result?: ToolResult;
  readonly ended?: number;
  /** Time at which the open question was asked. */
  readonly asked?: number;
  readonly why: string;
  /** Duration of all attempts that ended, in milliseconds. */
  readonly ran: number;
  /** Start time of the running attempt. */
  readonly running?: number;
  readonly attempts: number;
  /** The last answer and its sender, such as "yes: noor". */
  readonly answer: string;
}

const ms = (t?: Timestamp) => (t ? timestampMs(t) : undefined);

/** Writes a code such as ATTEMPT_LIMIT as words. */
const lower = (code: string) => code.toLowerCase().replaceAll("_", " ");
const first = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);

const actions: Record<string, string> = { input: "question", auth: "sign-in", in_doubt: "in doubt" };

function because(status: CallStatus, result: ToolResult | undefined, question: { action: string; origin: string } | undefined, attempts: number, answer: string): string {
  const e = result?.error;
  switch (status) {
    case CallStatus.SUSPENDED:
      if (!question) return "";
      return question.action === "approval" ? question.origin || "approval" : (actions[question.action] ?? question.action);
    case CallStatus.RUNNING:
      return attempts > 1 ? `Attempt ${attempts}` : "";
    case CallStatus.SUCCEEDED:
      return answer;
    case CallStatus.FAILED:
    case CallStatus.CANCELLED:
      if (!e) return "";
      if (e.reason === "DECLINED") return answer ? `Declined: ${answer.replace(/^no: /, "")}` : "Declined";
      if (e.code === ErrorCode.CANCELLED || e.code === ErrorCode.IN_DOUBT) return e.reason ? first(lower(e.reason)) : "";
      if (e.code === ErrorCode.EXECUTION_FAILED) return (e.reason && first(lower(e.reason))) || e.message;
      if (e.code === ErrorCode.DENIED) return e.message || lower(e.reason);
      return first(lower(ErrorCode[e.code])) + (e.reason ? `: ${lower(e.reason)}` : "");
  }
  return "";
}

/** Shortens a text. It may come from a tool and be long. */
const short = (text: string) => text.slice(0, 300);

export function rowOf(c: Call): Row {
  let ran = 0, running: number | undefined;
  for (const a of c.attempts) {
    const from = ms(a.startedAt)!;
    if (a.endedAt) ran += ms(a.endedAt)! - from;
    else if (c.status === CallStatus.RUNNING) running = from;
  }
  const last = c.decisions.at(-1);
  const answer = last?.decidedBy ? `${last.action === DecisionAction.CANCEL ? "no" : "yes"}: ${last.decidedBy.subject}` : "";
  return {
    id: c.callId, sequence: c.lastSequence, tool: c.tool, title: short(c.description?.title ?? ""), run: c.run?.runId ?? "", caller: c.caller?.subject ?? "", created: ms(c.createdAt) ?? 0,
    status: c.status, executed: c.executed, result: c.result, ended: ms(c.endedAt), asked: ms(c.suspension?.createdAt), ran, running, attempts: c.attempts.length, answer,
    why: short(because(c.status, c.result, c.suspension, c.attempts.length, answer)),
  };
}

/** Returns the row after an event of its call. If the event changes nothing that the row shows, it returns the same row. */
export function after(row: Row, { event, time, sequence }: CallEvent): Row {
  if (sequence <= row.sequence) return row;
  const at = ms(time) ?? Date.now();
  const to = (status: CallStatus, change: Partial<Row> = {}, question?: { action: string; origin: string }): Row => {
    const next = { ...row, sequence, asked: undefined, status, ...change };
    if (row.running && status !== CallStatus.RUNNING) Object.assign(next, { ran: row.ran + at - row.running, running: undefined });
    return { ...next, why: short(because(status, next.result, question, next.attempts, next.answer)) };
  };
  switch (event.case) {
    case "attemptStarted":
      return to(CallStatus.RUNNING, { running: at, attempts: event.value.attempt });
    case "statusChanged":
      return to(event.value.status);
    case "suspended":
      return to(CallStatus.SUSPENDED, { asked: at }, event.value.suspension);
    case "resumed": {
      const d = event.value.decision;
      return to(CallStatus.RESUMING, { answer: d?.decidedBy ? `${d.action === DecisionAction.CANCEL ? "no" : "yes"}: ${d.decidedBy.subject}` : row.answer });
    }
    case "finished":
      return to(event.value.status, { executed: event.value.executed, ended: at, result: create(ToolResultSchema, { error: event.value.result?.error }) });
  }
  return row;
}

/** How long the call has waited, in milliseconds: for its open question, or else in total outside of its attempts. Undefined below one second. */
export function waited(row: Row, now: number): number | undefined {
  if (row.executed === Executed.UNKNOWN && row.asked === undefined) return undefined; // the end time of the attempt is not known
  const until = row.ended ?? now;
  const all = row.asked !== undefined ? now - row.asked : until - row.created - row.ran - (row.running ? now - row.running : 0);
  return all >= 1000 ? all : undefined;
}
