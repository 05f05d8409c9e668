import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, createClient, type Client as RpcClient } from "@connectrpc/connect";
import {
  AssessmentSchema, DescriptionSchema, Mutability, Safety, Tier, type Assessment, type Description,
} from "../gen/toold/v1/assessment_pb.js";
import type { DocumentScope } from "../gen/toold/v1/event_pb.js";
import { ProgressStatus } from "../gen/toold/v1/event_pb.js";
import { ErrorCode, ResultStatus } from "../gen/toold/v1/result_pb.js";
import { OnDoubt } from "../gen/toold/v1/tool_service_pb.js";
import {
  ConnectRequestSchema, WorkerAnswerSchema, WorkerQuestionKind, WorkerResultSchema, WorkerService, WorkerToolSchema, WorkKind, type ConnectRequest, type ConnectResponse, type WorkerAck, type WorkerCompleted,
  type WorkerCall, type WorkerAnswer, type WorkerInput, type WorkerQuestion, type WorkerRegistered, type WorkerResult, type WorkerStart, type WorkerTicketSchema, type WorkerTool,
} from "../gen/toold/v1/worker_service_pb.js";
import { connect, type TLS, type Token } from "./channel.js";
import { TooldError } from "./errors.js";
import { checkVersion } from "./version.js";

/** The size limit of a message in bytes. A larger message would break the connection, and again each time it is repeated. */
const maxMessage = (4 << 20) - 1024;

/** What Call.progress reports in addition to a fraction and a text. */
export interface ProgressOptions { status?: "pending" | "running" | "done" | "failed" | "cancelled"; loaded?: number; total?: number }

const progressStatus = {
  pending: ProgressStatus.PENDING, running: ProgressStatus.RUNNING, done: ProgressStatus.DONE, failed: ProgressStatus.FAILED, cancelled: ProgressStatus.CANCELLED,
};

/** The number of characters of an exception and its stack that a worker sends for the log of the daemon. */
const maxPanic = 4000;

/** The outcome of a piece of work. */
type Outcome = { result?: WorkerResult; notRun?: boolean; panic?: string };

/** The number of unsent messages above which Call.flushed waits. */
const maxWaiting = 256;

/** Replaces unpaired surrogates, such as a slice leaves, because they cannot be encoded as UTF-8. */
const readable = (text: string) => Buffer.from(text, "utf8").toString("utf8");

/** Returns the JSON text of a value, without unpaired surrogates. */
const jsonOf = (value: unknown) => JSON.stringify(value, (_, v: unknown) => typeof v === "string" ? readable(v) : v);

/** Returns why a message is too large to send, or "". */
function tooLarge(message: ConnectRequest["message"]): string {
  const n = toBinary(ConnectRequestSchema, create(ConnectRequestSchema, { message })).length;
  return n > maxMessage ? `it has ${n} bytes; at most ${maxMessage} are taken` : "";
}

/** A JSON Schema. */
export type Schema = Record<string, unknown>;

/** An error result that the model reads. The tool ran to its end, unless `aborted` is set. `reason` is the tool's own code. */
export class Fail extends Error {
  constructor(message: string, readonly reason = "", readonly code = ErrorCode.EXECUTION_FAILED, readonly aborted = false) { super(message); }
}

/** Suspends the call until a person answers. Then the function starts again from its beginning, and Call.answer has the answer. */
export class Question extends Error {
  readonly ticket: MessageInitShape<typeof WorkerTicketSchema>;
  constructor(message: string, answer?: Schema, ticket: MessageInitShape<typeof WorkerTicketSchema> = {}) {
    super(message);
    this.ticket = { action: "input", message, responseSchema: answer ? JSON.stringify(answer) : "", ...ticket };
  }
}

/**
 * The work continues elsewhere. While the call waits for it, neither worker nor daemon holds resources, and both may restart. toold calls the
 * tool's `poll` every `pollAfter` milliseconds, or Worker.complete ends the operation. The call fails after `expiresIn` milliseconds (default: a day).
 */
export class Continue extends Error {
  constructor(readonly operation: string, readonly options: { message?: string; pollAfter?: number; expiresIn?: number } = {}) { super(operation); }
}

