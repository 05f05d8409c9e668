import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Client as RpcClient } from "@connectrpc/connect";
import { BatchSpecSchema, BatchStrategy } from "../gen/toold/v1/batch_pb.js";
import { CallSpecSchema, CallStatus, type Call, type CallSpec } from "../gen/toold/v1/call_pb.js";
import { CallOrder, CallService, ListCallsRequestSchema, WatchCallsRequestSchema } from "../gen/toold/v1/call_service_pb.js";
import { DocumentService } from "../gen/toold/v1/document_service_pb.js";
import type { CallEvent, Frame } from "../gen/toold/v1/event_pb.js";
import { DecisionAction, DecisionSchema } from "../gen/toold/v1/suspension_pb.js";
import { ToolService } from "../gen/toold/v1/tool_service_pb.js";
import { connect, sleep, type TLS } from "./channel.js";
import { ofCall } from "./digest.js";

/** The digest of a question is not that of the call that it shows: do not answer it. */
export class DigestMismatch extends Error {}

export interface ClientOptions {
  token?: string;
  tls?: TLS;
  /** For how many milliseconds streams try to reach the daemon again; 60,000 when it is not said. */
  patience?: number;
}

/** What else a call may say. */
export interface SpecOptions { callId?: string; runId?: string; threadId?: string; labels?: Record<string, string>; modelCallId?: string; retryOf?: string }

const terminal = [CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.CANCELLED];

/** Calls tools, answers questions and watches. Streams go on where they stood over broken connections and restarts of the daemon. */
export class Client {
  readonly calls: RpcClient<typeof CallService>;
  readonly tools: RpcClient<typeof ToolService>;
  readonly documents: RpcClient<typeof DocumentService>;
  /** Ends the connection. Streams that are read, and later requests, fail with Code.Canceled. */
  readonly close: () => void;
  private readonly patience: number;

  constructor(address = "127.0.0.1:7130", options: ClientOptions = {}) {
    const { transport, close } = connect(address, options.token ?? "", options.tls);
    this.close = close;
    this.calls = createClient(CallService, transport);
    this.tools = createClient(ToolService, transport);
    this.documents = createClient(DocumentService, transport);
    this.patience = options.patience ?? 60_000;
  }

  /** A call with an id of its own, so that it can be sent again. */
  spec(tool: string, args: unknown = {}, o: SpecOptions = {}): CallSpec {
    const { callId, runId, threadId, labels, ...rest } = o;
    return create(CallSpecSchema, {
      tool, arguments: typeof args === "string" ? args : JSON.stringify(args), callId: callId ?? randomUUID(),
      run: runId || threadId || labels ? { runId, threadId, labels } : undefined, ...rest,
    });
  }

  /** Runs a tool and returns the call when it has ended, or waits for an answer. */
  async call(tool: string, args: unknown = {}, o: SpecOptions = {}): Promise<Call> {
    const spec = this.spec(tool, args, o), pauses = new Pauses(this.patience);
    for (;;) {
      try {
        const { call } = await this.calls.callTool({ spec, wait: durationFromMs(300_000) });
        if (call && (terminal.includes(call.status) || call.status === CallStatus.SUSPENDED)) return call;
      } catch (e) {
        await pauses.after(e);
      }
    }
  }

  /** Runs a tool and gives what happens, to the last event or to a question. */
  execute(tool: string, args: unknown = {}, o: SpecOptions & { waitForDecision?: boolean } = {}): AsyncGenerator<CallEvent> {
    const { waitForDecision, ...rest } = o;
    const spec = this.spec(tool, args, rest);
    return events(this.frames((cursor) => this.calls.executeTool({ spec, cursor, waitForDecision })));
  }

  /** Runs the calls of a model turn and gives the frames; the last has batchFinished with a result for each. */
  batch(calls: CallSpec[], o: Omit<MessageInitShape<typeof BatchSpecSchema>, "calls"> & { waitForDecision?: boolean } = {}): AsyncGenerator<Frame> {
    const { waitForDecision, ...rest } = o;
    const spec = create(BatchSpecSchema, { strategy: BatchStrategy.SEQUENTIAL, batchId: randomUUID(), ...rest, calls } as MessageInitShape<typeof BatchSpecSchema>);
    return this.frames((cursor) => this.calls.executeBatch({ spec, cursor, waitForDecision }));
  }

  /** Gives the frames of what the selector names: a callId, batchId, runId, threadId or the namespace. */
  watch(request: MessageInitShape<typeof WatchCallsRequestSchema>): AsyncGenerator<Frame> {
    const { afterSequence, ...rest } = request as { afterSequence?: bigint };
    return this.frames((cursor) => this.calls.watchCalls({ follow: true, ...rest, ...(cursor ? { cursor } : { afterSequence }) } as typeof request));
  }

