import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { BatchReplay, BatchStrategy } from "../gen/toold/v1/batch_pb.js";
import { OfferedToolsSchema, RunSchema, type TimeoutsSchema } from "../gen/toold/v1/call_pb.js";
import type { CallEvent, Frame } from "../gen/toold/v1/event_pb.js";
import { ExportFormat, type ExportToolsResponse } from "../gen/toold/v1/tool_service_pb.js";
import { TurnProvider, TurnSpecSchema, type NotHandled, type TurnCall, type TurnSpec } from "../gen/toold/v1/turn_pb.js";
import type { Client } from "./client.js";
import { TooldError } from "./errors.js";
import { limit, type RequestOptions } from "./retry.js";

/** The format of a model's tools and messages: Chat Completions, Responses, Anthropic's Messages, generateContent, the AI SDK. */
export type Provider = "openai" | "openai-responses" | "anthropic" | "gemini" | "ai-sdk";

/** For the AI SDK an object of tools by name, without `execute`. For other providers the list for the member `tools` of a request. */
export type Tools<P extends Provider> = P extends "ai-sdk" ? Record<string, any> : any[];

const formats: Record<Provider, { turn: TurnProvider; plain: ExportFormat; strict?: ExportFormat }> = {
  openai: { turn: TurnProvider.OPENAI, plain: ExportFormat.OPENAI, strict: ExportFormat.OPENAI_STRICT },
  "openai-responses": { turn: TurnProvider.OPENAI_RESPONSES, plain: ExportFormat.OPENAI_RESPONSES, strict: ExportFormat.OPENAI_RESPONSES_STRICT },
  anthropic: { turn: TurnProvider.ANTHROPIC, plain: ExportFormat.ANTHROPIC },
  gemini: { turn: TurnProvider.GEMINI, plain: ExportFormat.GEMINI },
  "ai-sdk": { turn: TurnProvider.AI_SDK, plain: ExportFormat.MCP },
};

export interface ToolsetOptions {
  /** Globs of tool ids to offer. Default: all. */
  allow?: string[];
  /** Globs of tool ids to leave out. */
  exclude?: string[];
  /** Uses the strict mode of OpenAI. toold removes the nulls that this mode adds to arguments. */
  strict?: boolean;
  /** Names of tools that the client runs itself. Add them to the request; their calls are in TurnResult.notHandled. */
  ownTools?: string[];
  /** The largest number of tools, `tool_search` included. If more match, the model finds the others with `tool_search`. Default: no limit. */
  maxTools?: number;
  /** What the tools are for, such as the task of the agent. Tools that match it are preferred. It needs maxTools. */
  query?: string;
}

/** Returns a new random turn id. Store it with the model's message before the turn runs. */
export const newTurnId = (): string => randomUUID();

/** The tools of a model, from Client.toolset. */
export class Toolset<P extends Provider = Provider> {
  tools!: Tools<P>;
  /** Text for the system prompt; may be empty. */
  guidance = "";
  /** Changes when anything in tools or guidance changes. */
  revision = "";
  private recent: string[] = []; // ids of the tools that the model has called or found with tool_search, the newest first

  constructor(private readonly client: Client, readonly provider: P, readonly options: ToolsetOptions = {}) {
    const format = formats[provider];
    if (!format) throw new RangeError(`provider ${JSON.stringify(provider)} is none of ${Object.keys(formats).join(", ")}`);
    if (options.strict && !format.strict) throw new RangeError(`${provider} has no strict mode; only openai and openai-responses have one`);
  }

  /** Reads the tools again if they have changed. Returns true if they have. Call it before each request to the model. */
  async refresh(options: RequestOptions = {}): Promise<boolean> {
    const o = { signal: limit(options) }; // one time limit for all pages
    const include = this.options.maxTools ? this.recent : []; // the same for all pages, although the model may find tools meanwhile
    const first = await this.page({ include, ifRevision: this.revision }, o);
    if (first.notModified) return false;
    const pages = [first];
    for (let page = first; page.nextPageToken; pages.push(page)) {
      page = await this.page({ include, pageToken: page.nextPageToken }, o);
      if (page.revision !== first.revision) return this.refresh(o); // the tools changed between the pages
    }
    const list = pages.flatMap((page) => JSON.parse(page.tools) as any[]);
    this.tools = (this.provider === "ai-sdk" ? aiTools(list) : list) as Tools<P>;
    this.guidance = pages.map((page) => page.guidance).filter(Boolean).join("\n\n");
    this.revision = first.revision;
    return true;
  }

