import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Client as RpcClient } from "@connectrpc/connect";
import { BatchSpecSchema, BatchStrategy } from "../gen/toold/v1/batch_pb.js";
import { CallSpecSchema, CallStatus, VerdictAction, type Call, type CallSpec } from "../gen/toold/v1/call_pb.js";
import { CallOrder, CallService, ListCallsRequestSchema, WatchCallsRequestSchema, type DescribeCallResponse, type WatchInboxResponse, type WhoAmIResponse } from "../gen/toold/v1/call_service_pb.js";
import { DocumentService } from "../gen/toold/v1/document_service_pb.js";
import { FrameSchema, type CallEvent, type Frame } from "../gen/toold/v1/event_pb.js";
import { DecisionAction, DecisionSchema, type Claim } from "../gen/toold/v1/suspension_pb.js";
import { ToolService } from "../gen/toold/v1/tool_service_pb.js";
import { connect, type TLS, type Token } from "./channel.js";
import { ofCall } from "./digest.js";
import { limit, Retry, type RequestOptions } from "./retry.js";
import { Rpc } from "./rpc.js";
import { Toolset, type Provider, type ToolsetOptions } from "./toolset.js";

/** The digest of a question does not match the call that contains it. Do not answer such a question. */
export class DigestMismatch extends Error {}

export interface ClientOptions {
  /** With a function, a request or stream that ends because its token expired is sent again with the next token. */
  token?: Token;
  tls?: TLS;
  /** How many milliseconds requests and streams try to reach the daemon before they throw. Default: 60,000. */
  patience?: number;
}

/** The optional fields of a call. */
export interface SpecOptions { callId?: string; runId?: string; threadId?: string; labels?: Record<string, string>; modelCallId?: string; retryOf?: string }

/** The filter of a list of calls that wait. */
export type WaitingFilter = Omit<MessageInitShape<typeof ListCallsRequestSchema>, "statuses"> & { runId?: string; threadId?: string };

/** A result that an approver gives in the tool's place. With `error`, which needs a message, the call fails. */
export interface ResultInstead { data?: unknown; message?: string; error?: boolean }

/** What a call would do. */
export type Described = DescribeCallResponse & {
  /** The call would be suspended before it runs, until a person decides. */
  waits: boolean;
};

const terminal = [CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.CANCELLED];

/**
 * Calls tools, answers questions and watches calls. After a broken connection or a restart of the daemon, requests are sent again, and streams
 * continue at their last cursor. Methods throw a TooldError.
 */
export class Client {
  readonly calls: RpcClient<typeof CallService>;
  readonly tools: RpcClient<typeof ToolService>;
  readonly documents: RpcClient<typeof DocumentService>;
  /** Closes the connection. Open streams and later requests fail with Code.Canceled. */
  readonly close: () => void;
  private readonly patience: number;
  private readonly renews: boolean;

  constructor(address = "127.0.0.1:7130", options: ClientOptions = {}) {
    const { transport, close } = connect(address, options.token ?? "", options.tls);
    this.close = close;
    const rpc = new Rpc(transport);
    this.calls = rpc.client(CallService);
    this.tools = rpc.client(ToolService);
    this.documents = rpc.client(DocumentService);
    this.patience = options.patience ?? 60_000;
    this.renews = typeof options.token === "function";
  }

  /** Returns the tools for a model, with the turns of its messages. */
  async toolset<P extends Provider>(provider: P, o: ToolsetOptions & RequestOptions = {}): Promise<Toolset<P>> {
    const { signal, timeoutMs, ...options } = o;
    const toolset = new Toolset(this, provider, options);
    await toolset.refresh({ signal, timeoutMs });
    return toolset;
  }

