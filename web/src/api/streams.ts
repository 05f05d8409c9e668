/**
 * Streams of the daemon for all tabs of a browser. They run in a SharedWorker if the browser has one. Without HTTP/2, a browser opens at most six
 * connections to a host, so tabs that watch the same data share one stream.
 */
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { CallService, WatchCallsRequestSchema, WatchInboxResponseSchema, type WatchInboxResponse } from "../../gen/toold/v1/call_service_pb.ts";
import { FrameSchema, type Frame } from "../../gen/toold/v1/event_pb.ts";

/** A message from a tab to the worker. `id` identifies a watch within the tab. */
export type ToWorker = { id: number; open: Uint8Array; shared: boolean } | { id: number; inbox: true } | { id: number; close: true } | { online: true } | { tab: string };

/** One part of a stream: a frame of calls, or a change of the inbox. */
type Part = { frame: Uint8Array } | { inbox: Uint8Array };

/** A message from the worker to a tab. `again` is the time of the next try, in milliseconds since 1970. */
export type ToTab = ({ id: number } & Part) | { id: number; live: true } | { id: number; lost: string; again: number } | { id: number; ended: string; code: number };

interface Watcher {
  port: MessagePort;
  id: number;
}

/** One stream of the daemon and its watchers. It reconnects from its last cursor until no tab watches it. */
class Stream {
  readonly watchers: Watcher[] = [];
  private readonly stop = new AbortController();
  private wake = () => {};
  private live = false;

  constructor(
    private readonly source: Source,
    private readonly gone: () => unknown,
  ) {
    void this.run();
  }

  add(w: Watcher) {
    this.watchers.push(w);
    for (const part of this.source.known()) w.port.postMessage({ id: w.id, ...part } satisfies ToTab);
    if (this.live) w.port.postMessage({ id: w.id, live: true } satisfies ToTab);
  }

  remove(port: MessagePort, id: number) {
    const i = this.watchers.findIndex((w) => w.port === port && w.id === id);
    if (i < 0) return;
    this.watchers.splice(i, 1);
    if (this.watchers.length > 0) return;
    this.gone();
    this.stop.abort();
    this.wake();
  }

  /** Reconnects at once if the stream waits for its next try. */
  hurry() {
    this.wake();
  }

  private send(message: (id: number) => ToTab) {
    for (const w of this.watchers) w.port.postMessage(message(w.id));
  }

