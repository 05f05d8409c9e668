/** The filter of the list of calls: in the address, as words of the search field, and as a request. */
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { CallStatus, Executed } from "../../../gen/toold/v1/call_pb.ts";
import { type ListCallsRequest, ListCallsRequestSchema } from "../../../gen/toold/v1/call_service_pb.ts";
import { ErrorCode } from "../../../gen/toold/v1/result_pb.ts";

/** The values of the filter `status`. */
export const statuses: Record<string, CallStatus[]> = {
  running: [CallStatus.RUNNING, CallStatus.RESUMING],
  new: [CallStatus.NEW],
  waiting: [CallStatus.SUSPENDED],
  succeeded: [CallStatus.SUCCEEDED],
  failed: [CallStatus.FAILED],
  cancelled: [CallStatus.CANCELLED],
  doubt: [], // no statuses, because a call in doubt may have any: it is not known how far the tool got
};

/** The keys of the search field. A key may occur several times if a call can match one of several values. */
const keys = ["tool", "run", "thread", "label", "who", "source", "error"] as const;
type Key = (typeof keys)[number];
const several: Key[] = ["tool", "label", "error"];

/** A filter: a list of words for each key, a text, and a time. The time is a span such as `24h`, `all`, or a moment. */
export interface Filter extends Record<Key, string[]> {
  status: string[];
  text: string;
  since: string;
  until: string;
}

/** Reads the filter in an address. It ignores unknown parameters. */
export function read(search: string): Filter {
  const p = new URLSearchParams(search);
  const list = (name: string) => p.getAll(name).filter(Boolean);
  return {
    ...(Object.fromEntries(keys.map((k) => [k, list(k)])) as Record<Key, string[]>),
    status: list("status").filter((s) => s in statuses),
    text: p.get("text") ?? "",
    since: p.get("since") ?? "24h",
    until: p.get("until") ?? "",
  };
}

/** Returns the address of a filter. */
export function address(f: Filter): string {
  const p = new URLSearchParams();
  for (const k of ["status", ...keys] as const) f[k].forEach((v) => p.append(k, v));
  if (f.text) p.set("text", f.text);
  if (f.since !== "24h") p.set("since", f.since);
  if (f.until) p.set("until", f.until);
  const s = p.toString();
  return s ? `/calls?${s}` : "/calls";
}

const quote = (v: string) => (/[\s"]|^$/.test(v) ? `"${v.replaceAll('"', '\\"')}"` : v);

/** Returns the words of a filter for the search field. */
export const words = (f: Filter) => [...keys.flatMap((k) => f[k].map((v) => `${k}:${quote(v)}`)), f.text].filter(Boolean).join(" ");

/** Reads the text in the search field. It throws an error that says what is wrong. */
export function parse(typed: string, f: Filter): Filter {
  const next: Filter = { ...f, text: "", ...(Object.fromEntries(keys.map((k) => [k, []])) as unknown as Record<Key, string[]>) };
  const text: string[] = [];
  for (const [, key, quoted, bare, word] of typed.matchAll(/(?:(\w+):)(?:"((?:\\.|[^"\\])*)"|(\S+))|(\S+)/g)) {
    if (word !== undefined) {
      if (/^(\w+):$/.test(word)) throw new Error(`${word} has no value`);
      text.push(word);
      continue;
    }
    const value = quoted?.replaceAll('\\"', '"') ?? bare!;
    if (!keys.includes(key as Key)) {
      text.push(`${key}:${value}`);
      continue;
    }
    const k = key as Key;
    if (k === "error" && errorCode(value) === undefined) throw new Error(`error:${value} is not an error code. There are ${errors.join(", ")}.`);
    if (k === "label" && !/^[^=]+=/.test(value)) throw new Error(`label:${value} is not label:key=value`);
    if (next[k].length > 0 && !several.includes(k)) throw new Error(`A call has only one ${k}: remove one of them.`);
    next[k].push(value);
  }
  next.text = text.join(" ");
  return next;
}

const errors = Object.values(ErrorCode).filter((v): v is string => typeof v === "string" && v !== "UNSPECIFIED").map((v) => v.toLowerCase());
const errorCode = (name: string) => (errors.includes(name.toLowerCase()) ? ErrorCode[name.toUpperCase() as keyof typeof ErrorCode] : undefined);

const units: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns a time in milliseconds since 1970. It returns undefined for `all`, and for a text that is neither a span nor a time. */
export function moment(text: string, now: number): number | undefined {
  const span = /^(\d{1,6})([mhd])$/.exec(text);
  if (span) return now - Number(span[1]) * units[span[2]!]!;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

/** Writes a span for people: `24h` becomes "last 24 h". */
export function spanName(text: string): string {
  const span = /^(\d+)([mhd])$/.exec(text);
  if (span) return `last ${span[1]} ${span[2] === "m" ? "min" : span[2]}`;
  return text === "all" || moment(text, 0) === undefined ? "all times" : `since ${text}`;
}

/** Reports whether the filter limits anything other than the time. */
export const narrowed = (f: Filter) => f.text !== "" || f.status.length > 0 || keys.some((k) => f[k].length > 0);

/** Returns the request of a filter. A span is counted back from `now`, so that all pages of a list begin at the same time. */
export function request(f: Filter, now: number): ListCallsRequest {
  const at = (text: string) => {
    const ms = moment(text, now);
    return ms === undefined ? undefined : timestampFromMs(ms);
  };
  return create(ListCallsRequestSchema, {
    statuses: f.status.flatMap((s) => statuses[s] ?? []),
    executed: f.status.includes("doubt") ? [Executed.UNKNOWN] : [],
    tools: f.tool,
    runId: f.run[0],
    threadId: f.thread[0],
    caller: f.who[0],
    source: f.source[0],
    labels: Object.fromEntries(f.label.map((l) => [l.slice(0, l.indexOf("=")), l.slice(l.indexOf("=") + 1)])),
    errorCodes: f.error.flatMap((e) => errorCode(e) ?? []),
    text: f.text,
    createdAfter: at(f.since),
    createdBefore: at(f.until),
  });
}
