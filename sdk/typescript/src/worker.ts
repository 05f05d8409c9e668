import { hostname } from "node:os";
import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Client as RpcClient } from "@connectrpc/connect";
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
import { connect, sleep, type TLS } from "./channel.js";

/** What the daemon takes in one message. A larger one would end the connection, and again with each that follows. */
const maxMessage = (4 << 20) - 1024;

/** How many messages may wait before a call that prints much should wait, too. */
const maxWaiting = 256;

/** A text without halves of characters, such as a slice leaves. */
const readable = (text: string) => Buffer.from(text, "utf8").toString("utf8");

/** JSON text of a value, without halves of characters. */
const jsonOf = (value: unknown) => JSON.stringify(value, (_, v: unknown) => typeof v === "string" ? readable(v) : v);

/** Why a message cannot be sent; "" when it can. */
function tooLarge(message: ConnectRequest["message"]): string {
  const n = toBinary(ConnectRequestSchema, create(ConnectRequestSchema, { message })).length;
  return n > maxMessage ? `it has ${n} bytes; at most ${maxMessage} are taken` : "";
}

/** A JSON Schema. */
export type Schema = Record<string, unknown>;

/** An answer that the model reads: the tool ran to its end and says no. `reason` is the tool's own code. */
export class Fail extends Error {
  constructor(message: string, readonly reason = "", readonly code = ErrorCode.EXECUTION_FAILED, readonly aborted = false) { super(message); }
}

/** Suspends the call until somebody answers. The function starts again from its beginning then: see Call.answer. */
export class Question extends Error {
  readonly ticket: MessageInitShape<typeof WorkerTicketSchema>;
  constructor(message: string, answer?: Schema, ticket: MessageInitShape<typeof WorkerTicketSchema> = {}) {
    super(message);
    this.ticket = { action: "input", message, responseSchema: answer ? JSON.stringify(answer) : "", ...ticket };
  }
}

/**
 * The work goes on elsewhere. The call waits for it and holds nothing meanwhile, also over restarts: the tool's `poll` is asked for it each
 * `pollAfter` milliseconds, or Worker.complete ends it. The call fails after `expiresIn` milliseconds; a day when it is not said.
 */
export class Continue extends Error {
  constructor(readonly operation: string, readonly options: { message?: string; pollAfter?: number; expiresIn?: number } = {}) { super(operation); }
}

/** The pool has no such operation, or it has ended. */
export class NoOperation extends Error {}

/** Nobody can type into the call. */
export class NoInput extends Error {}

/** The call is to stop: it was cancelled, is out of time, or the daemon has given it up. */
export class CallCancelled extends Error {
  constructor(message: string, readonly code = ErrorCode.CANCELLED) { super(message); }
}

/** Of a reconcile function: the attempt changed nothing, and the call runs again. */
export class NotRun extends Error {}

/** What a call would do to the world. */
export type Effects = { readOnly?: boolean; observe?: boolean; concurrencySafe?: boolean; openWorld?: boolean } | Assessment;

/** What people are told of a call. */
export type Told = string | MessageInitShape<typeof DescriptionSchema>;