/** The pool has no such operation, or the operation has ended. */
export class NoOperation extends Error {}

/** The call accepts no input. */
export class NoInput extends Error {}

/** The call must stop: it was cancelled, its time is over, or the daemon has given it up. */
export class CallCancelled extends Error {
  constructor(message: string, readonly code = ErrorCode.CANCELLED) { super(message); }
}

/** Thrown by a reconcile function when the attempt changed nothing. The call then runs again. */
export class NotRun extends Error {}

/** The effects of a call. */
export type Effects = {
  readOnly?: boolean; observe?: boolean; concurrencySafe?: boolean; openWorld?: boolean;
  /** Everything that the call uses. Calls that use different things run at the same time. */
  resources?: { kind: string; id?: string; shared?: boolean }[];
} | Assessment;

/** A description of a call for approvers: a title, or all fields of toold.v1.Description. */
export type Told = string | MessageInitShape<typeof DescriptionSchema>;

/** The description of a tool. Without `readOnly` and `observe` toold assumes that the tool changes things and that each call needs an approval. */
export interface ToolOptions {
  id: string;
  description?: string;
  /** JSON Schema of the arguments. Without it the tool takes no arguments. */
  parameters?: Schema;
  resultSchema?: Schema;
  displayName?: string; category?: string; guidance?: string; version?: string;
  readOnly?: boolean;
  observe?: boolean;
  concurrencySafe?: boolean;
  openWorld?: boolean;
  /** Checks rules that the schema cannot express, and throws Fail. It is called before an approver sees the call, and again before the function runs. */
  validate?: (call: Call, args: any) => unknown;
  /** Returns what a call would do, if that differs from the fields above. It cannot be milder than `mildest`, and must not change anything. */
  assess?: (call: Call, args: any) => Effects | Promise<Effects>;
  mildest?: Effects;
  /** Tells approvers what a call would do, within 200 ms: a title, or more. It must not change anything. */
  describe?: (call: Call, args: any) => Told | Promise<Told>;
  /** An unfinished attempt may run again with the same idempotency key. */
  idempotent?: boolean;
  /** When the outcome of an attempt is unknown, a person decides. Otherwise the call fails. */
  askOnDoubt?: boolean;
  /** Time limit of one attempt, in milliseconds. */
  timeout?: number;
  documents?: { scope: DocumentScope; key: string }[];
  /** Reports after a crash what became of an attempt. It returns the data of the result, throws NotRun, or returns undefined when it does not know. */
  reconcile?: (call: Call) => unknown;
  /** Returns the data of an operation that has ended, or undefined while it continues. An error means that the state is unknown; toold polls again. */
  poll?: (call: Call) => unknown;
  /** Called when a question will not be answered, or when an operation is no longer needed (info.operationId). */
  abandon?: (call: Call) => unknown;
}

export interface WorkerOptions {
  pool: string;
  /** host:port, the path of a socket, or an https:// URL. Default: 127.0.0.1:7130. */
  address?: string;
  /**
   * A function returns the token of each connection, for tokens that expire or are rotated. A worker that the daemon has admitted once connects
   * again when its token ends, until the function returns a valid one.
   */
  token?: Token;
  tls?: TLS;
  name?: string;
  version?: string;
  labels?: Record<string, string>;
  maxCalls?: number;
  /** How many milliseconds running calls may continue after stop(). Default: 30,000. */
  drainTime?: number;
  log?: (text: string) => void;
}

type Run = (call: Call, args: any) => unknown;

/** Serves TypeScript functions as tools. It dials the daemon, and dials again when the connection breaks. Running calls continue meanwhile. */
export class Worker {
  readonly jobs = new Map<string, Job>();
  private readonly completing = new Map<string, { message: Message; settle: (answer: WorkerCompleted) => void }>();
  private readonly tools = new Map<string, { offer: WorkerTool; run: Run; options: ToolOptions }>();
  private readonly out: ConnectRequest[] = []; // messages to send; they survive a broken connection
  private wake = () => {};
  private lease = 15_000;
  private last = ""; // the worker id of the last connection
  private fence = { store: "", epoch: 0n, attempts: new Map<string, number>() }; // the highest epoch seen, and the newest attempt of each call
  /** Whether the daemon supports input. */
  input = false;
  private stopping = false;
  readonly log: (text: string) => void;