  async get(callId: string): Promise<Call> { return (await this.calls.getCall({ callId })).call!; }

  async cancel(callId: string, reason = "", wait = 10_000): Promise<Call> {
    return (await this.calls.cancelCall({ callId, reason, wait: durationFromMs(wait) })).call!;
  }

  /** Gives the calls that wait for an answer, the oldest first. */
  async *waiting(filter: Omit<MessageInitShape<typeof ListCallsRequestSchema>, "statuses"> = {}): AsyncGenerator<Call> {
    for (let pageToken = ""; ;) {
      const page = await this.calls.listCalls({ ...filter, statuses: [CallStatus.SUSPENDED], order: CallOrder.OLDEST_FIRST, pageToken } as MessageInitShape<typeof ListCallsRequestSchema>);
      yield* page.calls;
      if (!(pageToken = page.nextPageToken)) return;
    }
  }

  /** Throws DigestMismatch unless the digest of a call's open question is that of what the call shows. */
  verify(call: Call): void {
    if (call.suspension?.digest !== ofCall(call)) throw new DigestMismatch(`the question of ${call.callId} is for something else than it shows`);
  }

  /** Answers the open question of a call with yes, for exactly what the call shows, and gives the events that follow. */
  async resume(call: Call, result?: unknown, o: { arguments?: unknown; reason?: string; waitForDecision?: boolean; decisionId?: string } = {}): Promise<AsyncGenerator<CallEvent>> {
    this.verify(call);
    const text = (v: unknown) => (v === undefined ? "" : JSON.stringify(v));
    return this.decide(call, { action: DecisionAction.RESUME, result: text(result), arguments: text(o.arguments), reason: o.reason, decisionId: o.decisionId }, o.waitForDecision);
  }

  /** Answers it with no. */
  decline(call: Call, reason = "", o: { decisionId?: string } = {}): Promise<AsyncGenerator<CallEvent>> {
    return this.decide(call, { action: DecisionAction.CANCEL, reason, decisionId: o.decisionId });
  }

  private async decide(call: Call, d: MessageInitShape<typeof DecisionSchema>, waitForDecision = false): Promise<AsyncGenerator<CallEvent>> {
    const given = d as { decisionId?: string };
    const decision = create(DecisionSchema, { ...d, decisionId: given.decisionId ?? randomUUID(), expectedDigest: call.suspension!.digest } as MessageInitShape<typeof DecisionSchema>);
    const all = events(this.frames((cursor) => this.calls.resumeTool({
      suspensionId: call.suspension!.suspensionId, callId: call.callId, decision, waitForDecision, cursor,
    })));
    const first = await all.next(); // a decision does not wait for somebody to read
    return (async function* () {
      if (!first.done) {
        yield first.value;
        yield* all;
      }
    })();
  }

  /** The frames of a stream, which is opened again where it stood. A frame with events has the cursor behind them: none comes twice. */
  private async *frames(open: (cursor: string) => AsyncIterable<{ frame?: Frame }>): AsyncGenerator<Frame> {
    const pauses = new Pauses(this.patience);
    for (let cursor = ""; ;) {
      try {
        let again = false;
        for await (const { frame } of open(cursor)) {
          if (!frame) continue;
          cursor = frame.cursor || cursor;
          pauses.reset();
          if (frame.control.case === "closing") again = true;
          else if (frame.control.case !== "heartbeat") yield frame;
        }
        if (!again) return;
      } catch (e) {
        await pauses.after(e);
        continue;
      }
      await pauses.wait();
    }
  }
}

async function* events(frames: AsyncGenerator<Frame>): AsyncGenerator<CallEvent> {
  for await (const frame of frames) yield* frame.events;
}

/** The growing pauses between attempts to reach a daemon. */
class Pauses {
  private pause = 100;
  private since = 0;
  constructor(private readonly patience: number) {}

  reset(): void { this.pause = 100; this.since = 0; }

  /** Waits after an error that may pass; throws the others. */
  async after(e: unknown): Promise<void> {
    const error = ConnectError.from(e);
    const passes = [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted].includes(error.code) || /WATCHER_LAGGED|ECONN|ENOENT|socket|stream/i.test(String(error.message) + String(error.cause));
    this.since ||= performance.now();
    if (!passes || performance.now() - this.since > this.patience) throw e;
    await this.wait();
  }

  async wait(): Promise<void> {
    await sleep(this.pause * (0.8 + 0.4 * Math.random()));
    this.pause = Math.min(2 * this.pause, 5000);
  }
}
