import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.js";
import { hints } from "../gen/reasons.js";

/** A stable reason of an error. A newer daemon may send others. docs/reference/errors.md lists them. */
export type Reason = keyof typeof hints | (string & {});

/** A request failed. Every method of a Client and of its generated clients throws it when the daemon refuses a request or cannot be reached. */
export class TooldError extends Error {
  override readonly name = "TooldError";
  readonly code: Code;
  /** The stable reason, such as RUN_BLOCKED; empty if there is none. */
  readonly reason: Reason;
  readonly metadata: Record<string, string>;
  /** Maps a field of the request to its error. */
  readonly fields: Record<string, string>;
  /** When the daemon accepts the request again, in milliseconds from now. */
  readonly retryAfterMs?: number;
  /** What to do next, in a sentence; empty if nothing is known about the reason. */
  readonly hint: string;

  constructor(code: Code, message: string, o: { reason?: Reason; metadata?: Record<string, string>; fields?: Record<string, string>; retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, { cause: o.cause });
    this.code = code;
    this.reason = o.reason ?? "";
    this.metadata = o.metadata ?? {};
    this.fields = o.fields ?? {};
    this.retryAfterMs = o.retryAfterMs;
    this.hint = (hints as Record<string, string>)[this.reason] ?? "";
  }

  /** Converts what a request threw. An aborted signal is CANCELED, or DEADLINE_EXCEEDED if its time was over. */
  static from(e: unknown, signal?: AbortSignal): TooldError {
    if (e instanceof TooldError) return e;
    if (signal?.aborted) {
      const late = (signal.reason as Error | undefined)?.name === "TimeoutError";
      return new TooldError(late ? Code.DeadlineExceeded : Code.Canceled, late ? "no response within the time limit" : "the request was aborted", { cause: signal.reason });
    }
    const error = ConnectError.from(e), [info] = error.findDetails(ErrorInfoSchema), [retry] = error.findDetails(RetryInfoSchema);
    const fields = error.findDetails(BadRequestSchema).flatMap((b) => b.fieldViolations).map((v): [string, string] => [v.field, v.description]);
    return new TooldError(error.code, error.rawMessage, {
      reason: info?.reason, metadata: info?.metadata, fields: Object.fromEntries(fields), cause: e,
      retryAfterMs: retry?.retryDelay && durationMs(retry.retryDelay),
    });
  }
}