  constructor(private readonly options: WorkerOptions) {
    this.log = options.log ?? ((text) => console.error(text));
  }

  /** Offers a function as a tool. The returned value is the data of the result. A returned string is also the text for the model. */
  tool<Args = Record<string, never>>(options: ToolOptions, run: (call: Call, args: Args) => unknown): this {
    const o = options;
    if (this.tools.has(o.id)) throw new Error(`tool ${o.id} is defined twice`);
    const answers = [...(o.reconcile ? [WorkKind.RECONCILE] : []), ...(o.abandon ? [WorkKind.ABANDON] : []), ...(o.poll ? [WorkKind.POLL] : [])];
    const questions = [
      ...(o.validate ? [WorkerQuestionKind.VALIDATE] : []), ...(o.assess ? [WorkerQuestionKind.ASSESS] : []), ...(o.describe ? [WorkerQuestionKind.DESCRIBE] : []),
    ];
    const offer = create(WorkerToolSchema, {
      answers, questions, documents: o.documents, descriptor: {
        id: o.id, description: o.description, displayName: o.displayName, category: o.category, guidance: o.guidance, version: o.version,
        parameters: o.parameters ? JSON.stringify(o.parameters) : "", resultSchema: o.resultSchema ? JSON.stringify(o.resultSchema) : "",
        idempotent: o.idempotent, onDoubt: o.askOnDoubt ? OnDoubt.ASK : OnDoubt.UNSPECIFIED,
        effects: assessment(o), mildest: o.mildest && assessment({ openWorld: o.openWorld, ...o.mildest }),
        timeouts: o.timeout ? { attempt: durationFromMs(o.timeout) } : undefined,
      },
    });
    this.tools.set(o.id, { offer, run: run as Run, options });
    return this;
  }

  /**
   * Ends an operation with the data of its result, or with a Fail. When the promise resolves, the outcome is stored. It waits for a connection and
   * until the daemon knows the operation. Any worker of the pool may call it. Throws NoOperation.
   */
  async complete(callId: string, operationId: string, value?: unknown): Promise<void> {
    const result = value instanceof Error ? failed(value) : success(value);
    const message: Message = { case: "complete", value: { $typeName: "toold.v1.WorkerComplete", callId, operationId, result } };
    const why = tooLarge(message), key = JSON.stringify([callId, operationId]);
    if (why) throw new Error("result not sent: " + why);
    try {
      for (;;) {
        const answer = await new Promise<WorkerCompleted>((settle) => {
          this.completing.set(key, { message, settle });
          this.say(message);
        });
        if (!answer.error) return;
        if (!answer.retryable) throw new NoOperation(answer.error);
        await sleep(200);
      }
    } finally {
      this.completing.delete(key);
    }
  }

  /** Accepts no more calls, and makes run() return when the running calls have ended. */
  stop(): void {
    this.stopping = true;
    this.wake();
  }

  /** Serves until stop(). It throws a TooldError when the daemon will never accept the worker. */
  async run(): Promise<void> {
    const channel = connect(this.options.address ?? "127.0.0.1:7130", this.options.token ?? "", this.options.tls);
    try {
      await this.serve(createClient(WorkerService, channel.transport), () => checkVersion(channel.transport));
    } finally {
      channel.close();
    }
  }

