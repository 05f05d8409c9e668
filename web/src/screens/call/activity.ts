/** Activities of a call: what a tool shows of its work, as snapshots and as changes (RFC 6902). */
import type { CallEvent } from "../../../gen/toold/v1/event_pb.ts";
import { isObject, type Json, Num, parse, print, same } from "../ticket/json.ts";

export interface Activity {
  id: string;
  type: string;
  /** JSON text, indented, or the text of a snapshot that is not JSON. */
  text: string;
  /** Changes since the snapshot. */
  changes: number;
  /** Why the newest changes are missing in the text; "" if they are not. */
  missing: string;
}

interface State extends Activity {
  content?: Json;
}

/**
 * The first three are limits of a change: operations, parts of a path, and copied members (about 50 ms of work). The last one limits the characters
 * of an indented content. A copy can double the content, and indentation multiplies the size of nested content.
 */
const mostOperations = 1000, mostDepth = 64, mostCopied = 250_000, mostContent = 1 << 20;
/** Maximum number of activities that the page keeps. When there are more, it keeps the newest. */
const most = 20;

/** The activities of a log that grows. It reads each event once. */
export class Activities {
  private states = new Map<string, State>();
  private first = 0n;
  private last?: CallEvent;

  /** Returns the activities after all events of the log. The last activity is the one that changed most recently. */
  read(events: CallEvent[]): Activity[] {
    let i = events.length;
    while (i > 0 && events[i - 1] !== this.last) i--;
    // Earlier events were read, or a crash lost the last ones.
    if (i === 0 || events[0]!.sequence < this.first) {
      this.states.clear();
      this.first = events[0]?.sequence ?? 0n;
      i = 0;
    }
    for (const e of events.slice(i)) this.take(e);
    this.last = events.at(-1);
    return [...this.states.values()];
  }

  private take({ event: e }: CallEvent) {
    if (e.case !== "activitySnapshot" && e.case !== "activityDelta") return;
    const id = e.value.activityId, old = this.states.get(id);
    this.states.delete(id); // the newest is last
    this.states.set(id, e.case === "activitySnapshot" ? begin(id, e.value.activityType, e.value.content) : change(old ?? this.base(id), e.value.patch));
    if (this.states.size > most) this.states.delete(this.states.keys().next().value!);
  }

  /** Returns the state for a change without a snapshot. It is empty. If there are events that were not read, `missing` says that the snapshot may be in them. */
  private base = (id: string): State => ({ id, type: "", text: "", changes: 0, content: {}, missing: this.first > 1n ? "they change what is in earlier events" : "" });
}

function begin(id: string, type: string, text: string): State {
  const state = { id, type, text, changes: 0, missing: "" };
  try {
    const content = parse(text);
    return { ...state, content, text: room(content, mostContent) < 0 ? text : print(content, 2) };
  } catch {
    return state;
  }
}

function change(a: State, patch: string): State {
  const next = { ...a, changes: a.changes + 1 };
  if (a.missing) return next;
  try {
    if (a.content === undefined) throw new Error("the content is not JSON");
    const content = apply(a.content, parse(patch));
    if (room(content, mostContent) < 0) throw new Error("the content would be too large for this page");
    return { ...next, content, text: print(content, 2) };
  } catch (e) {
    return { ...next, missing: e instanceof SyntaxError ? "the change is not JSON" : e instanceof RangeError ? "the content is nested too deep" : (e as Error).message };
  }
}

/** Returns about how many of `left` characters remain after an indented value at this depth. It stops counting below zero. */
function room(v: Json, left: number, depth = 0): number {
  if (v instanceof Num) return left - v.text.length;
  if (v === null || typeof v !== "object") return left - String(v).length - 2;
  for (const [name, x] of Object.entries(v)) {
    left = room(x, left - 2 * depth - 4 - (Array.isArray(v) ? 0 : name.length + 4), depth + 1);
    if (left < 0) break;
  }
  return left - 2 * depth - 3;
}

/** Returns the value after all operations of a JSON Patch. It throws an error that says what cannot be done. The given value stays as it is. */
export function apply(v: Json, patch: Json): Json {
  if (!Array.isArray(patch)) throw new Error("the change is not a list of operations");
  if (patch.length > mostOperations) throw new Error(`the change has more than ${mostOperations.toLocaleString("en")} operations`);
  const work = { left: mostCopied };
  for (const o of patch) {
    if (!isObject(o)) throw new Error("an operation is not an object");
    const path = pointer(o.path), from = o.op === "move" || o.op === "copy" ? pointer(o.from) : [];
    if ((o.op === "add" || o.op === "replace" || o.op === "test") && o.value === undefined) throw new Error(`an operation ${o.op} has no value`);
    switch (o.op) {
      case "add":
      case "replace":
      case "remove":
        v = edit(work, v, path, o.op, o.value);
        break;
      case "copy":
        v = edit(work, v, path, "add", at(v, from));
        break;
      case "move":
        if (from.length < path.length && from.every((x, i) => x === path[i])) throw new Error("a value cannot be moved into itself");
        v = edit(work, edit(work, v, from, "remove"), path, "add", at(v, from));
        break;
      case "test":
        if (!same(at(v, path), o.value)) throw new Error(`the value at ${JSON.stringify(o.path)} is another one than its test says`);
        break;
      default:
        throw new Error("an operation is none of add, remove, replace, move, copy and test");
    }
  }
  return v;
}

/** Splits a JSON Pointer (RFC 6901). */
function pointer(p: Json | undefined): string[] {
  if (typeof p !== "string" || (p !== "" && !p.startsWith("/")) || /~(?![01])/.test(p)) throw new Error("a path of an operation is not a JSON Pointer");
  const names = p.split("/").slice(1).map((x) => x.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (names.length > mostDepth) throw new Error(`a path has more than ${mostDepth} parts`);
  return names;
}

const nothing = (name: string) => new Error(`there is nothing at ${JSON.stringify(name.slice(0, 64))}`);

function at(v: Json, path: string[]): Json {
  for (const name of path) {
    const next = Array.isArray(v) ? v[index(name)] : isObject(v) && Object.hasOwn(v, name) ? v[name] : undefined;
    if (next === undefined) throw nothing(name);
    v = next;
  }
  return v;
}

const index = (name: string) => (/^(0|[1-9][0-9]{0,8})$/.test(name) ? Number(name) : NaN);

/** Returns a copy of a value with one operation. It takes the number of copied members from `work`. */
function edit(work: { left: number }, v: Json, [name, ...rest]: string[], op: "add" | "replace" | "remove", value?: Json): Json {
  if (name === undefined) return op === "remove" ? null : value!;
  const adds = op === "add" && rest.length === 0;
  if (v !== null && typeof v === "object") work.left -= Array.isArray(v) ? v.length : Object.keys(v).length;
  if (work.left < 0) throw new Error("the change is too much work for this page");
  if (Array.isArray(v)) {
    const i = adds && name === "-" ? v.length : index(name);
    if (!(i < v.length || (adds && i === v.length))) throw nothing(name);
    if (rest.length > 0) return v.with(i, edit(work, v[i]!, rest, op, value));
    return op === "add" ? v.toSpliced(i, 0, value!) : op === "remove" ? v.toSpliced(i, 1) : v.with(i, value!);
  }
  if (!isObject(v) || (!adds && !Object.hasOwn(v, name))) throw nothing(name);
  const members = new Map(Object.entries(v));
  if (op === "remove" && rest.length === 0) members.delete(name);
  else members.set(name, rest.length > 0 ? edit(work, v[name]!, rest, op, value) : value!);
  return Object.fromEntries(members); // a member named __proto__ is a member
}
