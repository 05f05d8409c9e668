/** Shows times: relative in the text, and exact in the viewer's time zone on hover. */
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { useEffect, useState, useSyncExternalStore } from "react";

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

/** Writes a duration in at most two units: `12 s`, `1 h 42 min`, `29 d`. */
export function span(ms: number): string {
  const a = Math.abs(ms);
  const two = (big: number, bigName: string, small: number, smallName: string) => {
    const rest = Math.floor((a % big) / small);
    return `${Math.floor(a / big)} ${bigName}${rest ? ` ${rest} ${smallName}` : ""}`;
  };
  if (a < 10) return `${Math.round(a * 10) / 10} ms`;
  if (a < second) return `${Math.round(a)} ms`;
  if (a < 10 * second) return `${(a / second).toFixed(1)} s`;
  if (a < minute) return `${Math.floor(a / second)} s`;
  if (a < 10 * minute) return two(minute, "min", second, "s");
  if (a < hour) return `${Math.floor(a / minute)} min`;
  if (a < day) return two(hour, "h", minute, "min");
  return two(day, "d", hour, "h");
}

// Created once, because creating a format takes far longer than using it.
const zones = new Intl.DateTimeFormat("en", { timeZoneName: "short" });
const clocks = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The exact time in the viewer's zone: `2027-03-16 16:20:05.123 GMT+1`. */
export function exact(d: Date): string {
  const p = (n: number, w = 2) => String(n).padStart(w, "0");
  const zone = zones.formatToParts(d).find((x) => x.type === "timeZoneName")?.value ?? "";
  return `${d.getFullYear()}-${p(d.getMonth() + 1)}-${p(d.getDate())} ${p(d.getHours())}:${p(d.getMinutes())}:${p(d.getSeconds())}.${p(d.getMilliseconds(), 3)} ${zone}`;
}

/** The clock in the viewer's zone: `16:20:05`. */
export const clock = (d: Date) => clocks.format(d);

// All times on the page share one timer.
let now = Date.now();
const watchers = new Set<() => void>();
setInterval(() => {
  now = Date.now();
  watchers.forEach((w) => w());
}, second);

function subscribe(changed: () => void) {
  watchers.add(changed);
  return () => void watchers.delete(changed);
}

/** Returns the current time, rounded down to `step` milliseconds, so that a component renders once for each step. */
export function useNow(step = minute): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / step) * step);
}

/** Shows how long ago a time was, or how far in the future it is. */
export function Time({ at, className }: { at?: Timestamp; className?: string }) {
  const date = at && timestampDate(at);
  const near = date ? Math.abs(date.getTime() - Date.now()) < 2 * minute : false;
  useNow(near ? second : 30 * second);
  if (!date) return null;
  const ms = date.getTime() - Date.now();
  const text = ms > 0 ? `in ${span(near ? Math.ceil(ms / second) * second : ms)}` : -ms < 5 * second ? "now" : `${span(-ms >= minute ? -ms : Math.floor(-ms / second) * second)} ago`;
  return (
    <time className={className} dateTime={date.toISOString()} title={exact(date)}>
      {text}
    </time>
  );
}

/** Returns true after `ms` milliseconds. A skeleton uses it to appear only when loading takes longer. */
export function useLater(ms = 300): boolean {
  const [late, set] = useState(false);
  useEffect(() => {
    const t = setTimeout(() => set(true), ms);
    return () => clearTimeout(t);
  }, [ms]);
  return late;
}
