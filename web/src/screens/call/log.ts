/** The log of one call: its newest events, updated live, and the gaps between them. */
import { useEffect, useReducer, useRef, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";
import type { CallEvent, Frame, Gap } from "../../../gen/toold/v1/event_pb.ts";
import { GapReason } from "../../../gen/toold/v1/event_pb.ts";
import { calls } from "../../api/clients.ts";
import { useWatch, type Live } from "../../api/live.ts";

/** Number of events in the first read, and in each read of earlier events. */
const page = 500;
/** Maximum number of events that the page keeps. When there are more, it keeps the newest. */
const most = 5000;

export interface Log {
  /** In order of sequence. */
  events: CallEvent[];
  /** Gaps, by the sequence of the event that follows the gap. */
  gaps: Map<bigint, Gap>;
  /** True once all events that were stored when the watch began have been read. */
  caughtUp: boolean;
}

/** Kinds of events that change nothing in the record that the page shows. */
const quiet = new Set(["output", "progress", "activitySnapshot", "activityDelta", "documentChanged", "stateConflict"]);

/**
 * Watches a call. `last` is the sequence of its newest event when its record was read. `onOutput` gets events with new output. `onLostTail` is called
 * when a crash lost the last events, and perhaps the output in them.
 */
export function useLog(id: string, last: bigint | undefined, onOutput: (e: CallEvent) => void, onLostTail: () => void) {
  const queries = useQueryClient();
  const log = useRef<Log>({ events: [], gaps: new Map(), caughtUp: false });
  const [, changed] = useReducer((n: number) => n + 1, 0);
  const [first, setFirst] = useState<bigint>();
  const [more, setMore] = useState<"" | "busy" | "failed">("");
  useEffect(() => {
    if (last !== undefined && first === undefined) setFirst(last > BigInt(page) ? last - BigInt(page) : 0n);
  }, [last, first]);

  // After a reconnect, many frames come at once. The page is rendered, and the record is read again, once for all of them.
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const stale = useRef(false);
  const later = (recordChanged: boolean) => {
    stale.current ||= recordChanged;
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      if (stale.current) void queries.invalidateQueries({ queryKey: ["call", id] });
      stale.current = false;
      changed();
    }, 50);
  };
  useEffect(() => () => clearTimeout(timer.current), []);

  const live: Live = useWatch(first === undefined ? undefined : { selector: { case: "callId", value: id }, afterSequence: first, follow: true }, false, (f: Frame) => {
    const l = log.current;
    if (f.control.case === "gap") {
      const g = f.control.value;
      l.gaps.set(g.firstKept, g);
      // After a lost tail, the same sequences belong to other events.
      if (g.reason === GapReason.LOST_TAIL) {
        l.events = l.events.filter((e) => e.sequence < g.firstKept);
        onLostTail();
      }
      later(true);
    }
    if (f.control.case === "caughtUp") {
      l.caughtUp = true;
      later(false);
    }
    for (const e of f.events) {
      if (l.events.length && e.sequence <= l.events.at(-1)!.sequence) continue;
      l.events.push(e);
      if (e.event.case === "output") onOutput(e);
      later(!quiet.has(e.event.case ?? ""));
    }
    if (l.events.length > most) l.events.splice(0, l.events.length - most);
  });

  /** Reads the events before the first event that is shown. */
  const earlier = async () => {
    const l = log.current;
    const until = l.events[0]?.sequence;
    if (until === undefined || more === "busy") return;
    setMore("busy");
    const from = until > BigInt(page) ? until - BigInt(page) - 1n : 0n;
    const found: CallEvent[] = [];
    const stop = new AbortController();
    try {
      for await (const { frame } of calls.watchCalls({ selector: { case: "callId", value: id }, afterSequence: from, follow: false }, { signal: stop.signal })) {
        if (frame?.control.case === "gap") l.gaps.set(frame.control.value.firstKept, frame.control.value);
        found.push(...(frame?.events ?? []).filter((e) => e.sequence < until));
        if ((frame?.events ?? []).some((e) => e.sequence >= until - 1n)) break;
      }
      l.events = [...found, ...l.events];
      setMore("");
    } catch {
      setMore("failed");
    } finally {
      stop.abort();
    }
  };
  return { log: log.current, live, earlier, more };
}
