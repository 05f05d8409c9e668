"use client";

export type { CallView } from "./call.js";
export { TooldError, type Token } from "./client.js";
export { TooldProvider, useCall, useInbox, useRun, type TooldProviderProps } from "./hooks.js";
export type { Answer, Question } from "./question.js";
export type { CallData, InboxData, RunData } from "./readers.js";
export type * from "./types.js";
export type { Connection, WatchStatus } from "./watch.js";