  private page(at: { include: string[]; ifRevision?: string; pageToken?: string }, o: RequestOptions): Promise<ExportToolsResponse> {
    const { plain, strict } = formats[this.provider], { maxTools, query } = this.options;
    const request = { format: this.options.strict ? strict : plain, offered: this.offered(), maxTools, query, ...at };
    return this.client.request(o, (signal) => this.client.tools.exportTools(request, { signal }));
  }

  /** Returns a turn that was executed before, for Turn.get and Turn.follow. */
  executed(turnId: string): Turn {
    return new Turn(this.client, this.provider, create(TurnSpecSchema, { turnId }), () => undefined);
  }

  private offered(): MessageInitShape<typeof OfferedToolsSchema> | undefined {
    const { allow, exclude } = this.options;
    return allow || exclude ? { allow, exclude } : undefined;
  }

  /**
   * Returns the turn of a model's message, which Turn.run executes. For Chat Completions the message is `choices[0].message`, for Responses
   * the array `output`, for Gemini `candidates[0].content`. JSON text is sent unchanged. An object no longer has the exact digits of integers
   * above 2^53; JSON.parse has rounded them.
   */
  turn(message: unknown, o: TurnOptions): Turn {
    if (!o?.turnId) throw new TypeError("turnId is required; newTurnId() makes one, and it is stored with the message");
    const { runId, threadId, run, ...rest } = o, offered = this.offered();
    const spec = create(TurnSpecSchema, {
      ...rest, provider: formats[this.provider].turn, message: typeof message === "string" ? message : JSON.stringify(message),
      strict: this.options.strict, ownTools: this.options.ownTools,
      run: create(RunSchema, { ...run, runId: runId ?? run?.runId, threadId: threadId ?? run?.threadId, agent: offered ? { ...run?.agent, tools: offered } : run?.agent } as MessageInitShape<typeof RunSchema>),
    });
    return new Turn(this.client, this.provider, spec, (tools) => {
      this.recent = [...new Set([...tools, ...this.recent])].slice(0, 1000);
    });
  }
}

/** Makes tools of the AI SDK, as `dynamicTool` of the package `ai` does: their types are not known when the app is compiled. `jsonSchema` of `ai` makes the same inputSchema. */
function aiTools(list: { name: string; description?: string; inputSchema: unknown }[]): Record<string, unknown> {
  return Object.fromEntries(list.map(({ name, description, inputSchema }) => [name, {
    type: "dynamic", description, inputSchema: { [Symbol.for("vercel.ai.schema")]: true, _type: undefined, jsonSchema: inputSchema, validate: undefined },
  }]));
}

export interface TurnOptions {
  /** 16 to 64 characters, unique forever; newTurnId() makes one. After a crash, the same id and message attach to the turn, and nothing runs twice. */
  turnId: string;
  runId?: string;
  threadId?: string;
  /** Further fields of the run. */
  run?: MessageInitShape<typeof RunSchema>;
  /** Why the response ended, such as `length`. Anthropic's message contains it. */
  stopReason?: string;
  /** Default: AUTO. */
  strategy?: BatchStrategy;
  maxParallel?: number;
  failFast?: boolean;
  replay?: BatchReplay;
  timeouts?: MessageInitShape<typeof TimeoutsSchema>;
}

/** The calls of one response of a model. */
export class Turn {
  private batchId = "";
  private searches = new Set<string>(); // calls of tool_search
  constructor(private readonly client: Client, private readonly provider: Provider, readonly spec: TurnSpec, private readonly prefer: (tools: string[]) => void) {}

  /**
   * Runs the calls and returns the messages for the model. Each event goes to onEvent once. After a broken connection or a restart of the
   * daemon it attaches again. When a call waits for a person, it returns without messages, unless waitForDecision is set.
   */
  run(o: RequestOptions & { onEvent?: (event: CallEvent) => unknown; waitForDecision?: boolean } = {}): Promise<TurnResult> {
    const { onEvent, waitForDecision } = o, { spec } = this;
    return this.read(this.client.frames(o, (cursor, signal) => this.client.calls.executeTurn({ spec, cursor, waitForDecision }, { signal })), onEvent);
  }

  /**
   * Returns the results of the turn, which was executed before. It waits at most `wait` milliseconds for calls without a result. With `placeholders`,
   * these calls get a marked text; the messages of a later get replace all of these messages. With `late`, the ids of such calls, the result has one
   * user message with their results, for a history that must not change.
   */
  get(o: RequestOptions & { wait?: number; placeholders?: boolean; late?: string[] } = {}): Promise<TurnResult> {
    const request = { turnId: this.spec.turnId, wait: durationFromMs(o.wait ?? 0), placeholders: o.placeholders, lateCallIds: o.late };
    return this.read(this.client.frames(o, (_, signal) => this.client.calls.getTurn(request, { signal })));
  }

