import { sleep, TooldError, toError, type Client, type ServerEvent } from "./client.js";

/**
 * The state of the connection. `connecting` until everything that is stored has arrived, and again after the connection broke; `ended` when no
 * more events can come; `error` when the daemon refused the watch.
 */
export type WatchStatus = "connecting" | "live" | "ended" | "error";

/** What a hook returns of its watch. */
export interface Connection {
  status: WatchStatus;
  /** With the status `error`. */
  error?: TooldError;
}

/** Turns the events of one watch into what a hook shows. */
export interface Reader<T> {
  /** The parameters of the watch. */
  query: Record<string, string>;
  /** Prepares for the events of a new connection. */
  begin?(): Promise<void>;
  /** Takes an event. Returns true if a crash lost events that were shown. The watch then begins again. */
  read(event: ServerEvent): boolean | void;
  /** Removes what was shown. */
  forget(): void;
  view(): T;
}

const minWait = 500, maxWait = 10_000, silence = 60_000; // milliseconds; heartbeats come more often

/**
 * A watch is a store for useSyncExternalStore. It has a connection while somebody is subscribed. A connection that broke, or a second
 * subscription, continues after the last complete event.
 */
export class Watch<T> {
  private readonly listeners = new Set<() => void>();
  private connection: Connection = { status: "connecting" };
  private shown: T & Connection;
  private cursor = "";
  private stop = new AbortController();

  constructor(
    private readonly client: Client,
    private readonly reader: Reader<T>,
    /** Adds the watch to those that hooks share, or removes it. */
    private readonly share: (used: boolean) => void,
  ) {
    this.shown = { ...reader.view(), ...this.connection };
  }

  readonly snapshot = (): T & Connection => this.shown;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.share(false);
      this.stop.abort();
    };
  };

  private start() {
    this.share(true);
    this.stop = new AbortController();
    void this.run(this.stop.signal);
  }

  private show(connection: Connection) {
    this.connection = connection;
    this.shown = { ...this.reader.view(), ...connection };
    for (const listener of [...this.listeners]) listener();
  }

  /** Follows the watch until it has ended or the signal is aborted. */
  private async run(stop: AbortSignal) {
    for (let wait = minWait; !this.over() && !stop.aborted; wait = Math.min(wait * 2, maxWait)) {
      const before = performance.now();
      const problem = await this.connect(stop).then(() => undefined, (e: unknown) => (e instanceof TooldError ? e : new TooldError("internal", String(e))));
      if (stop.aborted || this.over()) return;
      if (problem && !problem.retryable) return this.show({ status: "error", error: problem });
      this.show({ status: "connecting" });
      if (performance.now() - before > maxWait) wait = minWait; // the connection lasted for a while
      await sleep(wait * (0.5 + Math.random()), stop);
    }
  }

  private over = () => this.connection.status === "ended" || this.connection.status === "error";

  /** Reads one connection to its end. */
  private async connect(stop: AbortSignal) {
    const abort = new AbortController(), leave = () => abort.abort();
    stop.addEventListener("abort", leave);
    let alarm = setTimeout(leave, silence);
    try {
      await this.reader.begin?.();
      for await (const event of this.client.watch({ ...this.reader.query, ...(this.cursor && { cursor: this.cursor }) }, abort.signal)) {
        if (stop.aborted) return;
        clearTimeout(alarm);
        alarm = setTimeout(leave, silence);
        if (!this.take(event)) return;
      }
    } finally {
      clearTimeout(alarm);
      stop.removeEventListener("abort", leave);
      leave();
    }
  }

  /** Takes an event. Returns false if the connection must end. */
  private take(event: ServerEvent): boolean {
    if (event.name === "error") throw toStreamError(event.data);
    if (event.name === "heartbeat") return true;
    if (this.reader.read(event)) {
      this.reader.forget();
      this.cursor = "";
      return false;
    }
    this.cursor = event.id || this.cursor;
    if (event.name === "end") this.show({ status: "ended" });
    else this.show(event.name === "caught_up" ? { status: "live" } : this.connection);
    return event.name !== "end" && event.name !== "closing";
  }
}

/** Makes the error of an expired credential temporary. The next connection shows whether the page has a new credential. */
function toStreamError(data: string): TooldError {
  const e = toError(JSON.parse(data));
  return e.code === "unauthenticated" ? new TooldError(e.code, e.message, e.reason, e.metadata, true) : e;
}