  /** Returns a spec with a new id, so that sending it again does not run the call twice. */
  spec(tool: string, args: unknown = {}, o: SpecOptions = {}): CallSpec {
    const { callId, runId, threadId, labels, ...rest } = o;
    return create(CallSpecSchema, {
      tool, arguments: typeof args === "string" ? args : JSON.stringify(args), callId: callId || randomUUID(),
      run: runId || threadId || labels ? { runId, threadId, labels } : undefined, ...rest,
    });
  }

  /** Runs a tool and returns the call when it has ended or is suspended. */
  async call(tool: string, args: unknown = {}, o: SpecOptions & RequestOptions = {}): Promise<Call> {
    const { signal, timeoutMs, ...rest } = o, spec = this.spec(tool, args, rest), until = limit(o);
    for (;;) {
      const { call } = await this.request({ signal: until }, (signal) => this.calls.callTool({ spec, wait: durationFromMs(300_000) }, { signal }));
      if (call && (terminal.includes(call.status) || call.status === CallStatus.SUSPENDED)) return call;
    }
  }

  /** Returns what a call would do, and whether it would wait for a person. It runs nothing. */
  async describe(tool: string, args: unknown = {}, o: SpecOptions & RequestOptions = {}): Promise<Described> {
    const { signal, timeoutMs, ...rest } = o, spec = this.spec(tool, args, rest);
    const described = await this.request(o, (signal) => this.calls.describeCall({ spec }, { signal }));
    return { ...described, waits: described.outcome === VerdictAction.SUSPEND };
  }

  /** Runs a tool and yields its events, up to the terminal event, or up to a suspension unless waitForDecision is set. */
  execute(tool: string, args: unknown = {}, o: SpecOptions & RequestOptions & { waitForDecision?: boolean } = {}): AsyncGenerator<CallEvent> {
    const { waitForDecision, signal, timeoutMs, ...rest } = o;
    const spec = this.spec(tool, args, rest);
    return events(this.frames(o, (cursor, signal) => this.calls.executeTool({ spec, cursor, waitForDecision }, { signal })));
  }

  /** Runs the calls of a model turn and yields the frames. The last frame, batchFinished, has a result for each call. */
  batch(calls: CallSpec[], o: Omit<MessageInitShape<typeof BatchSpecSchema>, "calls"> & RequestOptions & { waitForDecision?: boolean } = {}): AsyncGenerator<Frame> {
    const { waitForDecision, signal, timeoutMs, ...rest } = o;
    const spec = create(BatchSpecSchema, { strategy: BatchStrategy.SEQUENTIAL, ...rest, batchId: rest.batchId || randomUUID(), calls } as MessageInitShape<typeof BatchSpecSchema>);
    return this.frames(o, (cursor, signal) => this.calls.executeBatch({ spec, cursor, waitForDecision }, { signal }));
  }

  /** Yields the frames of the calls that the selector names: a callId, batchId, runId, threadId or the namespace. */
  watch(request: MessageInitShape<typeof WatchCallsRequestSchema>, o: RequestOptions = {}): AsyncGenerator<Frame> {
    const { afterSequence, ...rest } = request as { afterSequence?: bigint };
    return this.frames(o, (cursor, signal) => this.calls.watchCalls({ follow: true, ...rest, ...(cursor ? { cursor } : { afterSequence }) } as typeof request, { signal }));
  }

  async get(callId: string, o: RequestOptions = {}): Promise<Call> {
    return (await this.request(o, (signal) => this.calls.getCall({ callId }, { signal }))).call!;
  }

  /** Requests the end of a call, and waits for it at most `wait` milliseconds. */
  async cancel(callId: string, reason = "", wait = 10_000, o: RequestOptions = {}): Promise<Call> {
    return (await this.request(o, (signal) => this.calls.cancelCall({ callId, reason, wait: durationFromMs(wait) }, { signal }))).call!;
  }

