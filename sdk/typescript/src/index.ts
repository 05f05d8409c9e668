/** Client and worker of toold, the daemon that runs tools for LLM orchestrators. README.md explains their use. */
export { Client, DigestMismatch } from "./client.js";
export { Call, CallCancelled, Continue, Fail, NoInput, NoOperation, NotRun, Question, Worker } from "./worker.js";
export type { Effects, Schema, Told, ToolOptions, WorkerOptions } from "./worker.js";
export type { TLS } from "./channel.js";
export type { ClientOptions, SpecOptions } from "./client.js";
