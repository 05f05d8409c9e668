/**
 * Streams of the daemon for all tabs of a browser, in a SharedWorker where there is one. A browser has six connections to a host without HTTP/2, so tabs
 * that want the same stream share it.
 */
import { create, fromBinary, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { CallService, WatchCallsRequestSchema } from "../../gen/toold/v1/call_service_pb.ts";
import { FrameSchema, type Frame } from "../../gen/toold/v1/event_pb.ts";

/** What a tab sends. `id` is the tab's name for its watch. */
export type ToWorker = { id: number; open: Uint8Array; shared: boolean } | { id: number; close: true } | { online: true } | { tab: string };

/** What a tab gets. `again` is when the worker tries again, in milliseconds since 1970. */
export type ToTab = { id: number; frame: Uint8Array } | { id: number; live: true } | { id: number; lost: string; again: number } | { id: number; ended: string; code: number };

interface Watcher {
  port: MessagePort;
  id: number;
}

/** One stream of the daemon and those who watch it. It connects again, from its last cursor, until nobody watches. */
class Stream {
  readonly watchers: Watcher[] = [];
  private readonly stop = new AbortController();
  private wake = () => {};
  private live = false;

  constructor(
    private readonly request: Uint8Array,
    private readonly gone: () => void,
  ) {
    void this.run();
  }

  add(w: Watcher) {
    this.watchers.push(w);
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

  /** Tries at once if the stream waits. */
  hurry() {
    this.wake();
  }

  private send(message: (id: number) => ToTab) {
    for (const w of this.watchers) w.port.postMessage(message(w.id));
  }

  private async run() {
    const request = fromBinary(WatchCallsRequestSchema, this.request);
    const calls = createClient(CallService, createConnectTransport({ baseUrl: self.location.origin, useBinaryFormat: true }));
    for (let failures = 0; !this.stop.signal.aborted; ) {
      try {
        for await (const { frame } of calls.watchCalls(request, { signal: this.stop.signal })) {
          if (!frame) continue;
          if (!this.live) this.send((id) => ({ id, live: true }));
          this.live = true;
          failures = 0;
          if (frame.cursor) Object.assign(request, { cursor: frame.cursor, afterSequence: undefined });
          const bytes = toBinary(FrameSchema, frame);
          this.send((id) => ({ id, frame: bytes }));
        }
        if (request.selector.case === "callId") return this.end("", 0); // the call has ended
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

/** With these codes the same request would fail again. */
const final = new Set([Code.Unauthenticated, Code.PermissionDenied, Code.NotFound, Code.InvalidArgument, Code.OutOfRange, Code.FailedPrecondition, Code.DataLoss, Code.Unimplemented]);

const shared = new Map<string, Stream>();

/** Serves the watches of one tab. */
export function serve(port: MessagePort) {
  const open = new Map<number, Stream>();
  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if ("online" in data) return open.forEach((s) => s.hurry());
    if ("tab" in data) {
      // The tab holds this lock until it is gone, however it ends.
      void navigator.locks.request(data.tab, () => open.forEach((s, id) => s.remove(port, id)));
      return;
    }
    if ("close" in data) {
      open.get(data.id)?.remove(port, data.id);
      open.delete(data.id);
      return;
    }
    const key = data.open.join();
    const stream = (data.shared && shared.get(key)) || new Stream(data.open, () => shared.delete(key));
    if (data.shared) shared.set(key, stream);
    stream.add({ port, id: data.id });
    open.set(data.id, stream);
  };
}

export type WatchInit = MessageInitShape<typeof WatchCallsRequestSchema>;
export const encodeWatch = (init: WatchInit) => toBinary(WatchCallsRequestSchema, create(WatchCallsRequestSchema, init));
export const decodeFrame = (bytes: Uint8Array): Frame => fromBinary(FrameSchema, bytes);