  private async serve(client: RpcClient<typeof WorkerService>, check: () => Promise<void>): Promise<void> {
    let checked = false;
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      const began = performance.now();
      try {
        if (!checked) await check();
        checked = true;
        if (await this.connection(client)) break;
      } catch (e) {
        const error = TooldError.from(e);
        const renews = typeof this.options.token === "function" && this.last !== "" && error.code === Code.Unauthenticated;
        if (!renews && (error.reason === "VERSION_MISMATCH" || [Code.InvalidArgument, Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented].includes(error.code))) throw error;
        this.log("connection lost: " + error.message);
      }
      for (const job of this.jobs.values()) job.wait(this.lease);
      if (this.stopping && this.jobs.size === 0) break;
      if (performance.now() - began > 10_000) pause = 100;
      await sleep(pause);
    }
    for (const job of [...this.jobs.values()]) job.drop("the worker stops");
  }

  say(m: ConnectRequest["message"]): void {
    this.out.push(create(ConnectRequestSchema, { message: m }));
    this.wake();
  }

  /** Wakes the sender. */
  stirred(): void { this.wake(); }

  /** Removes the reports of a job that are not sent yet. */
  forget(lease: string): void {
    this.keep((m) => m.case !== "report" || m.value.leaseId !== lease);
  }

  private keep(which: (m: Message) => boolean): void {
    const kept = this.out.filter((m) => which(m.message));
    this.out.length = 0;
    for (const m of kept) this.out.push(m);
  }

  /** Waits until at most maxWaiting messages are unsent. */
  async room(signal: AbortSignal): Promise<void> {
    while (this.out.length > maxWaiting && !signal.aborted) await sleep(10);
    signal.throwIfAborted();
  }

  /** Serves over one connection. Returns true when the worker has drained. */
  private async connection(client: RpcClient<typeof WorkerService>): Promise<boolean> {
    const end = new AbortController();
    const state = { up: false, drained: false, heard: performance.now() };
    try {
      for await (const m of client.connect(this.requests(end, state), { signal: end.signal })) {
        state.heard = performance.now();
        this.take(m);
        if (!state.up) {
          state.up = true;
          this.wake();
        }
      }
    } finally {
      end.abort();
      this.wake();
    }
    return state.drained;
  }

  private async *requests(end: AbortController, state: { up: boolean; drained: boolean; heard: number }): AsyncIterable<ConnectRequest> {
    yield create(ConnectRequestSchema, { message: { case: "register", value: {
      pool: this.options.pool, name: this.options.name ?? `${hostname()}/${process.pid}`, version: this.options.version ?? "",
      labels: this.options.labels ?? {}, maxCalls: this.options.maxCalls ?? 0, tools: [...this.tools.values()].map((t) => t.offer), held: [...this.jobs.keys()],
      previous: this.last,
    } } });
    let last = performance.now(), draining = false;
    const beat = () => this.lease / 3;
    while (!end.signal.aborted) {
      if (state.up) {
        if (performance.now() - state.heard > this.lease) {
          end.abort();
          return;
        }
        if (this.stopping && !draining) {
          draining = true;
          setTimeout(() => { for (const job of this.jobs.values()) job.cancel(new CallCancelled("the worker stops", ErrorCode.INTERRUPTED)); },
            this.options.drainTime ?? 30_000).unref();
          yield create(ConnectRequestSchema, { message: { case: "drain", value: {} } });
        }
        const m = this.out.shift();
        if (m) {
          yield m;
          continue;
        }
        if (draining && this.jobs.size === 0) {
          state.drained = true;
          return;
        }
        if (performance.now() - last >= beat()) {
          last = performance.now();
          yield create(ConnectRequestSchema, { message: { case: "heartbeat", value: {} } });
        }
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, beat() / 2);
        this.wake = () => { clearTimeout(timer); resolve(); };
      });
    }
  }

  private take(m: ConnectResponse): void {
    switch (m.message.case) {
      case "registered": return this.registered(m.message.value);
      case "start": return this.begin(m.message.value);
      case "cancel": return this.jobs.get(m.message.value.leaseId)?.cancel(new CallCancelled(m.message.value.message, m.message.value.code));
      case "lost": return this.jobs.get(m.message.value.leaseId)?.drop("the daemon gave the call up");
      case "question": return void this.consider(m.message.value, this.last);
      case "completed": return this.completing.get(JSON.stringify([m.message.value.callId, m.message.value.operationId]))?.settle(m.message.value);
      case "input": return this.jobs.get(m.message.value.leaseId)?.given(m.message.value);
      case "ack": return this.jobs.get(m.message.value.leaseId)?.acknowledged(m.message.value);
    }
  }

  private registered(r: WorkerRegistered): void {
    for (const no of r.refused) this.log(`tool ${no.tool} is not served: ${no.reason}: ${no.message}`);
    this.log("connected as " + r.workerId);
    this.lease = durationMs(r.lease!);
    if (r.storeId !== this.fence.store) this.fence = { store: r.storeId, epoch: 0n, attempts: new Map() };
    if (r.epoch > this.fence.epoch) this.fence.epoch = r.epoch;
    this.last = r.workerId;
    this.keep((m) => m.case !== "answer"); // an answer must go over the connection that asked
    this.input = r.input;
    for (const [id, job] of [...this.jobs]) {
      if (r.kept.includes(id)) job.again();
      else job.drop("the daemon gave the call up");
    }
    for (const { message } of this.completing.values()) this.say(message);
  }

  /** Answers a question about a call that has not started yet. The answer goes over the connection that asked. */
  private async consider(q: WorkerQuestion, connection: string): Promise<void> {
    const call = new Call(q.call!), options = this.tools.get(call.info.tool)?.options;
    const answer = (part: MessageInitShape<typeof WorkerAnswerSchema>) => create(WorkerAnswerSchema, { questionId: q.questionId, ...part });
    let value: WorkerAnswer;
    try {
      const args = JSON.parse(call.info.arguments);
      if (q.kind === WorkerQuestionKind.VALIDATE && options?.validate) {
        await valid(options, call, args);
        value = answer({});
      } else if (q.kind === WorkerQuestionKind.ASSESS && options?.assess) {
        value = answer({ assessment: assessment({ openWorld: options.openWorld, ...await options.assess(call, args) }) });
      } else if (q.kind === WorkerQuestionKind.DESCRIBE && options?.describe) {
        value = answer({ description: description(await options.describe(call, args)) });
      } else throw new Error(`the worker does not answer ${WorkerQuestionKind[q.kind]}`);
      const why = tooLarge({ case: "answer", value });
      if (why) throw new Error("answer not sent: " + why);
    } catch (e) {
      if (!(e instanceof Fail)) this.log(`${call.info.tool}: ${e instanceof Error ? e.stack : e}`);
      // Question and Continue are not allowed before the call runs. Their results contain no error, so they would count as success here.
      value = answer({ error: failed(e instanceof Question || e instanceof Continue ? new Error(e.message) : e).error });
    }
    if (connection === this.last) this.say({ case: "answer", value });
  }

  private begin(start: WorkerStart): void {
    const job = new Job(this, start.leaseId);
    this.jobs.set(start.leaseId, job);
    if (!this.admits(start)) return job.finish({ notRun: true });
    void this.perform(job, start).then((done) => job.finish(done));
  }

  /** Refuses work from a daemon that has lost its store to another daemon: its epoch or the attempt is lower than one already seen. */
  private admits({ epoch, call }: WorkerStart): boolean {
    if (epoch === 0n) return true; // an older daemon sends no epoch
    const fence = this.fence, key = `${call!.namespace}/${call!.callId}`;
    if (epoch < fence.epoch || call!.attempt < (fence.attempts.get(key) ?? 0)) {
      this.log(`call ${call!.callId} not started: another daemon now owns the store of the requesting daemon`);
      return false;
    }
    if (fence.attempts.size >= 1 << 14) fence.attempts.clear();
    fence.epoch = epoch;
    fence.attempts.set(key, call!.attempt);
    return true;
  }

  private async perform(job: Job, start: WorkerStart): Promise<Outcome> {
    const call = new Call(start.call!, job), tool = this.tools.get(call.info.tool);
    try {
      if (!tool) return { notRun: true };
      if (start.kind === WorkKind.EXECUTE) {
        const args = JSON.parse(call.info.arguments);
        await valid(tool.options, call, args); // a call without an approval may not have been validated yet
        return { result: success(await tool.run(call, args)) };
      }
      if (start.kind === WorkKind.RECONCILE) {
        const value = await tool.options.reconcile?.(call);
        return value === undefined ? {} : { result: success(value) };
      }
      if (start.kind === WorkKind.POLL) {
        const value = await tool.options.poll?.(call);
        return value === undefined ? {} : { result: success(value) };
      }
      if (start.kind === WorkKind.ABANDON) await tool.options.abandon?.(call);
      return {};
    } catch (e) {
      if (e instanceof NotRun) return { notRun: true };
      if (!(e instanceof Question || e instanceof Continue || e instanceof Fail || e instanceof CallCancelled)) {
        const text = `${call.info.tool}: ${e instanceof Error ? e.stack ?? e : String(e)}`;
        this.log(text);
        if (start.kind === WorkKind.EXECUTE) return { panic: readable(text.slice(0, maxPanic)) };
        if (start.kind === WorkKind.POLL) return { notRun: true }; // the state is unknown: toold polls again
      }
      return { result: failed(e) };
    }
  }
}

