/** Reads an audit record. The daemon writes its JSON, but a forged record may contain anything. */
import type { AuditRecord } from "../../../gen/toold/v1/admin_service_pb.ts";

export interface Said {
  /** What happened, such as `decided: yes`. */
  what: string;
  tone: "" | "fail" | "wait";
  tool: string;
  /** Who did it. */
  by: string;
  /** Who started the call. Only the first record of a call contains this. */
  caller: string;
  /** Id of the call; may be empty. */
  call: string;
}

type Json = Record<string, unknown>;
const object = (v: unknown): Json => (typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Json) : {});
const text = (v: unknown) => (typeof v === "string" ? v : typeof v === "number" ? String(v) : "");
const answers: Record<string, string> = { RESUME: "yes", CANCEL: "no" };
const scopes: Record<string, string> = { run: "for the run", thread: "for the thread", namespace: "for the namespace" };

const known = new WeakMap<AuditRecord, Said>();

/** Reads a record. The result is cached. */
export function read(record: AuditRecord): Said {
  let said = known.get(record);
  if (!said) known.set(record, (said = readNow(record)));
  return said;
}

function readNow(record: AuditRecord): Said {
  let e: Json;
  try {
    e = object(JSON.parse(new TextDecoder().decode(record.record)));
  } catch {
    return { what: "a record that cannot be read", tone: "fail", tool: "", by: "", caller: "", call: record.callId };
  }
  const operation = e.event === "operation";
  const caller = text(object(e.caller).subject);
  const said: Said = { what: text(e.event), tone: "", tool: text(e.tool), by: text(object(e.by).subject), caller, call: operation ? record.callId : record.callId || record.key };
  const error = text(e.error);
  switch (e.event) {
    case "accepted":
      return { ...said, what: "accepted", by: caller };
    case "attempt_started":
      return { ...said, what: `attempt ${text(e.attempt)} started` };
    case "gate_decided":
      return { ...said, what: `${text(e.verdict).toLowerCase()} by ${text(e.gate)}`, tone: /block|deny/i.test(text(e.verdict)) ? "fail" : "" };
    case "suspended":
      return { ...said, what: `waits: ${text(e.action)}`, tone: "wait" };
    case "vote_recorded":
      return { ...said, what: `voted: ${answers[text(e.action)] ?? text(e.action)}` };
    case "resumed": {
      const scope = text(object(e.remember).scope).toLowerCase();
      return { ...said, what: `decided: ${answers[text(e.action)] ?? text(e.action)}${scope ? `, kept ${scopes[scope] ?? scope}` : ""}${e.result_instead ? ", answered in the tool’s place" : ""}` };
    }
    case "cancel_requested":
      return { ...said, what: `cancel requested${text(e.cause) ? `: ${text(e.cause)}` : ""}` };
    case "finished":
      return { ...said, what: `finished: ${text(e.status).toLowerCase()}${error ? ` ${error}` : ""}`, tone: e.status === "FAILED" ? "fail" : "" };
    case "operation": {
      const of = Object.entries(object(e.of)).map(([k, v]) => `${k} ${text(v)}`);
      return { ...said, what: `${text(e.operation)}${of.length ? ` ${of.join(", ")}` : ""}${error ? `, refused: ${error}` : ""}`, tone: error ? "fail" : "" };
    }
    default:
      return said;
  }
}

export const hex = (b: Uint8Array) => Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");

/** The kinds of records, as written in a search. */
export const kinds = ["accepted", "attempt_started", "gate_decided", "suspended", "vote_recorded", "resumed", "cancel_requested", "finished", "operation"];

export interface Filter {
  principal: string;
  callId: string;
  kinds: string[];
  storedAfter?: Date;
  storedBefore?: Date;
  /** Says why the search is invalid; empty when it is valid. */
  wrong: string;
}

const units: Record<string, number> = { m: 60e3, h: 3600e3, d: 86400e3 };

/** Reads a time: `2h` and `7d` mean that long ago; other forms are `2027-01-31` and `2027-01-31T08:00`. */
function time(text: string): Date | undefined {
  const ago = /^(\d{1,6})([mhd])$/.exec(text);
  if (ago) return new Date(Date.now() - Number(ago[1]) * units[ago[2]!]!);
  const at = new Date(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00` : text);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** Reads a search such as `who:tam kind:resumed since:7d`. A word without a colon is a subject. */
export function parse(search: string): Filter {
  const f: Filter = { principal: "", callId: "", kinds: [], wrong: "" };
  for (const word of search.split(/\s+/).filter(Boolean)) {
    const [, key, value] = /^(who|call|kind|since|until):(.*)$/.exec(word) ?? ["", "who", word];
    if (!value) continue;
    if (key === "who") f.principal = value;
    if (key === "call") f.callId = value;
    if (key === "kind") {
      f.kinds.push(...value.split(","));
      const bad = f.kinds.find((k) => !kinds.includes(k));
      if (bad !== undefined) f.wrong = `“${bad}” is no kind of record; there are ${kinds.join(", ")}.`;
    }
    if (key === "since" || key === "until") {
      const at = time(value);
      if (!at) f.wrong = `“${value}” is no time; write 2h, 7d or 2027-01-31.`;
      if (key === "since") f.storedAfter = at;
      else f.storedBefore = at;
    }
  }
  return f;
}
