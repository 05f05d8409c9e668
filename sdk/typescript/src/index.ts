/** Client and worker of toold, the daemon that runs tools for LLM orchestrators. README.md explains their use. */
export { Code } from "@connectrpc/connect";
export { Client, DigestMismatch } from "./client.js";
export { TooldError } from "./errors.js";
export { newTurnId, Toolset, Turn, TurnResult } from "./toolset.js";
export { mergeTurn, mergeTurns, withTexts } from "./uistream.js";
export { Call, CallCancelled, Continue, Fail, NoInput, NoOperation, NotRun, Question, Worker } from "./worker.js";
export type { Effects, ProgressOptions, Schema, Told, ToolOptions, WorkerOptions } from "./worker.js";
export type { TLS, Token } from "./channel.js";
export type { ClientOptions, Described, ResultInstead, SpecOptions, WaitingFilter } from "./client.js";
export type { Reason } from "./errors.js";
export type { RequestOptions } from "./retry.js";
export type { Provider, Tools, ToolsetOptions, TurnOptions } from "./toolset.js";
export type { ChatOptions, ChunkWriter, MergeOptions, ModelReply } from "./uistream.js";
export type { CallEvent, Frame } from "../gen/toold/v1/event_pb.js";
export type { Call as CallRecord } from "../gen/toold/v1/call_pb.js";