  /**
   * Reports the events of a turn that was executed before, and returns its messages. It runs nothing. When a call waits for a person, it returns
   * without messages, unless waitForDecision is set.
   */
  async follow(o: RequestOptions & { onEvent?: (event: CallEvent) => unknown; waitForDecision?: boolean } = {}): Promise<TurnResult> {
    const { onEvent, waitForDecision } = o, until = { signal: limit(o) }, result = await this.get(until);
    if (!this.batchId) return result;
    for await (const { events, control } of this.client.watch({ selector: { case: "batchId", value: this.batchId } }, until)) {
      for (const event of events) await onEvent?.(event);
      if (control.case === "batchFinished" && !waitForDecision) break;
    }
    return this.get(until);
  }

  /** Cancels all open calls of the turn. It does not wait for their end. */
  async cancel(reason = "", options: RequestOptions = {}): Promise<void> {
    const o = { signal: limit(options) };
    if (!this.batchId) await this.get(o);
    const selector = { case: "batchId", value: this.batchId } as const;
    await this.client.request(o, (signal) => this.client.calls.cancelCalls({ selector, reason }, { signal }));
  }

  /** Reads the frames of a turn. Each stream sends all messages, so a message that a break cut off comes again. */
  private async read(frames: AsyncIterable<Frame>, onEvent?: (event: CallEvent) => unknown): Promise<TurnResult> {
    let messages: any[] = [], part = "", calls: TurnCall[] = [], result: TurnResult | undefined;
    for await (const { events, control } of frames) {
      for (const event of events) {
        this.search(event);
        await onEvent?.(event);
      }
      if (control.case === "turnStarted") {
        [messages, part, calls, this.batchId] = [[], "", control.value.calls, control.value.batchId];
        for (const call of calls) if (call.tool === "tool_search") this.searches.add(call.callId);
        // Otherwise found tools would soon displace the called tools from the list. A model may name a tool that does not exist, with a longer id.
        this.prefer(calls.map((call) => call.tool).filter((id) => id !== "tool_search" && id.length <= 64));
      } else if (control.case === "turnMessage") {
        part += control.value.part;
        if (control.value.last) [messages, part] = [[...messages, JSON.parse(part)], ""];
      } else if (control.case === "turnFinished") {
        const { open, notHandled, runBlocked } = control.value;
        result = new TurnResult(this.provider, messages, open, notHandled, runBlocked, calls);
      }
    }
    if (!result) throw new TooldError(Code.Internal, "the stream of the turn ended before its last frame");
    return result;
  }

  /** Notes the tools that a call of tool_search found. */
  private search({ callId, event }: CallEvent): void {
    if (event.case !== "finished" || !this.searches.has(callId)) return;
    try {
      this.prefer(JSON.parse(event.value.result?.data ?? "").tools.map((tool: any) => String(tool.id)));
    } catch {
      return; // the search failed, or a hook or the budget of output has changed its result
    }
  }
}

/** What a turn returned. */
export class TurnResult {
  constructor(
    private readonly provider: Provider,
    /** The messages for the model, in order. Append the model's message to the history, then these, all unchanged. None while a call is open. */
    readonly messages: any[],
    /** The ids of the calls without a result. */
    readonly open: string[],
    /** The calls that the client answers itself. */
    readonly notHandled: NotHandled[],
    /** A gate blocked the run: its further calls are refused until EndRun. */
    readonly runBlocked: boolean,
    /** The calls that toold ran. */
    readonly calls: TurnCall[],
  ) {}

  /**
   * Returns the messages with the client's own answers at their positions. `answers` has one entry for each entry of notHandled, in the same
   * order: for Anthropic a block `tool_result`, for Gemini a part `functionResponse`, for other providers a message.
   */
  merge(answers: any[]): any[] {
    const own = this.notHandled, inner = { anthropic: "content", gemini: "parts" }[this.provider as string];
    if (answers.length !== own.length) throw new RangeError(`${own.length} calls need an answer of the client, and ${answers.length} answers are given`);
    const first = this.messages[0] as Record<string, any> | undefined, answered: any[] = inner ? first?.[inner] ?? [] : this.messages;
    if (answered.length < this.calls.length) throw new Error(`the turn has no messages yet, because calls are open: ${this.open.join(", ")}`);
    const positions = [...this.calls, ...own].map(({ index }, i) => ({ index, answer: i < this.calls.length ? answered[i] : answers[i - this.calls.length] }));
    const merged = [...positions.sort((a, b) => a.index - b.index).map((p) => p.answer), ...answered.slice(this.calls.length)];
    if (!inner || merged.length === 0) return merged;
    return [{ role: "user", ...first, [inner]: merged }, ...this.messages.slice(1)];
  }
}
