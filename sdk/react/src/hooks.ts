"use client";

import { createContext, createElement, useContext, useEffect, useMemo, useRef, useSyncExternalStore, type ReactNode } from "react";
import { Client, retry, type Token } from "./client.js";
import { CallReader, InboxReader, RunReader, type CallData, type InboxData, type RunData } from "./readers.js";
import { Watch, type Connection, type Reader } from "./watch.js";

/** A daemon with the watches that its hooks share. */
interface Daemon {
  client: Client;
  watches: Map<string, Watch<unknown>>;
}

const Context = createContext<Daemon | undefined>(undefined);

export interface TooldProviderProps {
  /** Where the HTTP endpoint is, without a slash at the end. Empty, or absent, for pages of the daemon's own origin. */
  baseUrl?: string;
  /** If it is absent, the browser sends the cookie of its session. */
  token?: Token;
  children?: ReactNode;
}

/** Provides the daemon to the hooks in its children. */
export function TooldProvider({ baseUrl = "", token, children }: TooldProviderProps) {
  const newest = useRef(token), changes = typeof token === "function", fixed = changes ? undefined : token; // A new function is still the token of the same principal, so the client stays.
  useEffect(() => {
    newest.current = token;
  });
  const daemon = useMemo<Daemon>(() => ({ client: new Client(baseUrl, () => (changes ? newest.current : fixed)), watches: new Map() }), [baseUrl, fixed, changes]);
  return createElement(Context.Provider, { value: daemon }, children);
}

/** Follows a call from its first event. `cancel` requests its end. Without an id, nothing is followed. */
export function useCall(callId: string | undefined): CallData & Connection & { cancel(reason?: string): Promise<void> } {
  const [client, shown] = useWatch(callId && `call ${callId}`, (c) => new CallReader(c, callId ?? ""));
  return useMemo(() => ({ ...shown, cancel: (reason) => retry(async () => void (await client.unary("CancelCall", { callId, reason }))) }), [client, shown, callId]);
}

/** Follows the calls of a run from the first one. Without an id, nothing is followed. */
export function useRun(runId: string | undefined): RunData & Connection {
  return useWatch(runId && `run ${runId}`, (c) => new RunReader(c, runId ?? ""))[1];
}

/** Follows the questions that wait for the principal. */
export function useInbox(): InboxData & Connection {
  return useWatch("inbox", (c) => new InboxReader(c))[1];
}

/** Subscribes to the watch with a key. Hooks with the same key share a connection. */
function useWatch<T>(key: string | undefined, read: (client: Client) => Reader<T>): [Client, T & Connection] {
  const daemon = useContext(Context);
  if (!daemon) throw new Error("the hooks of @toold/react need a TooldProvider above them");
  const watch = useMemo(() => watchOf(daemon, key ?? "", read), [daemon, key]);
  return [daemon.client, useSyncExternalStore(key ? watch.subscribe : idle, watch.snapshot, watch.snapshot)];
}

const idle = () => () => {};

function watchOf<T>({ client, watches }: Daemon, key: string, read: (client: Client) => Reader<T>): Watch<T> {
  let watch = watches.get(key) as Watch<T> | undefined;
  if (!watch) {
    const made: Watch<T> = new Watch(client, read(client), (used) => void (used ? watches.set(key, made as Watch<unknown>) : watches.delete(key)));
    watches.set(key, (watch = made) as Watch<unknown>);
  }
  return watch;
}