  /** Yields the calls that wait for a decision, oldest first. */
  async *waiting(filter: WaitingFilter = {}, o: RequestOptions = {}): AsyncGenerator<Call> {
    const until = limit(o);
    const paths = filter.readMask?.paths ?? [];
    const readMask = paths.length > 0 ? { paths: [...paths, "suspension.suspension_id"] } : undefined; // inbox and whoAmI need the id of the question
    for (let pageToken = ""; ;) {
      const request = { ...filter, readMask, statuses: [CallStatus.SUSPENDED], order: CallOrder.OLDEST_FIRST, pageToken } as MessageInitShape<typeof ListCallsRequestSchema>;
      const page = await this.request({ signal: until }, (signal) => this.calls.listCalls(request, { signal }));
      yield* page.calls;
      if (!(pageToken = page.nextPageToken)) return;
    }
  }

  /**
   * Yields the calls that wait for a decision, then each call that begins to wait, until the signal is aborted. It follows the stream
   * WatchInbox, so it needs no right to watch the namespace. A call comes once for each of its questions.
   */
  async *inbox(filter: WaitingFilter = {}, o: RequestOptions = {}): AsyncGenerator<Call> {
    const signal = limit(o);
    let shown = new Set<string>();
    for await (const frame of this.frames({ signal }, (_, signal) => questions(this.calls.watchInbox({ readMask: { paths: ["call_id"] } }, { signal })))) {
      if (frame.control.case !== "caughtUp" || shown.has(frame.cursor)) continue;
      const open = new Set<string>();
      for await (const call of this.waiting(filter, { signal })) {
        const id = call.suspension?.suspensionId ?? "";
        open.add(id);
        if (!shown.has(id)) yield call;
      }
      shown = open;
    }
  }

  /** Returns the principal of the client, and in `tickets` what it may do with the open question of each call. */
  whoAmI(calls: Call[] = [], o: RequestOptions = {}): Promise<WhoAmIResponse> {
    const suspensionIds = calls.map((call) => call.suspension?.suspensionId ?? "");
    return this.request(o, (signal) => this.calls.whoAmI({ suspensionIds }, { signal }));
  }

  /**
   * Says that the principal of the client looks at the open question of a call, for `forMs` milliseconds (default: 5 minutes). Claim it again to
   * extend the time. A claim prevents no decision. `release` ends the claim; then there is no result.
   */
  async claim(call: Call, o: RequestOptions & { forMs?: number; release?: boolean; takeOver?: boolean } = {}): Promise<Claim | undefined> {
    const { forMs, release, takeOver } = o, suspensionId = call.suspension?.suspensionId, duration = forMs === undefined ? undefined : durationFromMs(forMs);
    return (await this.request(o, (signal) => this.calls.claimSuspension({ suspensionId, duration, release, takeOver }, { signal }))).claim;
  }

  /** Computes the digest of a call's open question again from the call, and throws DigestMismatch when the digest differs. */
  verify(call: Call): void {
    if (call.suspension?.digest !== ofCall(call)) throw new DigestMismatch(`the question of ${call.callId} is for something else than it shows`);
  }

  /**
   * Approves exactly what the call shows, or answers its question. `resultInstead` becomes the result of the call, and the tool does not run;
   * the ticket must give this right. Returns an iterator over the events that follow.
   */
  async resume(call: Call, result?: unknown, o: RequestOptions & { arguments?: unknown; reason?: string; waitForDecision?: boolean; decisionId?: string; resultInstead?: ResultInstead } = {}): Promise<AsyncGenerator<CallEvent>> {
    this.verify(call);
    const text = (v: unknown) => (v === undefined ? "" : JSON.stringify(v)), { reason, decisionId, resultInstead: instead } = o;
    const resultInstead = instead && { ...instead, data: text(instead.data) };
    return this.decide(call, { action: DecisionAction.RESUME, result: text(result), arguments: text(o.arguments), reason, decisionId, resultInstead }, o);
  }

  /** Declines the open question of a call. Returns an iterator over the events that follow. */
  decline(call: Call, reason = "", o: RequestOptions & { decisionId?: string } = {}): Promise<AsyncGenerator<CallEvent>> {
    return this.decide(call, { action: DecisionAction.CANCEL, reason, decisionId: o.decisionId }, o);
  }