/** Runs the validate function of a tool. Its Fail counts as invalid arguments and not as a failed run. */
async function valid(options: ToolOptions, call: Call, args: unknown): Promise<void> {
  try {
    await options.validate?.(call, args);
  } catch (e) {
    if (!(e instanceof Fail)) throw e;
    throw new Fail(e.message, e.reason, e.code === ErrorCode.EXECUTION_FAILED ? ErrorCode.INVALID_ARGUMENTS : e.code, true);
  }
}

function assessment(e: Effects): Assessment {
  if ("$typeName" in e) return e;
  return create(AssessmentSchema, {
    mutability: e.readOnly ? Mutability.READ_ONLY : Mutability.UNSPECIFIED, safety: e.readOnly ? Safety.READ_ONLY : Safety.UNSPECIFIED,
    tier: e.observe ? Tier.OBSERVE : Tier.UNSPECIFIED, concurrencySafe: e.concurrencySafe, openWorld: e.openWorld, resources: e.resources,
  });
}

const description = (told: Told): Description => create(DescriptionSchema, typeof told === "string" ? { title: readable(told) } : told);

/** Returns a successful result with this data. It returns a WorkerResult unchanged. */
function success(value: unknown): WorkerResult {
  if (value !== null && typeof value === "object" && (value as { $typeName?: string }).$typeName === WorkerResultSchema.typeName) return value as WorkerResult;
  return create(WorkerResultSchema, {
    status: ResultStatus.SUCCESS, data: jsonOf(value ?? null), message: typeof value === "string" ? readable(value) : "",
  });
}