  private async run() {
    for (let failures = 0; !this.stop.signal.aborted; ) {
      try {
        for await (const part of this.source.read(this.stop.signal)) {
          if (!this.live) this.send((id) => ({ id, live: true }));
          this.live = true;
          failures = 0;
          this.send((id) => ({ id, ...part }));
        }
        if (this.source.ends) return this.end("", 0); // the call has ended
      } catch (e) {
        if (this.stop.signal.aborted) return;
        const error = ConnectError.from(e);
        if (final.has(error.code)) return this.end(error.rawMessage, error.code);
      }
      this.live = false;
      const wait = Math.min(500 * 2 ** failures++, 10_000);
      this.send((id) => ({ id, lost: "", again: Date.now() + wait }));
      await new Promise<void>((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  private end(ended: string, code: number) {
    this.send((id) => ({ id, ended, code }));
    this.gone();
  }
}

/** Reads the data of a stream from the daemon. */
interface Source {
  /** Reads one connection. The next call of read continues after its last part. */
  read(signal: AbortSignal): AsyncIterable<Part>;
  /** Returns the parts that a tab needs when it joins later. */
  known(): Part[];
  /** True when a regular end of a connection also ends the stream. */
  ends: boolean;
}

const client = () => createClient(CallService, createConnectTransport({ baseUrl: self.location.origin, useBinaryFormat: true }));

function ofCalls(open: Uint8Array): Source {
  const request = fromBinary(WatchCallsRequestSchema, open);
  return {
    ends: request.selector.case === "callId",
    known: () => [],
    async *read(signal) {
      for await (const { frame } of client().watchCalls(request, { signal })) {
        if (!frame) continue;
        if (frame.cursor) Object.assign(request, { cursor: frame.cursor, afterSequence: undefined });
        yield { frame: toBinary(FrameSchema, frame) };
      }
    },
  };
}

/** The fields that the list of the inbox shows. The ticket reads the whole call instead. */
const ofQuestion = [
  "call_id", "tool", "caller", "run.run_id", "run.on_behalf_of", "description.kind", "description.title", "assessment", "isolation.required", "isolation.network", "revision",
  ...["suspension_id", "action", "message", "response_schema", "digest", "expires_at", "created_at", "on_expiry", "approvers", "votes", "claim", "origin", "rule", "reason"].map((f) => `suspension.${f}`),
];

function ofInbox(): Source {
  const waiting = new Map<string, { callId: string; inbox: Uint8Array }>();
  let complete: Uint8Array | undefined;
  return {
    ends: false,
    known: () => [...[...waiting.values()].map(({ inbox }) => ({ inbox })), ...(complete ? [{ inbox: complete }] : [])],
    async *read(signal) {
      const found = new Set<string>(); // the questions that this connection has returned
      for await (const response of client().watchInbox({ readMask: { paths: ofQuestion } }, { signal })) {
        const { change } = response, inbox = toBinary(WatchInboxResponseSchema, response);
        if (change.case === "waiting") {
          const { callId, suspensionId } = change.value.rights!;
          waiting.set(suspensionId, { callId, inbox });
          found.add(suspensionId);
        } else if (change.case === "settled") {
          waiting.delete(change.value.suspensionId);
        } else if (change.case === "caughtUp") {
          for (const [suspensionId, { callId }] of waiting) {
            if (found.has(suspensionId)) continue;
            waiting.delete(suspensionId); // settled while there was no connection, so it is not known how
            yield { inbox: toBinary(WatchInboxResponseSchema, create(WatchInboxResponseSchema, { change: { case: "settled", value: { callId, suspensionId } } })) };
          }
          complete = inbox;
        } else continue; // a heartbeat, or the last message, after which the stream reconnects
        yield { inbox };
      }
    },
  };
}

/** With these codes the same request would fail again. */
const final = new Set([Code.Unauthenticated, Code.PermissionDenied, Code.NotFound, Code.InvalidArgument, Code.OutOfRange, Code.FailedPrecondition, Code.DataLoss, Code.Unimplemented]);

const shared = new Map<string, Stream>();

/** Serves the watches of one tab. */
export function serve(port: MessagePort) {
  const open = new Map<number, Stream>();
  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if ("online" in data) return open.forEach((s) => s.hurry());
    if ("tab" in data) {
      // The tab holds this lock until the tab is closed or crashes.
      void navigator.locks.request(data.tab, () => open.forEach((s, id) => s.remove(port, id)));
      return;
    }
    if ("close" in data) {
      open.get(data.id)?.remove(port, data.id);
      open.delete(data.id);
      return;
    }
    const key = "inbox" in data ? "inbox" : data.open.join();
    const share = "inbox" in data || data.shared;
    const stream: Stream = (share && shared.get(key)) || new Stream("inbox" in data ? ofInbox() : ofCalls(data.open), () => shared.get(key) === stream && shared.delete(key));
    if (share) shared.set(key, stream);
    stream.add({ port, id: data.id });
    open.set(data.id, stream);
  };
}

export type WatchInit = MessageInitShape<typeof WatchCallsRequestSchema>;
export const encodeWatch = (init: WatchInit) => toBinary(WatchCallsRequestSchema, create(WatchCallsRequestSchema, init));
export const decodeInbox = (bytes: Uint8Array): WatchInboxResponse => fromBinary(WatchInboxResponseSchema, bytes);
export const decodeFrame = (bytes: Uint8Array): Frame => fromBinary(FrameSchema, bytes);