  private async decide(call: Call, d: MessageInitShape<typeof DecisionSchema>, o: RequestOptions & { waitForDecision?: boolean }): Promise<AsyncGenerator<CallEvent>> {
    const { suspensionId, digest } = call.suspension!, { waitForDecision } = o, signal = limit(o);
    const decision = create(DecisionSchema, { ...d, decisionId: d.decisionId || randomUUID(), expectedDigest: digest } as MessageInitShape<typeof DecisionSchema>);
    const read = (from: string) => this.frames({ signal }, (cursor, signal) => this.calls.resumeTool({ suspensionId, callId: call.callId, decision, waitForDecision, cursor }, { signal }), from);
    let first: Frame | undefined; // the first frame with events, which confirms the decision
    for await (first of read("")) if (first.events.length > 0) break; // break closes the stream, because nobody may ever read the events
    return (async function* () {
      yield* first?.events ?? [];
      if (first?.cursor) yield* events(read(first.cursor));
    })();
  }

  /**
   * Sends a request, and sends it again after temporary errors. The request must be one that may be sent twice.
   * @internal
   */
  async request<T>(o: RequestOptions, send: (signal?: AbortSignal) => Promise<T>): Promise<T> {
    const signal = limit(o), retry = new Retry(this.patience, signal, this.renews);
    for (;;) {
      try {
        return await send(signal);
      } catch (e) {
        await retry.after(e);
      }
    }
  }

  /**
   * Yields the frames of a stream, and opens it again at the last cursor when it breaks. A frame with events has the cursor after them.
   * @internal
   */
  async *frames(o: RequestOptions, open: (cursor: string, signal: AbortSignal) => AsyncIterable<{ frame?: Frame }>, from = ""): AsyncGenerator<Frame> {
    const until = limit(o), retry = new Retry(this.patience, until, this.renews);
    for (let cursor = from; ;) {
      const end = new AbortController(); // ends the stream when nobody reads it any more
      try {
        let again = false;
        for await (const { frame } of open(cursor, until ? AbortSignal.any([until, end.signal]) : end.signal)) {
          if (!frame) continue;
          const heartbeat = frame.control.case === "heartbeat";
          if (heartbeat || (frame.cursor && frame.cursor !== cursor)) retry.reset(); // each new stream sends the other frames again
          cursor = frame.cursor || cursor;
          if (frame.control.case === "closing") again = true;
          else if (!heartbeat) yield frame;
        }
        if (!again) return;
      } catch (e) {
        await retry.after(e);
        continue;
      } finally {
        end.abort();
      }
      await retry.wait();
    }
  }
}

/**
 * Yields the frames of one stream of WatchInbox: caughtUp when the list of the questions is complete, and again for each later question. The
 * cursor of a later change is the id of the question. It shows progress; the stream itself has no cursor.
 */
async function* questions(changes: AsyncIterable<WatchInboxResponse>): AsyncGenerator<{ frame: Frame }> {
  const frame = (init: MessageInitShape<typeof FrameSchema>) => ({ frame: create(FrameSchema, init) }), caughtUp = { case: "caughtUp", value: {} } as const;
  let complete = false;
  for await (const { change } of changes) {
    if (change.case === "heartbeat" || change.case === "closing") yield frame({ control: change });
    else if (change.case === "settled") yield frame({ cursor: change.value.suspensionId });
    else if (change.case === "waiting" && complete) yield frame({ cursor: change.value.rights?.suspensionId, control: caughtUp });
    else if (change.case === "caughtUp") {
      complete = true;
      yield frame({ control: caughtUp });
    }
  }
}

async function* events(frames: AsyncGenerator<Frame>): AsyncGenerator<CallEvent> {
  for await (const frame of frames) yield* frame.events;
}