function failed(e: unknown): WorkerResult {
  if (e instanceof Question) return create(WorkerResultSchema, { status: ResultStatus.PENDING, message: e.message, ticket: e.ticket });
  if (e instanceof Continue) {
    const { message = "", pollAfter, expiresIn } = e.options;
    return create(WorkerResultSchema, { status: ResultStatus.PENDING, message: readable(message), operation: {
      operationId: e.operation, pollAfter: pollAfter ? durationFromMs(pollAfter) : undefined, expiresIn: expiresIn ? durationFromMs(expiresIn) : undefined,
    } });
  }
  const error =
    e instanceof Fail ? { code: e.code, reason: e.reason, message: readable(e.message), aborted: e.aborted } :
    e instanceof CallCancelled ? { code: e.code, message: readable(e.message), aborted: true } :
    { code: ErrorCode.INTERNAL, message: "The tool failed internally: " + (e instanceof Error ? e.name : typeof e), aborted: true };
  return create(WorkerResultSchema, { status: ResultStatus.ERROR, error });
}

/** One attempt of one call. Its methods report to the daemon. `info` has the data of the call. */
export class Call {
  constructor(readonly info: WorkerCall, private readonly job?: Job) {}

  /** Aborted when the call must stop. Its reason is a CallCancelled. */
  get signal(): AbortSignal { return this.job?.stop.signal ?? new AbortController().signal; }

  /** Throws when the call must stop. */
  check(): void { this.signal.throwIfAborted(); }

  /** Sleeps, and throws as soon as the call must stop. */
  async sleep(ms: number): Promise<void> {
    this.check();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
    this.check();
  }

  /** True if this attempt started because of an answer. */
  get resumed(): boolean { return this.info.resume !== undefined; }

  /** The answer to the call's question, or undefined. */
  get answer(): unknown { return this.info.resume?.result ? JSON.parse(this.info.resume.result) : undefined; }

  /** Returns the value of one of the tool's documents. */
  document(scope: DocumentScope, key: string): unknown {
    const found = this.info.documents.find((d) => d.scope === scope && d.key === key);
    return found && JSON.parse(found.value);
  }

