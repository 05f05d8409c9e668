/** Requests and streams of the daemon's HTTP endpoint, with fetch only. */

/** A token, or a function that returns the current token. The function is called for each request. */
export type Token = string | (() => string | Promise<string>);

/** The error of a request that the daemon refused, or that did not reach the daemon. */
export class TooldError extends Error {
  override readonly name = "TooldError";

  constructor(
    /** The gRPC code in lower case, such as `failed_precondition`. */
    readonly code: string,
    message: string,
    /** In UPPER_SNAKE_CASE, such as `ALREADY_DECIDED`; may be empty. */
    readonly reason = "",
    /** Facts about the reason. */
    readonly metadata: Record<string, string> = {},
    /** The same request may succeed later. */
    readonly retryable = false,
  ) {
    super(message);
  }
}

interface ErrorBody {
  code?: string;
  message?: string;
  details?: { type?: string; debug?: { reason?: string; metadata?: Record<string, string> } }[];
}

/** Returns the error of a body in Connect's form. */
export function toError(body: ErrorBody): TooldError {
  const details = body.details ?? [], info = details.find((d) => d.type?.endsWith("ErrorInfo"))?.debug;
  const code = body.code ?? "unknown";
  return new TooldError(code, body.message ?? code, info?.reason, info?.metadata, code === "unavailable" || details.some((d) => d.type?.endsWith("RetryInfo")));
}

/** One server-sent event. */
export interface ServerEvent {
  id: string;
  name: string;
  data: string;
}

/** Calls a method, and calls it again while its error is temporary. */
export async function retry<T>(call: () => Promise<T>): Promise<T> {
  for (let i = 1; ; i++) {
    try {
      return await call();
    } catch (e) {
      if (!(e instanceof TooldError && e.retryable) || i === tries) throw e;
      await sleep(Math.min(500 * i, 5000));
    }
  }
}

const tries = 10;

/** Returns after some milliseconds, or at once when the signal is aborted. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, milliseconds);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    signal?.addEventListener("abort", done);
    if (signal?.aborted) done();
  });
}

/** A daemon. Without a token, the browser sends the cookie of its session. */
export class Client {
  constructor(
    readonly baseUrl: string,
    private readonly token?: () => Token | undefined,
  ) {}

  /** Calls a method with one response. */
  async unary<T>(method: string, request: object): Promise<T> {
    const response = await this.fetch(`/toold.v1.CallService/${method}`, { method: "POST", body: JSON.stringify(request), headers: { "Content-Type": "application/json" } });
    return JSON.parse(await reached(response.text())) as T;
  }

  /** Calls a method with a stream of responses, and returns when the first one has arrived. */
  async first(method: string, request: object): Promise<void> {
    const abort = new AbortController(), message = new TextEncoder().encode(JSON.stringify(request)), body = new Uint8Array(5 + message.length);
    new DataView(body.buffer).setUint32(1, message.length);
    body.set(message, 5);
    try {
      const response = await this.fetch(`/toold.v1.CallService/${method}`, { method: "POST", body, headers: { "Content-Type": "application/connect+json" }, signal: abort.signal });
      const { flags, text } = await envelope(response.body!);
      const end = flags & 2 ? (JSON.parse(text) as { error?: ErrorBody }) : {};
      if (end.error) throw toError(end.error);
    } finally {
      abort.abort();
    }
  }

  /** Yields the events of a watch until its connection ends. */
  async *watch(query: Record<string, string>, signal: AbortSignal): AsyncGenerator<ServerEvent> {
    const response = await this.fetch(`/v1/watch?${new URLSearchParams(query)}`, { signal });
    if (response.status !== 204) yield* serverEvents(response.body!);
  }

  private async send(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
    const source = this.token?.(), token = typeof source === "function" ? await source() : source;
    return fetch(this.baseUrl + path, { ...init, cache: "no-store", headers: { ...init.headers, ...(token && { Authorization: `Bearer ${token}` }) } });
  }

  private async fetch(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
    const response = await reached(this.send(path, init));
    if (response.ok) return response;
    const text = await reached(response.text());
    throw text.startsWith("{") ? toError(JSON.parse(text) as ErrorBody) : new TooldError("unknown", `HTTP status ${response.status}`, "", {}, response.status >= 502 && response.status <= 504);
  }
}

/** Converts a failure of the network to a temporary error. */
const reached = <T>(work: Promise<T>): Promise<T> =>
  work.catch((e: unknown) => {
    throw new TooldError("unavailable", String(e), "", {}, true);
  });

/** Reads the first message of a Connect stream. */
async function envelope(body: ReadableStream<Uint8Array>): Promise<{ flags: number; text: string }> {
  const reader = body.getReader();
  for (let all = new Uint8Array(0); ; ) {
    const { value, done } = await reached(reader.read());
    if (done) throw new TooldError("unavailable", "the response broke off", "", {}, true);
    const next = new Uint8Array(all.length + value.length);
    next.set(all);
    next.set(value, all.length);
    all = next;
    const length = all.length < 5 ? Infinity : new DataView(all.buffer).getUint32(1);
    if (all.length >= 5 + length) return { flags: all[0]!, text: new TextDecoder().decode(all.subarray(5, 5 + length)) };
  }
}

/** Splits a stream into events. It does not return an event that is incomplete because the stream broke. */
async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const reader = body.getReader(), decoder = new TextDecoder();
  for (let rest = ""; ; ) {
    const { value, done } = await reached(reader.read());
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const event: ServerEvent = { id: "", name: "", data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data = line.slice(6);
      }
      if (event.name) yield event;
    }
  }
}
