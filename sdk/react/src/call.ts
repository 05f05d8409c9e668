import type { Client } from "./client.js";
import { ask, type Question } from "./question.js";
import type { CallEvent, CallRecord, CallStatus, Description, Gap, Progress, ToolResult } from "./types.js";

/** What a page shows of a call. Each change makes a new object. */
export interface CallView {
  callId: string;
  status: CallStatus;
  tool?: string;
  description?: Description;
  modelCallId?: string;
  progress?: Progress;
  /** The newest 65,536 characters of each output stream, by its name. */
  output: Record<string, string>;
  /** Set while the call waits for an answer. */
  question?: Question;
  /** Set when the call has ended. */
  result?: ToolResult;
  /** The newest 1,000 events, without the data of output. */
  events: CallEvent[];
  /** Events are missing. */
  gap?: Gap;
}

const maxEvents = 1000, maxOutput = 65_536;

/** The state of a call. Each event of the call changes it. */
export class CallState {
  private decoders: Record<string, TextDecoder> = {};
  view: CallView;

  constructor(
    private readonly client: Client,
    callId: string,
  ) {
    this.view = { callId, status: "CALL_STATUS_NEW", output: {}, events: [] };
  }

  apply(events: CallEvent[]) {
    const v = (this.view = { ...this.view, output: { ...this.view.output }, events: [...this.view.events, ...events.map(withoutData)].slice(-maxEvents) });
    for (const e of events) this.step(v, e);
    for (const [stream, text] of Object.entries(v.output)) v.output[stream] = text.slice(-maxOutput);
  }

  missing(gap: Gap) {
    this.view = { ...this.view, gap };
  }

  private step(v: CallView, e: CallEvent) {
    if (e.accepted) {
      const { tool, description, modelCallId } = e.accepted;
      Object.assign(v, { tool, description, modelCallId });
    } else if (e.attemptStarted) v.status = "CALL_STATUS_RUNNING";
    else if (e.statusChanged) v.status = e.statusChanged.status ?? v.status;
    else if (e.progress) v.progress = e.progress;
    else if (e.output) v.output[e.output.stream ?? ""] = (v.output[e.output.stream ?? ""] ?? "") + this.text(e.output.stream ?? "", e.output.data);
    else if (e.suspended?.suspension) Object.assign(v, { status: "CALL_STATUS_SUSPENDED", question: ask(this.client, e.suspended.suspension) });
    else if (e.resumed) Object.assign(v, { status: "CALL_STATUS_RESUMING", question: undefined });
    else if (e.claimed && v.question) v.question = { ...v.question, suspension: { ...v.question.suspension, claim: e.claimed.claim } };
    else if (e.finished) Object.assign(v, { status: e.finished.status, result: e.finished.result, question: undefined });
  }

  /** Decodes a piece of a stream. A piece may end within a character. */
  private text(stream: string, base64 = "") {
    const decoder = (this.decoders[stream] ??= new TextDecoder());
    return decoder.decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)), { stream: true });
  }
}

const withoutData = (e: CallEvent): CallEvent => (e.output ? { ...e, output: { ...e.output, data: undefined } } : e);

/** Returns what a page shows of a call before its first event, from the record of the call. */
export function fromRecord(r: CallRecord): CallView {
  const { callId, status = "CALL_STATUS_NEW", tool, description, modelCallId, result } = r;
  return { callId, status, tool, description, modelCallId, result, output: {}, events: [] };
}
