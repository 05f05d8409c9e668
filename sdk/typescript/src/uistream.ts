import { createHash, randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { ProgressStatus, type CallEvent, type Output, type Progress } from "../gen/toold/v1/event_pb.js";
import { ErrorCode, ResultStatus, type ToolResult } from "../gen/toold/v1/result_pb.js";
import { DecisionAction, type Decision, type Suspension } from "../gen/toold/v1/suspension_pb.js";
import { TooldError } from "./errors.js";
import type { RequestOptions } from "./retry.js";
import type { Toolset, Turn, TurnResult } from "./toolset.js";

/** The part of the writer of `createUIMessageStream` that is used here. */
export interface ChunkWriter { write(chunk: any): void }

/** The part of the result of `streamText` that is used here. */
export interface ModelReply {
  toUIMessageStream(options: { sendStart: boolean; sendFinish: boolean }): AsyncIterable<any>;
  /** In version 6 of the AI SDK, it has the messages. */
  response: PromiseLike<any>;
  /** The messages in version 7 of the AI SDK. */
  responseMessages?: PromiseLike<any[]>;
  finishReason: PromiseLike<string>;
}

export interface MergeOptions extends RequestOptions {
  /** Keeps the stream open while a call waits for a person, who answers elsewhere. */
  waitForDecision?: boolean;
  /** Ids of approvals that the client has answered. The client is asked again only if the call still waits when the turn returns. */
  answered?: Set<string>;
  /** The inputs that the client shows, by tool call id. Default: those of the message of the turn. */
  inputs?: Map<string, unknown>;
}

/**
 * Runs a turn and writes what happens to the UI message stream of the AI SDK: progress, preliminary outputs, approval requests and results.
 * The stream must have announced the calls already, as the stream of streamText does. Returns what turn.run returns.
 */
export const mergeTurn = (writer: ChunkWriter, turn: Turn, o: MergeOptions = {}): Promise<TurnResult> =>
  merge(writer, { inputs: inputsOf(JSON.parse(turn.spec.message)), ...o }, (onEvent) => turn.run({ ...o, onEvent }));

async function merge(writer: ChunkWriter, o: MergeOptions, run: (onEvent: (event: CallEvent) => void) => Promise<TurnResult>): Promise<TurnResult> {
  const mapper = new ChunkMapper((chunk) => writer.write(chunk), o.answered, o.inputs);
  try {
    const result = await run((event) => mapper.event(event));
    mapper.rest();
    return result;
  } finally {
    mapper.close();
  }
}

export interface ChatOptions extends RequestOptions {
  /** The `id` of the request of useChat: the thread of the calls. The app has checked that the chat belongs to the person. */
  chatId: string;
  /** The `messages` of the request of useChat. */
  messages: { id: string; role: string; parts: any[] }[];
  /** The messages in the form of the model, from `convertToModelMessages`. */
  history: any[] | PromiseLike<any[]>;
  /** toold's HTTP endpoint and the credential of the person, who answers approvals. Without it, approvals wait in toold's inbox. */
  person?: { url: string; headers: Record<string, string> };
  /** Keeps the stream open while a call waits for a person, who answers elsewhere. */
  waitForDecision?: boolean;
  /** Further fields of the turns. */
  turn?: Omit<Parameters<Toolset<"ai-sdk">["turn"]>[1], "turnId" | "runId" | "threadId">;
}

/**
 * Serves a request of useChat. It sends the person's approvals to toold, and continues the turn that waited for them. Then it calls the model and
 * runs its tool calls, until the model makes no call or a call waits for a person. `ask` calls the model: `(history) => streamText({…})`.
 */
export async function mergeTurns(writer: ChunkWriter, toolset: Toolset<"ai-sdk">, o: ChatOptions, ask: (history: any[]) => ModelReply): Promise<void> {
  const { chatId, signal, waitForDecision } = o, history = [...await o.history], runId = runOf(chatId, o.messages.at(-1));
  writer.write({ type: "start", messageId: runId });
  const decisions = o.person ? await decide(o.person, o.messages, signal) : [];
  for (const { approvalId, error } of decisions) if (error) writer.write({ type: "data-toold-refusal", id: approvalId, data: { approvalId, ...error } });
  const answered = new Set(decisions.filter((d) => !d.error).map((d) => d.approvalId));
  let answer = await continued(writer, toolset, o, history, answered);
  while (!answer || answer.open.length === 0) {
    if (answer?.runBlocked) break;
    const reply = ask([...history]);
    for await (const chunk of reply.toUIMessageStream({ sendStart: false, sendFinish: false })) writer.write(chunk);
    const made: any[] = await (reply.responseMessages ?? reply.response.then((r) => r.messages)), message = [...made].reverse().find((m) => m.role === "assistant");
    if (message) history.push(message);
    const ids = callsOf(message);
    if (ids.length === 0) break;
    const turn = toolset.turn(message, { ...o.turn, turnId: turnIdOf(chatId, ids), runId, threadId: chatId, stopReason: await reply.finishReason });
    answer = await mergeTurn(writer, turn, { signal, waitForDecision });
    if (!append(history, answer, made)) break;
  }
  writer.write({ type: "finish" });
}

/**
 * Adds the texts of a stored message to the response of toold's stream of its run, which has only the calls. Without a stored message it returns
 * the response unchanged.
 */
export function withTexts(response: Response, message?: { parts: any[] }): Response {
  if (response.status !== 200 || !response.body || !message) return response;
  const steps = stepsOf(message.parts);
  let rest = "", n = 0;
  const add = new TransformStream<string, string>({
    transform(piece, out) {
      const events = (rest + piece).split("\n\n");
      rest = events.pop()!;
      for (const event of events) {
        const { type, toolCallId } = event.startsWith("data: {") ? JSON.parse(event.slice(6)) : ({} as any);
        const step = type === "tool-input-available" ? steps.find((s) => s.calls.has(toolCallId)) : undefined;
        for (const part of step?.texts.splice(0) ?? []) for (const chunk of chunksOf(part, `text-${n++}`)) out.enqueue(`data: ${JSON.stringify(chunk)}\n\n`);
        out.enqueue(`${event}\n\n`);
      }
    },
    flush: (out) => out.enqueue(rest),
  });
  const body = response.body.pipeThrough(new TextDecoderStream() as any).pipeThrough(add).pipeThrough(new TextEncoderStream() as any);
  const headers = new Headers(response.headers);
  for (const name of ["content-encoding", "content-length"]) headers.delete(name); // fetch has decoded the body
  return new Response(body as any, { status: 200, headers });
}

/** The texts and the calls of each step of a message. */
function stepsOf(parts: any[]): { texts: any[]; calls: Set<string> }[] {
  const steps = [{ texts: [] as any[], calls: new Set<string>() }];
  for (const part of parts) {
    if (part.type === "step-start") steps.push({ texts: [], calls: new Set() });
    else if (part.toolCallId) steps.at(-1)!.calls.add(part.toolCallId);
    else if (["text", "reasoning"].includes(part.type)) steps.at(-1)!.texts.push(part);
  }
  return steps;
}

const chunksOf = ({ type, text, providerMetadata }: any, id: string): object[] =>
  [{ type: `${type}-start`, id, providerMetadata }, { type: `${type}-delta`, id, delta: text }, { type: `${type}-end`, id }];

/** Continues the turn at the end of the history. It never runs the calls of a message that came from the client: toold knows the turn, or nothing happens. */
async function continued(writer: ChunkWriter, toolset: Toolset<"ai-sdk">, o: ChatOptions, history: any[], answered: Set<string>): Promise<TurnResult | undefined> {
  const { chatId, signal, waitForDecision } = o, at = history.length - 1 - [...history].reverse().findIndex((m) => m.role !== "tool"), ids = callsOf(history[at]);
  if (ids.length === 0) return undefined;
  const turn = toolset.executed(turnIdOf(chatId, ids)), inputs = inputsOf(history[at]);
  try {
    const answer = await merge(writer, { answered, inputs }, (onEvent) => turn.follow({ signal, waitForDecision, onEvent }));
    append(history, answer, history.splice(at + 1)); // toold's results replace those that the client sent
    return answer;
  } catch (e) {
    if (e instanceof TooldError && e.code === Code.NotFound) return undefined; // no call was for toold
    throw e;
  }
}

/** Appends the results of a turn, with those of the app's own tools from `made`. Returns false when a result is missing. */
function append(history: any[], answer: TurnResult, made: any[]): boolean {
  const results = made.filter((m) => m.role === "tool").flatMap((m) => m.content);
  const own = answer.notHandled.map(({ id }) => results.find((p) => p.type === "tool-result" && p.toolCallId === id));
  if (answer.open.length > 0 || own.includes(undefined)) return false;
  history.push(...answer.merge(own.map((part) => ({ role: "tool", content: [part] }))));
  return true;
}

const callsOf = (message: any): string[] => partsOf(message).filter((p) => p.type === "tool-call" && !p.providerExecuted).map((p) => String(p.toolCallId));
const partsOf = (message: any): any[] => (message?.role === "assistant" && Array.isArray(message.content) ? message.content : []);
const inputsOf = (message: any): Map<string, unknown> => new Map(partsOf(message).filter((p) => p.type === "tool-call").map((p) => [p.toolCallId, p.input]));

/** The id of a turn follows from the chat and the model's ids, so that a later request finds the turn, and only in its own chat. */
const turnIdOf = (chatId: string, ids: string[]): string => createHash("sha256").update(JSON.stringify([chatId, ids])).digest("hex");

/** Returns the id of the assistant message, which is also the id of the run. A client cannot name the run of another chat. */
function runOf(chatId: string, last?: { id: string; role: string }): string {
  const prefix = `${chatId}.`, known = last?.role === "assistant" && last.id.startsWith(prefix) && /^[0-9a-f-]{36}$/.test(last.id.slice(prefix.length));
  return known ? last.id : prefix + randomUUID();
}

interface Decided { approvalId: string; approved: boolean; callId?: string; error?: { code: string; reason?: string; message: string } }

/** Sends the approval responses of the last message to toold. Those with an error are not stored. */
async function decide({ url, headers }: { url: string; headers: Record<string, string> }, messages: ChatOptions["messages"], signal?: AbortSignal): Promise<Decided[]> {
  const last = messages.at(-1);
  if (last?.role !== "assistant" || !last.parts.some((p) => p.state === "approval-responded")) return [];
  const response = await fetch(new URL("/v1/ui/decisions", url), {
    method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ messages: [last] }), signal,
  });
  const body: any = await response.json();
  if (!response.ok) throw new Error(`toold refused the decisions of the person: ${body.message}`);
  return body.decisions;
}