/** What a function is. Without `readOnly` and `observe` it changes things, and somebody agrees to each call. */
export interface ToolOptions {
  id: string;
  description?: string;
  /** JSON Schema of the arguments; none takes no arguments. */
  parameters?: Schema;
  resultSchema?: Schema;
  displayName?: string; category?: string; guidance?: string; version?: string;
  readOnly?: boolean;
  observe?: boolean;
  concurrencySafe?: boolean;
  openWorld?: boolean;
  /** Throws Fail when the arguments are wrong in what the schema cannot say. It is asked before the call runs, and again when it runs. */
  validate?: (call: Call, args: any) => unknown;
  /** Says what a call would do, where that is milder or worse than the words above; never milder than `mildest`. It changes nothing. */
  assess?: (call: Call, args: any) => Effects | Promise<Effects>;
  mildest?: Effects;
  /** Tells people what a call would do, within 200 ms: a title, or more. It changes nothing. */
  describe?: (call: Call, args: any) => Told | Promise<Told>;
  /** Started and unfinished, it may run again with the same idempotency key. */
  idempotent?: boolean;
  /** Somebody is asked what became of an attempt whose end nobody saw; else the call fails. */
  askOnDoubt?: boolean;
  /** Milliseconds of one attempt. */
  timeout?: number;
  documents?: { scope: DocumentScope; key: string }[];
  /** Says after a crash what became of an attempt: its data; NotRun is thrown; undefined is unknown. */
  reconcile?: (call: Call) => unknown;
  /** Says how far an operation is: its data, when it has ended; undefined when it goes on. An error says that it could not find out. */
  poll?: (call: Call) => unknown;
  /** Hears of a question that will not be answered, and of an operation that nobody waits for any more (info.operationId). */
  abandon?: (call: Call) => unknown;
}

export interface WorkerOptions {
  pool: string;
  /** host:port, the path of a socket, or an https:// URL; 127.0.0.1:7130 when it is not said. */
  address?: string;
  token?: string;
  tls?: TLS;
  name?: string;
  version?: string;
  labels?: Record<string, string>;
  maxCalls?: number;
  /** Milliseconds that calls get to end when the worker stops; 30,000 when it is not said. */
  drainTime?: number;
  log?: (text: string) => void;
}

type Run = (call: Call, args: any) => unknown;

/** Serves TypeScript functions as tools. It dials the daemon, and again when the connection breaks; what runs goes on meanwhile. */
export class Worker {
  readonly jobs = new Map<string, Job>();
  private readonly completing = new Map<string, { message: Message; settle: (answer: WorkerCompleted) => void }>();
  private readonly tools = new Map<string, { offer: WorkerTool; run: Run; options: ToolOptions }>();
  private readonly out: ConnectRequest[] = []; // waits to be sent; what waits here survives a connection
  private wake = () => {};
  private lease = 15_000;
  private last = ""; // what the daemon called the connection
  private fence = { store: "", epoch: 0n, attempts: new Map<string, number>() }; // the highest epoch that was seen, and the newest attempts
  /** Whether the daemon gives input to calls. */
  input = false;
  private stopping = false;
  readonly log: (text: string) => void;

  constructor(private readonly options: WorkerOptions) {
    this.log = options.log ?? ((text) => console.error(text));
  }

