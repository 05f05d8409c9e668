/** The keywords of JSON Schema that forms support. Values with other keywords are edited as JSON. The daemon checks every answer against the whole schema. */
import { isObject, Num, print, same, tryParse, type Json, type JsonObject } from "./json.ts";

export interface Option {
  value: Json;
  title: string;
  about: string;
}

export type Shape =
  | { kind: "options"; options: Option[] }
  | { kind: "string"; long: boolean }
  | { kind: "number"; whole: boolean }
  | { kind: "boolean" }
  | { kind: "object"; fields: Field[] }
  | { kind: "list"; of: Json }
  | { kind: "json" };

export interface Field {
  name: string;
  schema: Json;
  required: boolean;
}

/** Maximum number of fields or items in a form. A larger form would be slow, so such values are edited as JSON. */
export const mostFields = 200;

const str = (v: Json | undefined) => (typeof v === "string" ? v : "");
const num = (v: Json | undefined) => (v instanceof Num ? Number(v.text) : undefined);
const asTitle = (v: Json) => (typeof v === "string" ? v : print(v));

/** Returns how a form edits a value that has this schema. */
export function shapeOf(schema: Json | undefined): Shape {
  if (!isObject(schema)) return { kind: "json" };
  const options = optionsOf(schema);
  if (options) return { kind: "options", options };
  if (["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "patternProperties", "prefixItems"].some((k) => Object.hasOwn(schema, k))) return { kind: "json" };
  switch (schema.type) {
    case "string":
      return { kind: "string", long: !schema.format && !((num(schema.maxLength) ?? Infinity) <= 120) };
    case "number":
    case "integer":
      return { kind: "number", whole: schema.type === "integer" };
    case "boolean":
      return { kind: "boolean" };
    case "array":
      return isObject(schema.items) ? { kind: "list", of: schema.items } : { kind: "json" };
    case "object": {
      // The viewer edits members that are not listed as JSON, unless the schema forbids them.
      const properties = isObject(schema.properties) ? schema.properties : {};
      if (isObject(schema.additionalProperties) || Object.keys(properties).length === 0 || Object.keys(properties).length > mostFields) return { kind: "json" };
      const required = Array.isArray(schema.required) ? schema.required : [];
      return { kind: "object", fields: Object.entries(properties).map(([name, s]) => ({ name, schema: s, required: required.includes(name) })) };
    }
    default:
      return { kind: "json" };
  }
}

function optionsOf(schema: JsonObject): Option[] | undefined {
  if (Object.hasOwn(schema, "const")) return [{ value: schema.const!, title: str(schema.title) || asTitle(schema.const!), about: str(schema.description) }];
  if (Array.isArray(schema.enum) && schema.enum.length > 0) {
    const titles = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, i) => ({ value, title: str(titles[i]) || asTitle(value), about: "" }));
  }
  const of = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(of) && of.length > 0 && of.every((o) => isObject(o) && Object.hasOwn(o, "const"))) return of.map((o) => optionsOf(o as JsonObject)![0]!);
  return undefined;
}

/** Describes the values that a schema allows in a few words: `whole number, 1 to 60`. */
export function hint(schema: Json, required: boolean): string {
  if (!isObject(schema)) return required ? "required" : "";
  const shape = shapeOf(schema), low = num(schema.minimum) ?? num(schema.exclusiveMinimum), high = num(schema.maximum) ?? num(schema.exclusiveMaximum);
  const words = [];
  if (shape.kind === "number") words.push(shape.whole ? "whole number" : "number", low !== undefined && high !== undefined ? `${low} to ${high}` : low !== undefined ? `from ${low}` : high !== undefined ? `to ${high}` : "");
  else if (shape.kind === "string") words.push(str(schema.format) || "text", num(schema.maxLength) !== undefined ? `at most ${num(schema.maxLength)!.toLocaleString("en")} characters` : "");
  else if (shape.kind === "json") words.push("JSON");
  words.push(required ? "required" : "may be left out");
  return words.filter(Boolean).join(", ");
}

/** Returns the initial value of a form. It contains only members that the form shows, so that no person sends a value that the page hides. */
export function blank(schema: Json): Json | undefined {
  if (!isObject(schema)) return undefined;
  const shape = shapeOf(schema);
  if (Object.hasOwn(schema, "default") && shape.kind !== "object") return schema.default;
  if (shape.kind === "options" && shape.options.length === 1) return shape.options[0]!.value;
  if (shape.kind !== "object") return undefined;
  const all = isObject(schema.default) ? schema.default : {};
  const members = shape.fields.map((f): [string, Json | undefined] => [f.name, Object.hasOwn(all, f.name) ? all[f.name] : blank(f.schema)]);
  return Object.fromEntries(members.filter((m): m is [string, Json] => m[1] !== undefined));
}

/** Returns the errors of a value by path, such as `note` or `hosts[1].port`. */
export function check(schema: Json, v: Json | undefined, required: boolean, path = "", out = new Map<string, string>()): Map<string, string> {
  if (v === undefined) {
    if (required) out.set(path, "It is required.");
    return out;
  }
  if (!isObject(schema)) return out;
  const shape = shapeOf(schema);
  const bad = (text: string) => out.set(path, text);
  const length = typeof v === "string" ? [...v].length : Array.isArray(v) ? v.length : 0;
  const within = (low: Json | undefined, high: Json | undefined, unit: string) => {
    if (length < (num(low) ?? 0)) bad(`It has ${length} ${unit}; want at least ${num(low)}.`);
    if (length > (num(high) ?? Infinity)) bad(`It has ${length} ${unit}; want at most ${num(high)}.`);
  };
  if (shape.kind === "options" && !shape.options.some((o) => same(o.value, v))) bad("Choose one of the answers.");
  if (shape.kind === "string") typeof v === "string" ? within(schema.minLength, schema.maxLength, "characters") : bad("It must be text.");
  if (shape.kind === "list") {
    if (!Array.isArray(v)) return bad("It must be a list."), out;
    within(schema.minItems, schema.maxItems, "items");
    v.forEach((x, i) => check(shape.of, x, true, `${path}[${i}]`, out));
  }
  if (shape.kind === "object") {
    if (!isObject(v)) return bad("It must be an object."), out;
    for (const f of shape.fields) check(f.schema, Object.hasOwn(v, f.name) ? v[f.name] : undefined, f.required, path ? `${path}.${f.name}` : f.name, out);
  }
  if (shape.kind === "number") checkNumber(schema, v, shape.whole, bad);
  return out;
}

function checkNumber(schema: JsonObject, v: Json, whole: boolean, bad: (text: string) => void) {
  if (!(v instanceof Num) || !(tryParse(v.text) instanceof Num)) return bad(`${asTitle(v) || "This"} is not a ${whole ? "whole " : ""}number.`);
  const n = Number(v.text);
  if (whole && !Number.isInteger(n)) bad(`${v.text} is not a whole number.`);
  else if (n < (num(schema.minimum) ?? -Infinity)) bad(`${v.text} is less than ${num(schema.minimum)}.`);
  else if (n > (num(schema.maximum) ?? Infinity)) bad(`${v.text} is more than ${num(schema.maximum)}.`);
  else if (n <= (num(schema.exclusiveMinimum) ?? -Infinity)) bad(`${v.text} is not more than ${num(schema.exclusiveMinimum)}.`);
  else if (n >= (num(schema.exclusiveMaximum) ?? Infinity)) bad(`${v.text} is not less than ${num(schema.exclusiveMaximum)}.`);
}
