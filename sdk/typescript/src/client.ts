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

/** The digest of a question does not match the call that contains it. Do not answer such a question. */
export class DigestMismatch extends Error {}

export interface ClientOptions {
  token?: string;
  tls?: TLS;
  /** How many milliseconds calls and streams try to reconnect before they throw. Default: 60,000. */
  patience?: number;
}

/** The optional fields of a call. */
export interface SpecOptions { callId?: string; runId?: string; threadId?: string; labels?: Record<string, string>; modelCallId?: string; retryOf?: string }

const terminal = [CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.CANCELLED];

/** Calls tools, answers questions and watches calls. After a broken connection or a restart of the daemon, streams continue at their last cursor. */
export class Client {
  readonly calls: RpcClient<typeof CallService>;
  readonly tools: RpcClient<typeof ToolService>;
  readonly documents: RpcClient<typeof DocumentService>;
  /** Closes the connection. Open streams and later requests fail with Code.Canceled. */
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

  /** Returns a spec with a new id, so that sending it again does not run the call twice. */
  spec(tool: string, args: unknown = {}, o: SpecOptions = {}): CallSpec {
    const { callId, runId, threadId, labels, ...rest } = o;
    return create(CallSpecSchema, {
      tool, arguments: typeof args === "string" ? args : JSON.stringify(args), callId: callId ?? randomUUID(),
      run: runId || threadId || labels ? { runId, threadId, labels } : undefined, ...rest,
    });
  }

  /** Runs a tool and returns the call when it has ended or is suspended. */
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

  /** Runs a tool and yields its events, up to the terminal event, or up to a suspension unless waitForDecision is set. */
  execute(tool: string, args: unknown = {}, o: SpecOptions & { waitForDecision?: boolean } = {}): AsyncGenerator<CallEvent> {
    const { waitForDecision, ...rest } = o;
    const spec = this.spec(tool, args, rest);
    return events(this.frames((cursor) => this.calls.executeTool({ spec, cursor, waitForDecision })));
  }

  /** Runs the calls of a model turn and yields the frames. The last frame, batchFinished, has a result for each call. */
  batch(calls: CallSpec[], o: Omit<MessageInitShape<typeof BatchSpecSchema>, "calls"> & { waitForDecision?: boolean } = {}): AsyncGenerator<Frame> {
    const { waitForDecision, ...rest } = o;
    const spec = create(BatchSpecSchema, { strategy: BatchStrategy.SEQUENTIAL, batchId: randomUUID(), ...rest, calls } as MessageInitShape<typeof BatchSpecSchema>);
    return this.frames((cursor) => this.calls.executeBatch({ spec, cursor, waitForDecision }));
  }

  /** Yields the frames of the calls that the selector names: a callId, batchId, runId, threadId or the namespace. */
  watch(request: MessageInitShape<typeof WatchCallsRequestSchema>): AsyncGenerator<Frame> {
    const { afterSequence, ...rest } = request as { afterSequence?: bigint };
    return this.frames((cursor) => this.calls.watchCalls({ follow: true, ...rest, ...(cursor ? { cursor } : { afterSequence }) } as typeof request));
  }

  async get(callId: string): Promise<Call> { return (await this.calls.getCall({ callId })).call!; }

  async cancel(callId: string, reason = "", wait = 10_000): Promise<Call> {
    return (await this.calls.cancelCall({ callId, reason, wait: durationFromMs(wait) })).call!;
  }

  /** Yields the calls that wait for a decision, oldest first. */
  async *waiting(filter: Omit<MessageInitShape<typeof ListCallsRequestSchema>, "statuses"> = {}): AsyncGenerator<Call> {
    for (let pageToken = ""; ;) {
      const page = await this.calls.listCalls({ ...filter, statuses: [CallStatus.SUSPENDED], order: CallOrder.OLDEST_FIRST, pageToken } as MessageInitShape<typeof ListCallsRequestSchema>);
      yield* page.calls;
      if (!(pageToken = page.nextPageToken)) return;
    }
  }

  /** Recomputes the digest of a call's open question from the call, and throws DigestMismatch when they differ. */
  verify(call: Call): void {
    if (call.suspension?.digest !== ofCall(call)) throw new DigestMismatch(`the question of ${call.callId} is for something else than it shows`);
  }

  /** Approves exactly what the call shows, or answers its question. Returns an iterator over the events that follow. */
  async resume(call: Call, result?: unknown, o: { arguments?: unknown; reason?: string; waitForDecision?: boolean; decisionId?: string } = {}): Promise<AsyncGenerator<CallEvent>> {
    this.verify(call);
    const text = (v: unknown) => (v === undefined ? "" : JSON.stringify(v));
    return this.decide(call, { action: DecisionAction.RESUME, result: text(result), arguments: text(o.arguments), reason: o.reason, decisionId: o.decisionId }, o.waitForDecision);
  }

  /** Declines the open question of a call. Returns an iterator over the events that follow. */
  decline(call: Call, reason = "", o: { decisionId?: string } = {}): Promise<AsyncGenerator<CallEvent>> {
    return this.decide(call, { action: DecisionAction.CANCEL, reason, decisionId: o.decisionId });
  }

  private async decide(call: Call, d: MessageInitShape<typeof DecisionSchema>, waitForDecision = false): Promise<AsyncGenerator<CallEvent>> {
    const given = d as { decisionId?: string };
    const decision = create(DecisionSchema, { ...d, decisionId: given.decisionId ?? randomUUID(), expectedDigest: call.suspension!.digest } as MessageInitShape<typeof DecisionSchema>);
    const all = events(this.frames((cursor) => this.calls.resumeTool({
      suspensionId: call.suspension!.suspensionId, callId: call.callId, decision, waitForDecision, cursor,
    })));
    const first = await all.next(); // sends the decision even if the caller never reads the events
    return (async function* () {
      if (!first.done) {
        yield first.value;
        yield* all;
      }
    })();
  }

  /** Yields the frames of a stream, and opens it again at the last cursor when it breaks. A frame with events has the cursor after them. */
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

  /** Waits if the error is temporary, and throws any other error. */
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