  /**
   * Reports how far the tool is, as a fraction from 0 to 1 or as amounts in a unit that the tool chooses. 0 means unknown. The status is not the
   * status of the call.
   */
  progress(fraction: number, message = "", { status = "running", loaded = 0, total = 0 }: ProgressOptions = {}): void {
    const known = progressStatus[status];
    if (known === undefined) throw new RangeError(`status is ${status}; want one of ${Object.keys(progressStatus).join(", ")}`);
    if (!(fraction >= 0 && fraction <= 1 && loaded >= 0 && total >= 0)) throw new RangeError("fraction must be between 0 and 1, and loaded and total must not be negative");
    this.job?.report({
      case: "progress", value: { $typeName: "toold.v1.Progress", status: known, fraction, message: readable(message), loaded: BigInt(Math.round(loaded)), total: BigInt(Math.round(total)) },
    });
  }

  activity(activityId: string, activityType: string, content: unknown): void {
    this.job?.report({ case: "activitySnapshot", value: { $typeName: "toold.v1.ActivitySnapshot", activityId, activityType, content: jsonOf(content) } });
  }

  /** Changes an activity with a list of RFC 6902 (JSON Patch) operations. */
  activityDelta(activityId: string, patch: unknown[]): void {
    this.job?.report({ case: "activityDelta", value: { $typeName: "toold.v1.ActivityDelta", activityId, patch: jsonOf(patch) } });
  }

  output(data: string | Uint8Array, stream = "stdout"): void {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let i = 0; i < bytes.length; i += 512 << 10) {
      this.job?.report({ case: "output", value: { $typeName: "toold.v1.Output", stream, offset: 0n, length: 0n, data: bytes.slice(i, i + (512 << 10)) } });
    }
  }

  /**
   * Lets clients send input to the call from now on (SendInput, toold input). Each byte comes once and in order, also after a broken connection.
   * The loop `for await (const bytes of await call.input())` ends at the end of the input, and throws when the call must stop. Leaving the loop
   * tells the daemon that the tool needs no more input. input() may be called once per attempt. The daemon buffers up to 64 KiB of unread input.
   */
  async input(): Promise<AsyncGenerator<Uint8Array, void, void>> {
    if (!this.job) throw new NoInput("the call takes no input"); // in a unit test of the function
    await this.job.takeInput();
    return typed(this.job);
  }

  /** Waits until few messages are unsent. A function with much output should await it regularly, because unsent output is kept in memory. */
  async flushed(): Promise<void> { await this.job?.room(); }

  /** Stores bytes for the next attempt (info.checkpoint). When the promise resolves, the bytes are in the journal. */
  async saveCheckpoint(data: Uint8Array): Promise<void> { await this.job?.save({ case: "checkpoint", value: data }); }

  /** Stores data that is too large for a result, at most 4 MiB, and returns the stored name. */
  async saveArtifact(name: string, data: Uint8Array, mimeType = "application/octet-stream"): Promise<string> {
    return await this.job?.save({ case: "artifact", value: { $typeName: "toold.v1.WorkerArtifact", name, mimeType, data } }) ?? name;
  }
}

/** Yields the input of a call. */
async function* typed(job: Job): AsyncGenerator<Uint8Array, void, void> {
  let position = 0n;
  for (let ended = false; !ended;) {
    let got = false;
    try {
      const m = await job.read(position, 64 << 10);
      position += BigInt(m.data.length);
      ended = m.endOfInput;
      got = true;
      if (m.data.length > 0) yield m.data;
      got = false;
    } finally {
      if (got) job.hangUp(position); // the reader has left the loop
    }
  }
}

type Message = ConnectRequest["message"];
type Report = Extract<Message, { case: "report" }>["value"]["report"];

/** Work under a lease. It exists until the daemon has confirmed its outcome. */
class Job {
  readonly stop = new AbortController();
  private patience?: NodeJS.Timeout;
  private sequence = 0n;
  private readonly saving = new Map<bigint, { message: Message; settle: (error: string, name: string) => void }>();
  private done?: Message;
  private dropped = false;
  private typed = false; // input was requested
  private asking?: { message: Message; position: bigint; settle: (m: WorkerInput) => void };