  /** Makes a tool of a function. What it returns is the data of the result, and a string is the text for the model, too. */
  tool<Args = Record<string, never>>(options: ToolOptions, run: (call: Call, args: Args) => unknown): this {
    const o = options;
    if (this.tools.has(o.id)) throw new Error(`tool ${o.id} is there twice`);
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
   * Ends an operation with the data of its result, or with a Fail. When it resolves that is stored; it waits for a connection, and for the
   * daemon to know the operation. Any worker of the pool may complete it. Throws NoOperation.
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

  /** Gets no more calls, and ends when those that run have ended. */
  stop(): void {
    this.stopping = true;
    this.wake();
  }

  /** Serves until stop(). It throws a ConnectError when the daemon will never take the worker. */
  async run(): Promise<void> {
    const channel = connect(this.options.address ?? "127.0.0.1:7130", this.options.token ?? "", this.options.tls);
    try {
      await this.serve(createClient(WorkerService, channel.transport));
    } finally {
      channel.close();
    }
  }

  private async serve(client: RpcClient<typeof WorkerService>): Promise<void> {
    for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
      const began = performance.now();
      try {
        if (await this.connection(client)) break;
      } catch (e) {
        const error = ConnectError.from(e);
        if ([Code.InvalidArgument, Code.Unauthenticated, Code.PermissionDenied, Code.Unimplemented].includes(error.code)) throw error;
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

  /** Has the sender look again. */
  stirred(): void { this.wake(); }

  /** Takes back what a call told and was not sent yet. */
  forget(lease: string): void {
    this.keep((m) => m.case !== "report" || m.value.leaseId !== lease);
  }

  private keep(which: (m: Message) => boolean): void {
    const kept = this.out.filter((m) => which(m.message));
    this.out.length = 0;
    for (const m of kept) this.out.push(m);
  }

  /** Waits until little waits to be sent. */
  async room(signal: AbortSignal): Promise<void> {
    while (this.out.length > maxWaiting && !signal.aborted) await sleep(10);
    signal.throwIfAborted();
  }

  /** Serves over one connection. True when the worker has drained. */
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
    this.keep((m) => m.case !== "answer"); // they belong to the connection that asked
    this.input = r.input;
    for (const [id, job] of [...this.jobs]) {
      if (r.kept.includes(id)) job.again();
      else job.drop("the daemon gave the call up");
    }
    for (const { message } of this.completing.values()) this.say(message);
  }

  /** Answers what is asked of a call that does not run yet, over the connection that asked and no other. */
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
      // Nobody can be asked yet, and nothing has begun: the results of these have no error, which would mean that all is right.
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

  /** Refuses work of a daemon that lost its store to another one: of an epoch below one that was seen, or of an earlier attempt. */
  private admits({ epoch, call }: WorkerStart): boolean {
    if (epoch === 0n) return true; // an older daemon
    const fence = this.fence, key = `${call!.namespace}/${call!.callId}`;
    if (epoch < fence.epoch || call!.attempt < (fence.attempts.get(key) ?? 0)) {
      this.log(`call ${call!.callId} not begun: the daemon that asks has lost its store to another one`);
      return false;
    }
    if (fence.attempts.size >= 1 << 14) fence.attempts.clear();
    fence.epoch = epoch;
    fence.attempts.set(key, call!.attempt);
    return true;
  }

  private async perform(job: Job, start: WorkerStart): Promise<{ result?: WorkerResult; notRun?: boolean }> {
    const call = new Call(start.call!, job), tool = this.tools.get(call.info.tool);
    try {
      if (!tool) return { notRun: true };
      if (start.kind === WorkKind.EXECUTE) {
        const args = JSON.parse(call.info.arguments);
        await valid(tool.options, call, args); // nobody may have been there to be asked
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
        this.log(`${call.info.tool}: ${e instanceof Error ? e.stack : e}`);
        if (start.kind === WorkKind.POLL) return { notRun: true }; // it could not find out: it is asked again
      }
      return { result: failed(e) };
    }
  }
}

/** Asks a tool about arguments. What it says of them is no failure of a run. */
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
    tier: e.observe ? Tier.OBSERVE : Tier.UNSPECIFIED, concurrencySafe: e.concurrencySafe, openWorld: e.openWorld,
  });
}

const description = (told: Told): Description => create(DescriptionSchema, typeof told === "string" ? { title: readable(told) } : told);

/** The result with this data; a WorkerResult is taken as it is. */
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

/** One attempt of one call, and the way to tell how it goes. `info` has all that is known of it. */
export class Call {
  constructor(readonly info: WorkerCall, private readonly job?: Job) {}

  /** Aborted when the call is to stop; its reason is a CallCancelled. */
  get signal(): AbortSignal { return this.job?.stop.signal ?? new AbortController().signal; }

  /** Throws when the call is to stop. */
  check(): void { this.signal.throwIfAborted(); }

