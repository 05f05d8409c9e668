/** JSON with exact numbers: 1, 1.0 and 12345678901234567890 stay as they were written. */

export class Num {
  constructor(readonly text: string) {}
}
export type Json = null | boolean | string | Num | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** Parses JSON text. It throws a SyntaxError. */
export function parse(text: string): Json {
  const reviver = (_: string, value: unknown, context?: { source?: string }) => (typeof value === "number" ? new Num(context?.source ?? String(value)) : value);
  return JSON.parse(text, reviver) as Json;
}

/** Writes JSON text, in one line unless `indent` is set. */
export function print(v: Json, indent = 0, at = 0): string {
  if (v instanceof Num) return v.text;
  if (v === null || typeof v !== "object") return JSON.stringify(v);
  const line = indent ? "\n" + " ".repeat(indent * (at + 1)) : "", end = indent ? "\n" + " ".repeat(indent * at) : "";
  const items = Array.isArray(v) ? v.map((x) => print(x, indent, at + 1)) : Object.entries(v).map(([k, x]) => `${JSON.stringify(k)}:${indent ? " " : ""}${print(x, indent, at + 1)}`);
  const [open, close] = Array.isArray(v) ? "[]" : "{}";
  return items.length ? `${open}${line}${items.join("," + line)}${end}${close}` : `${open}${close}`;
}

export const isObject = (v: unknown): v is JsonObject => typeof v === "object" && v !== null && !Array.isArray(v) && !(v instanceof Num);

/** Reports whether two values are written in the same way. The order of members does not matter. */
export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (isObject(a) && isObject(b)) {
    const names = Object.keys(a);
    return names.length === Object.keys(b).length && names.every((n) => Object.hasOwn(b, n) && same(a[n], b[n]));
  }
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((x, i) => same(x, b[i]));
  return print(a) === print(b);
}

/** Returns JSON text as a value, or undefined when it is empty or is not JSON. */
export function tryParse(text: string): Json | undefined {
  try {
    return text ? parse(text) : undefined;
  } catch {
    return undefined;
  }
}