  constructor(private readonly worker: Worker, private readonly lease: string) {}

  async takeInput(): Promise<void> {
    if (!this.worker.input) throw new NoInput("the call takes no input: the daemon gives workers none");
    if (this.typed) throw new NoInput("the call takes no input: it was asked for already");
    this.typed = true;
    await this.read(0n, 0);
  }

  /** Requests input. If the connection breaks meanwhile, again() repeats the request. */
  async read(position: bigint, maxBytes: number): Promise<WorkerInput> {
    const signal = this.stop.signal;
    const m = await new Promise<WorkerInput>((settle, reject) => {
      const stopped = () => reject(signal.reason);
      signal.addEventListener("abort", stopped, { once: true });
      this.ask(position, maxBytes, false, (m) => { signal.removeEventListener("abort", stopped); settle(m); });
    });
    if (m.error) throw new NoInput(m.error);
    return m;
  }

  hangUp(position: bigint): void {
    if (!this.stop.signal.aborted) this.ask(position, 0, true, () => {});
  }

  private ask(position: bigint, maxBytes: number, close: boolean, settle: (m: WorkerInput) => void): void {
    const message = this.report({ case: "readInput", value: { $typeName: "toold.v1.WorkerReadInput", position, maxBytes, close } });
    this.asking = { message, position, settle };
  }

  /** Passes input to the reader. It drops input that was not requested or was already received. */
  given(m: WorkerInput): void {
    const asking = this.asking;
    if (asking?.position !== m.position) return;
    this.asking = undefined;
    asking.settle(m);
  }

  report(report: Report, sequence = 0n): Message {
    this.stop.signal.throwIfAborted();
    const message: Message = { case: "report", value: { $typeName: "toold.v1.WorkerReport", leaseId: this.lease, sequence, report } };
    const why = tooLarge(message);
    if (why && sequence > 0n) throw new Error(`${report.case} not sent: ${why}`);
    if (why) {
      this.worker.log("report not sent: " + why);
      return message;
    }
    this.worker.say(message);
    return message;
  }

  save(report: Report): Promise<string> {
    const sequence = ++this.sequence;
    return new Promise((resolve, reject) => {
      const message = this.report(report, sequence);
      this.saving.set(sequence, { message, settle: (error, name) => error ? reject(new Error(error)) : resolve(name) });
    });
  }

  finish(done: Outcome): void {
    if (this.dropped) return;
    this.done = { case: "done", value: { $typeName: "toold.v1.WorkerDone", leaseId: this.lease, result: done.result, notRun: done.notRun ?? false, panic: done.panic ?? "" } };
    const why = tooLarge(this.done);
    if (why) {
      this.done.value.result = failed(new Fail("The tool ran, but its result cannot be sent: " + why, "RESULT_TOO_LARGE"));
    }
    this.worker.say(this.done);
  }

  room(): Promise<void> { return this.worker.room(this.stop.signal); }

  cancel(cause: CallCancelled): void { this.stop.abort(cause); }

  /** Starts the lease's timer. Another connection must resume the job before the lease expires. */
  wait(lease: number): void { this.patience ??= setTimeout(() => this.drop("the daemon was not reached in time"), lease); }

  /** Repeats the messages that the daemon has not confirmed. */
  again(): void {
    clearTimeout(this.patience);
    this.patience = undefined;
    for (const { message } of this.saving.values()) this.worker.say(message);
    if (this.asking) this.worker.say(this.asking.message);
    if (this.done) this.worker.say(this.done);
  }

  drop(why: string): void {
    this.dropped = true;
    clearTimeout(this.patience);
    this.cancel(new CallCancelled(why));
    this.worker.jobs.delete(this.lease);
    this.worker.forget(this.lease);
    for (const { settle } of this.saving.values()) settle(why, "");
    this.saving.clear();
    this.worker.stirred();
  }

  acknowledged(ack: WorkerAck): void {
    if (ack.sequence === 0n) return this.drop("the call has ended");
    this.saving.get(ack.sequence)?.settle(ack.error, ack.artifact);
    this.saving.delete(ack.sequence);
  }
}