interface CallState { id: string; tool: string; tails: Map<string, { text: string; decoder: TextDecoder }>; question?: Record<string, unknown> & { suspensionId: string }; asked?: boolean; timer?: NodeJS.Timeout }

const maxTail = 4096, maxStreams = 4, pauseMs = 100;

/** Parses JSON text. Text that was cut off stays text. */
function json(text: string): unknown {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return text;
  }
}

/**
 * Makes chunks of the events of calls that the stream has announced. The parts are those of toold's own stream of a run.
 * @internal
 */
export class ChunkMapper {
  private calls = new Map<string, CallState>();
  private ids = new Set<string>();

  constructor(private readonly write: (chunk: object) => void, private readonly answered = new Set<string>(), private readonly inputs = new Map<string, unknown>()) {}

  event({ callId, event: e }: CallEvent): void {
    if (e.case === "accepted") return this.accept(callId, e.value.modelCallId, e.value.tool);
    const call = this.calls.get(callId), common = { callId, toolCallId: call?.id };
    if (!call) return;
    switch (e.case) {
      case "attemptStarted": return call.tails.clear();
      case "progress": return this.write({ type: "data-toold-progress", id: call.id, data: { ...common, ...progressOf(e.value) } });
      case "activitySnapshot": {
        const { activityId, activityType: type, content } = e.value;
        return this.write({ type: "data-toold-activity", id: `${call.id}/${activityId}`, data: { ...common, activityId, type, content: json(content) } });
      }
      case "activityDelta": {
        const { activityId, patch } = e.value;
        return this.write({ type: "data-toold-activity-delta", data: { ...common, activityId, patch: json(patch) }, transient: true });
      }
      case "output": return this.output(call, e.value);
      case "suspended": return this.suspended(callId, call, e.value.suspension!);
      case "voteRecorded": return this.change(call, e.value.suspensionId, { votes: e.value.votes, needed: e.value.needed });
      case "resumed": return this.resumed(call, e.value.decision!);
      case "finished": return this.finished(call, e.value.result!);
    }
  }

