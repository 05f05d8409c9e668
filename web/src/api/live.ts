/** Live data of a tab, from the streams that the worker reads. */
import { useEffect, useRef, useState } from "react";
import type { WatchInboxResponse } from "../../gen/toold/v1/call_service_pb.ts";
import type { Frame } from "../../gen/toold/v1/event_pb.ts";
import { decodeFrame, decodeInbox, encodeWatch, serve, type ToTab, type ToWorker, type WatchInit } from "./streams.ts";

/** Says whether the shown data is live. */
export type Live =
  | { state: "connecting" }
  | { state: "live" }
  /** `since` is the time when the connection was lost, `again` the time of the next try. Both are milliseconds since 1970. */
  | { state: "lost"; since: number; again: number }
  /** The stream has ended. Either the call has ended, or `message` says why the daemon refuses the stream. */
  | { state: "ended"; message: string; code: number };

interface Handlers {
  frame?: (f: Frame) => void;
  inbox?: (change: WatchInboxResponse["change"]) => void;
  live: (l: Live) => void;
}

let port: MessagePort | undefined;
const watches = new Map<number, Handlers & { since: number }>();
let last = 0;

/** Connects the page to the worker of a person. Call it before any watch. Tabs of different people never share a worker. */
export function connect(who: string) {
  if (port) return;
  if (typeof SharedWorker === "undefined") {
    const { port1, port2 } = new MessageChannel();
    serve(port2);
    port = port1;
  } else port = new SharedWorker(new URL("./streams.worker.ts", import.meta.url), { type: "module", name: `toold ${who}` }).port;
  port.onmessage = receive;
  void navigator.locks?.request(tab, () => {
    send({ tab });
    return new Promise<never>(() => {});
  });
}

function receive({ data }: MessageEvent<ToTab>) {
  const w = watches.get(data.id);
  if (!w) return;
  if ("frame" in data) return w.frame?.(decodeFrame(data.frame));
  if ("inbox" in data) return w.inbox?.(decodeInbox(data.inbox).change);
  if ("live" in data) {
    w.since = 0;
    return w.live({ state: "live" });
  }
  if ("ended" in data) return w.live({ state: "ended", message: data.ended, code: data.code });
  w.since ||= Date.now();
  w.live({ state: "lost", since: w.since, again: data.again });
}

const send = (m: ToWorker) => port?.postMessage(m);
const tab = crypto.randomUUID();
addEventListener("online", () => send({ online: true }));
// A page that the browser closes, or keeps for "back", must not watch anything.
addEventListener("pagehide", () => watches.forEach((_, id) => send({ id, close: true })));
addEventListener("pageshow", (e) => e.persisted && location.reload());

/** Tries to restore all lost connections at once. */
export const tryNow = () => send({ online: true });

/** Watches until the returned function is called. All tabs share the stream of a shared watch, so the watch begins with the next frame, not with the first. */
export const watch = (init: WatchInit, shared: boolean, handlers: Handlers) => open((id) => ({ id, open: encodeWatch(init), shared }), handlers);

/** Watches the inbox until the returned function is called. All tabs share the stream; each gets all questions first. */
export const watchInbox = (handlers: Handlers) => open((id) => ({ id, inbox: true }), handlers);

function open(request: (id: number) => ToWorker, handlers: Handlers): () => void {
  const id = ++last;
  watches.set(id, { ...handlers, since: 0 });
  send(request(id));
  return () => {
    watches.delete(id);
    send({ id, close: true });
  };
}

/**
 * Watches while the component is mounted; `init` undefined watches nothing. A watch that is not shared is closed while the tab is hidden, and then
 * resumes from its last cursor. A shared watch does not resume: after its connection was lost, read the data again.
 */
export function useWatch(init: WatchInit | undefined, shared: boolean, onFrame: (f: Frame) => void): Live {
  const [live, setLive] = useState<Live>({ state: "connecting" });
  const handler = useRef(onFrame);
  handler.current = onFrame;
  const key = init ? encodeWatch(init).join() : "";
  useEffect(() => {
    if (!init) return;
    let stop: (() => void) | undefined, cursor = "", ended = false;
    const frame = (f: Frame) => {
      if (f.cursor) cursor = f.cursor;
      handler.current(f);
    };
    const onLive = (l: Live) => {
      ended = l.state === "ended";
      setLive(l);
    };
    const start = () => void (stop ??= watch(cursor && !shared ? { ...init, cursor, afterSequence: undefined } : init, shared, { frame, live: onLive }));
    const pause = () => {
      stop?.();
      stop = undefined;
    };
    const turn = () => (document.hidden && !shared ? pause() : !ended && start());
    turn();
    document.addEventListener("visibilitychange", turn);
    return () => {
      document.removeEventListener("visibilitychange", turn);
      pause();
    };
  }, [key, shared]);
  return live;
}
