/** Keeps the data of the pages of runs up to date. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { useWatch, type Live } from "../../api/live.ts";
import { useSession } from "../../api/session.tsx";
import type { WatchInit } from "../../api/streams.ts";
import { setLive } from "../../parts/Shell.tsx";

/** Returns the stream to watch: the stream of the namespace, which all tabs share, if the viewer may watch it. Otherwise the stream of this run or thread. */
function useSource(own?: WatchInit): { init?: WatchInit; shared: boolean } {
  const { has } = useSession();
  if (has(Role.VIEWER, Role.OPERATOR)) return { init: { selector: { case: "namespace", value: true }, follow: true }, shared: true };
  return { init: own, shared: false };
}

/**
 * While `on` is true, reads a query again when a call of the stream begins, ends, waits or continues, at most every `every` milliseconds. It also reads
 * the query again after a lost connection is restored, because events may be missing.
 */
export function useFresh(key: unknown[], on: boolean, every: number, own?: WatchInit): Live {
  const queries = useQueryClient();
  const source = useSource(own);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const dirty = useRef(false), allowed = useRef(on);
  allowed.current = on;
  const refresh = () => {
    dirty.current = true;
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      if (!allowed.current || !dirty.current) return;
      dirty.current = false;
      void queries.invalidateQueries({ queryKey: key });
    }, every);
  };
  const live = useWatch(source.init, source.shared, (f) => {
    if (f.control.case === "snapshot" || f.control.case === "gap" || f.events.some(({ event }) => event.case !== "progress" && event.case !== "output" && event.case !== "activityDelta")) refresh();
  });
  const was = useRef(live.state);
  useEffect(() => {
    if (live.state === "live" && was.current === "lost") refresh();
    was.current = live.state;
    setLive(live.state === "live" || live.state === "connecting");
  }, [live.state]);
  useEffect(() => {
    if (on && dirty.current) refresh();
  }, [on]);
  useEffect(() => () => {
    clearTimeout(timer.current);
    setLive(true); // The next page may have no stream.
  }, []);
  return live;
}