  private accept(callId: string, modelCallId: string, tool: string): void {
    const id = modelCallId && !this.ids.has(modelCallId) ? modelCallId : callId;
    this.ids.add(id);
    if (!this.calls.has(callId)) this.calls.set(callId, { id, tool, tails: new Map() });
  }

  private output(call: CallState, { stream, data }: Output): void {
    if (!call.tails.has(stream) && call.tails.size === maxStreams) return;
    const tail = call.tails.get(stream) ?? { text: "", decoder: new TextDecoder() };
    tail.text = (tail.text + tail.decoder.decode(data, { stream: true })).slice(-maxTail);
    call.tails.set(stream, tail);
    call.timer ??= setTimeout(() => {
      call.timer = undefined;
      this.write({ type: "tool-output-available", toolCallId: call.id, output: Object.fromEntries([...call.tails].map(([name, { text }]) => [name, text])), preliminary: true });
    }, pauseMs); // a flood of output is sent at most ten times a second
  }

  private suspended(callId: string, call: CallState, s: Suspension): void {
    this.stop(call);
    const needed = (s.approvers?.count ?? 0) > 1 ? s.approvers?.count : undefined;
    call.question = {
      suspensionId: s.suspensionId, callId, toolCallId: call.id, state: "open", action: s.action, message: s.message, title: s.description?.title,
      notes: s.description?.notes, parameters: json(s.parameters), arguments: json(s.pending?.arguments ?? ""), responseSchema: json(s.responseSchema),
      digest: s.digest, expiresAt: s.expiresAt && timestampDate(s.expiresAt).toISOString(), needed,
    };
    this.writeQuestion(call);
    call.asked = false;
    if (!this.answered.has(s.suspensionId)) this.ask(call);
  }

