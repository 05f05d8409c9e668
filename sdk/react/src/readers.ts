import { CallState, fromRecord, type CallView } from "./call.js";
import type { Client, ServerEvent } from "./client.js";
import { ask, type Question } from "./question.js";
import type { CallEvent, CallRecord, Gap } from "./types.js";
import type { Reader } from "./watch.js";

/** Reads the events of calls. */
class Calls {
  readonly calls = new Map<string, CallState>();
  gap?: Gap;

  constructor(private readonly client: Client) {}

  /** Returns true if a crash lost events that were shown. */
  read({ name, data }: ServerEvent): boolean {
    if (name === "events") {
      const byCall: Record<string, CallEvent[]> = {};
      for (const e of (JSON.parse(data) as { events: CallEvent[] }).events) (byCall[e.callId] ??= []).push(e);
      for (const [id, events] of Object.entries(byCall)) this.call(id).apply(events);
    } else if (name === "gap") {
      const { gap } = JSON.parse(data) as { gap: Gap };
      if (gap.reason === "GAP_REASON_LOST_TAIL") return true;
      if (gap.callId) this.call(gap.callId).missing(gap);
      this.gap = gap;
    }
    return false;
  }

  private call(id: string): CallState {
    let call = this.calls.get(id);
    if (!call) this.calls.set(id, (call = new CallState(this.client, id)));
    return call;
  }
}

export interface CallData {
  /** Absent until the daemon has answered. */
  call?: CallView & {
    /** The record as it was before the first event was read. It has the arguments, the caller and the run. */
    record?: CallRecord;
  };
}

export class CallReader implements Reader<CallData> {
  readonly query: Record<string, string>;
  private calls: Calls;
  private record?: CallRecord;

  constructor(
    private readonly client: Client,
    private readonly callId: string,
  ) {
    this.query = { call: callId, after: "0" };
    this.calls = new Calls(client);
  }

  async begin() {
    this.record ??= (await this.client.unary<{ call: CallRecord }>("GetCall", { callId: this.callId })).call;
  }

  read = (event: ServerEvent) => this.calls.read(event);

  forget() {
    this.calls = new Calls(this.client);
    this.record = undefined;
  }

  view(): CallData {
    const record = this.record, view = this.calls.calls.get(this.callId)?.view ?? (record && fromRecord(record));
    return { call: view && { ...view, record } };
  }
}

export interface RunData {
  /** The calls of the run in the order of their first events. */
  calls: CallView[];
  /** The latest gap. It says that events of a call are missing. */
  gap?: Gap;
}

export class RunReader implements Reader<RunData> {
  readonly query: Record<string, string>;
  private calls: Calls;

  constructor(
    private readonly client: Client,
    runId: string,
  ) {
    this.query = { run: runId };
    this.calls = new Calls(client);
  }

  read = (event: ServerEvent) => this.calls.read(event);

  forget() {
    this.calls = new Calls(this.client);
  }

  view = () => ({ calls: Array.from(this.calls.calls.values(), (c) => c.view), gap: this.calls.gap });
}

export interface InboxData {
  /** The oldest first. */
  questions: (Question & { call: CallRecord })[];
}

/** Reads the inbox. Each new connection sends the whole list again, up to caught_up. */
export class InboxReader implements Reader<InboxData> {
  readonly query = { inbox: "1" };
  private shown = new Map<string, InboxData["questions"][number]>();
  private listed = new Set<string>(); // the questions that this connection has sent

  constructor(private readonly client: Client) {}

  read({ name, data }: ServerEvent) {
    if (name === "waiting") {
      const call = JSON.parse(data) as CallRecord, id = call.suspension!.suspensionId;
      this.listed.add(id);
      if (!this.shown.has(id)) this.shown.set(id, { ...ask(this.client, call.suspension!), call });
    } else if (name === "settled") {
      this.shown.delete((JSON.parse(data) as CallRecord).suspension!.suspensionId);
    } else if (name === "caught_up") {
      for (const id of this.shown.keys()) if (!this.listed.has(id)) this.shown.delete(id);
    }
  }

  async begin() {
    this.listed = new Set();
  }

  forget() {
    this.shown.clear();
  }

  view = () => ({ questions: [...this.shown.values()] });
}
