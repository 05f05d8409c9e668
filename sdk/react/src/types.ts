/** The messages of the API in protobuf's JSON mapping: what frontends show of them. The protos describe every field. */

/** `CALL_STATUS_RUNNING` and so on. SUCCEEDED, FAILED and CANCELLED are terminal. */
export type CallStatus = `CALL_STATUS_${"NEW" | "RUNNING" | "SUSPENDED" | "RESUMING" | "SUCCEEDED" | "FAILED" | "CANCELLED"}`;

/** Who did something. */
export interface Principal {
  subject?: string;
  displayName?: string;
}

/** What a call does, for people. Text of tools is data: show it as text, not as HTML. */
export interface Description {
  kind?: string;
  title?: string;
  [field: string]: unknown;
}

/** How far a tool is. */
export interface Progress {
  status?: string;
  /** From 0 to 1. */
  fraction?: number;
  message?: string;
  /** A 64-bit integer. */
  loaded?: string;
  total?: string;
}

/** A result. The text for the model is the first of modelText, message and data that is not empty. */
export interface ToolResult {
  status?: string;
  /** JSON text. */
  data?: string;
  message?: string;
  modelText?: string;
  error?: { code?: string; reason?: string; message?: string; [field: string]: unknown };
  [field: string]: unknown;
}

/** A question that a call waits for. */
export interface Suspension {
  suspensionId: string;
  /** `approval`, `input` or another name. */
  action?: string;
  message?: string;
  /** JSON text. */
  parameters?: string;
  /** JSON Schema of the result of an answer, as JSON text. */
  responseSchema?: string;
  /** What runs after a yes. The arguments are JSON text: exactly the bytes that run. */
  pending?: { id?: string; name?: string; arguments?: string };
  digest?: string;
  expiresAt?: string;
  description?: Description;
  rememberOptions?: { option?: string; title?: string }[];
  claim?: { claimedBy?: Principal; until?: string };
  [field: string]: unknown;
}

/** The record of a call. */
export interface CallRecord {
  callId: string;
  status?: CallStatus;
  tool?: string;
  /** JSON text. */
  requestedArguments?: string;
  /** JSON text. */
  effectiveArguments?: string;
  description?: Description;
  modelCallId?: string;
  suspension?: Suspension;
  result?: ToolResult;
  caller?: Principal;
  createdAt?: string;
  endedAt?: string;
  [field: string]: unknown;
}

/** An entry of a call's log. It has one more member, which says what happened. */
export interface CallEvent {
  callId: string;
  /** Counted from 1. */
  sequence: string;
  time?: string;
  accepted?: { tool?: string; runId?: string; threadId?: string; modelCallId?: string; description?: Description };
  attemptStarted?: { attempt?: number };
  progress?: Progress;
  /** `data` is base64. */
  output?: { stream?: string; offset?: string; data?: string; length?: string };
  finished?: { status?: CallStatus; executed?: string; result?: ToolResult };
  suspended?: { suspension?: Suspension };
  resumed?: { decision?: { action?: string; decidedBy?: Principal; reason?: string } };
  statusChanged?: { status?: CallStatus };
  claimed?: { suspensionId?: string; claim?: Suspension["claim"] };
  [kind: string]: unknown;
}

/** Events before the next event are missing. */
export interface Gap {
  reason?: "GAP_REASON_TRIMMED" | "GAP_REASON_LOST_TAIL" | "GAP_REASON_CORRUPT";
  callId?: string;
  firstKept?: string;
}