  /** Shows the buttons of an approval, with the arguments that run. */
  private ask(call: CallState): void {
    const q = call.question!;
    if (q.action !== "approval" || q.responseSchema !== undefined) return;
    if (!isDeepStrictEqual(q.arguments, this.inputs.get(call.id))) this.announce(call, q.arguments);
    this.write({ type: "tool-approval-request", toolCallId: call.id, approvalId: q.suspensionId });
    call.asked = true;
  }

  private announce = (call: CallState, input: unknown): void => this.write({ type: "tool-input-available", toolCallId: call.id, toolName: call.tool, input, dynamic: true });
  private writeQuestion = ({ question }: CallState): void => this.write({ type: "data-toold-question", id: question!.suspensionId, data: { ...question } });

  private change(call: CallState, suspensionId: string, changes: object): void {
    if (call.question?.suspensionId !== suspensionId) return;
    Object.assign(call.question, changes);
    this.writeQuestion(call);
  }

  private resumed(call: CallState, d: Decision): void {
    const approved = d.action === DecisionAction.RESUME;
    this.change(call, d.suspensionId, { state: approved ? "approved" : "declined", decidedBy: d.decidedBy?.subject, reason: d.reason || undefined });
    if (call.asked && approved) this.announce(call, call.question!.arguments); // version 6 has no chunk for the answer; this chunk removes the buttons
  }

  private finished(call: CallState, r: ToolResult): void {
    this.stop(call);
    const toolCallId = call.id, open = call.question?.state === "open";
    if (open) this.change(call, call.question!.suspensionId, { state: "closed" });
    if (r.status === ResultStatus.SUCCESS) this.write({ type: "tool-output-available", toolCallId, output: r.message || (json(r.data) ?? r.modelText) });
    else if (r.error?.code === ErrorCode.CANCELLED && r.error.reason === "DECLINED" && call.question?.action === "approval") this.write({ type: "tool-output-denied", toolCallId });
    else this.write({ type: "tool-output-error", toolCallId, errorText: r.modelText || r.error?.message || "" });
  }

  /** Asks again about approvals that the client has answered and that still wait, for example for a second person. */
  rest(): void {
    for (const call of this.calls.values()) if (call.question?.state === "open" && !call.asked) this.ask(call);
  }

  close(): void {
    for (const call of this.calls.values()) this.stop(call);
  }

  private stop(call: CallState): void {
    clearTimeout(call.timer);
    call.timer = undefined;
  }
}

function progressOf(p: Progress): object {
  const { fraction, message, loaded, total } = p;
  return { status: ProgressStatus[p.status].toLowerCase(), fraction, message: message || undefined, loaded: Number(loaded) || undefined, total: Number(total) || undefined };
}