  /** Sleeps, and throws as soon as the call is to stop. */
  async sleep(ms: number): Promise<void> {
    this.check();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    });
    this.check();
  }

  /** True when an answer started this attempt. */
  get resumed(): boolean { return this.info.resume !== undefined; }

  /** The answer that the call waited for. */
  get answer(): unknown { return this.info.resume?.result ? JSON.parse(this.info.resume.result) : undefined; }

  /** The value of a document that the tool names. */
  document(scope: DocumentScope, key: string): unknown {
    const found = this.info.documents.find((d) => d.scope === scope && d.key === key);
    return found && JSON.parse(found.value);
  }

  progress(fraction: number, message = ""): void {
    this.job?.report({ case: "progress", value: { $typeName: "toold.v1.Progress", status: ProgressStatus.RUNNING, fraction, message: readable(message), loaded: 0n, total: 0n } });
  }

  activity(activityId: string, activityType: string, content: unknown): void {
    this.job?.report({ case: "activitySnapshot", value: { $typeName: "toold.v1.ActivitySnapshot", activityId, activityType, content: jsonOf(content) } });
  }

  /** Changes an activity by a list of RFC 6902 operations. */
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
   * Lets the caller type into the call from now on (SendInput, toold input). What is typed comes in order and each byte once, also over a broken
   * connection: `for await (const bytes of await call.input())` ends with the end of input, and throws when the call is to stop. A loop that is left
   * says that the tool wants no more. It may be asked for once in an attempt. What nobody reads the daemon keeps, up to 64 KiB.
   */
  async input(): Promise<AsyncGenerator<Uint8Array, void, void>> {
    if (!this.job) throw new NoInput("the call takes no input"); // in a test of the function
    await this.job.takeInput();
    return typed(this.job);
  }

  /** Waits until little waits to be sent: a function that prints much awaits it now and then, or all of it is kept in memory. */
  async flushed(): Promise<void> { await this.job?.room(); }

  /** Keeps bytes for the next attempt (info.checkpoint). When it resolves they are in the journal. */
  async saveCheckpoint(data: Uint8Array): Promise<void> { await this.job?.save({ case: "checkpoint", value: data }); }

  /** Stores what is too big for a result, at most 4 MiB, and gives the name under which it is kept. */
  async saveArtifact(name: string, data: Uint8Array, mimeType = "application/octet-stream"): Promise<string> {
    return await this.job?.save({ case: "artifact", value: { $typeName: "toold.v1.WorkerArtifact", name, mimeType, data } }) ?? name;
  }
}

/** What is typed into a call. */
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
      if (got) job.hangUp(position); // whoever reads wants no more
    }
  }
}

type Message = ConnectRequest["message"];
type Report = Extract<Message, { case: "report" }>["value"]["report"];

/** Work under a lease, until the daemon has taken its end. */
class Job {
  readonly stop = new AbortController();
  private patience?: NodeJS.Timeout;
  private sequence = 0n;
  private readonly saving = new Map<bigint, { message: Message; settle: (error: string, name: string) => void }>();
  private done?: Message;
  private dropped = false;
  private typed = false; // input was asked for
  private asking?: { message: Message; position: bigint; settle: (m: WorkerInput) => void };

  constructor(private readonly worker: Worker, private readonly lease: string) {}

  async takeInput(): Promise<void> {
    if (!this.worker.input) throw new NoInput("the call takes no input: the daemon gives workers none");
    if (this.typed) throw new NoInput("the call takes no input: it was asked for already");
    this.typed = true;
    await this.read(0n, 0);
  }

  /** Asks for input; again() repeats it when the connection broke meanwhile. */
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

  /** Takes input for whoever reads. What was not asked for, or twice, is left out. */
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

  finish(done: { result?: WorkerResult; notRun?: boolean }): void {
    if (this.dropped) return;
    this.done = { case: "done", value: { $typeName: "toold.v1.WorkerDone", leaseId: this.lease, result: done.result, notRun: done.notRun ?? false } };
    const why = tooLarge(this.done);
    if (why) {
      this.done.value.result = failed(new Fail("The tool ran, but its result cannot be sent: " + why, "RESULT_TOO_LARGE"));
    }
    this.worker.say(this.done);
  }

  room(): Promise<void> { return this.worker.room(this.stop.signal); }

  cancel(cause: CallCancelled): void { this.stop.abort(cause); }

  /** Gives the rest of the lease to be taken up by another connection. */
  wait(lease: number): void { this.patience ??= setTimeout(() => this.drop("the daemon was not reached in time"), lease); }

  /** Repeats what the daemon may not have heard. */
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
