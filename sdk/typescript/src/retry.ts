import { setTimeout as pause } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { TooldError } from "./errors.js";

/** Options of every method that sends requests. */
export interface RequestOptions {
  /** Aborting it ends the method, which then throws a TooldError with Code.Canceled. It does not cancel calls that already run. */
  signal?: AbortSignal;
  /** The time limit of the whole method with its retries, in milliseconds. Default: none. */
  timeoutMs?: number;
}

/** The longest timer of Node in milliseconds, 24.8 days. A longer one ends at once. */
const maxTimer = 2 ** 31 - 1;

/** Returns the signal at which a method ends. */
export function limit(o: RequestOptions): AbortSignal | undefined {
  if (o.timeoutMs === undefined) return o.signal;
  const late = AbortSignal.timeout(Math.min(o.timeoutMs, maxTimer));
  return o.signal ? AbortSignal.any([o.signal, late]) : late;
}

/** The pauses between attempts. They grow, unless the daemon says how long to wait. */
export class Retry {
  private next = 100;
  private since = 0;
  /** renews says that the next request may have a new token. */
  constructor(private readonly patience: number, private readonly signal?: AbortSignal, private readonly renews = false) {}

  reset(): void { this.next = 100; this.since = 0; }

  /** Waits if the error is temporary and the pause ends within the patience. It throws any other error. */
  async after(e: unknown): Promise<void> {
    const error = TooldError.from(e, this.signal), now = performance.now(), named = error.retryAfterMs ?? 0;
    this.since ||= now;
    if (this.signal?.aborted || !temporary(error) && !(this.renews && error.reason === "TOKEN_EXPIRED")) throw error;
    const ms = named > 0 ? named : this.grow();
    if (now + ms > this.since + this.patience) throw error;
    await this.wait(ms);
  }

  async wait(ms = this.grow()): Promise<void> {
    try {
      await pause(Math.min(ms * (1 + 0.2 * Math.random()), maxTimer), undefined, { signal: this.signal });
    } catch (e) {
      throw TooldError.from(e, this.signal);
    }
  }

  private grow(): number {
    const now = this.next;
    this.next = Math.min(2 * now, 5000);
    return now;
  }
}

/** Reports whether the same request may succeed later: the daemon names a time, it cannot be reached, or the connection broke. */
function temporary(e: TooldError): boolean {
  if (e.retryAfterMs !== undefined || [Code.Unavailable, Code.DeadlineExceeded, Code.Aborted].includes(e.code)) return true;
  return !e.reason && e.cause instanceof ConnectError && /ECONN|ENOENT|socket|stream/i.test(e.message + String(e.cause.cause));
}
