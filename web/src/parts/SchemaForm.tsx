/** A form made from a JSON Schema. Values are JSON text, so that numbers stay exact. Values that the form does not support are edited as JSON. */
import { useId, type ReactNode } from "react";
import { isJSON, membersOf, objectOf } from "./json.ts";
import { oneLine, Text } from "./Text.tsx";

/** The parts of a JSON Schema that the form and the table of arguments show. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema | boolean>;
  required?: string[];
  items?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  pattern?: string;
  format?: string;
  $ref?: string;
}

/** Maximum number of fields. Larger objects are edited as JSON. */
export const mostFields = 200;

export interface Field {
  name: string;
  schema: Schema;
  required: boolean;
}

/** Reads a schema; undefined when it is not an object. */
export function parseSchema(text: string): Schema | undefined {
  try {
    const s: unknown = JSON.parse(text);
    return typeof s === "object" && s && !Array.isArray(s) ? (s as Schema) : undefined;
  } catch {
    return undefined;
  }
}

/** Follows a reference into the same schema. */
function resolve(root: Schema, s: Schema, depth = 0): Schema {
  if (typeof s.$ref !== "string" || !s.$ref.startsWith("#/") || depth > 8) return s;
  let at: unknown = root;
  for (const step of s.$ref.slice(2).split("/")) at = typeof at === "object" && at ? (at as Record<string, unknown>)[step.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  return typeof at === "object" && at ? { ...resolve(root, at as Schema, depth + 1), ...(s.description ? { description: s.description } : {}) } : s;
}

/** Returns the fields of a schema, required ones first. It returns undefined when the form does not support the schema. */
export function fieldsOf(schema: Schema | undefined): Field[] | undefined {
  if (!schema || typeof schema.properties !== "object" || schema.anyOf || schema.oneOf) return undefined;
  const all = Object.entries(schema.properties);
  if (all.length > mostFields) return undefined;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields = all.map(([name, s]) => ({ name, schema: typeof s === "object" && s ? resolve(schema, s) : {}, required: required.includes(name) }));
  return [...fields.filter((f) => f.required), ...fields.filter((f) => !f.required)];
}

/** Returns the type of a value, ignoring null. It returns `any` when a value may have several types. */
export function typeOf(s: Schema): string {
  const types = (Array.isArray(s.type) ? s.type : [s.type]).filter((t): t is string => typeof t === "string" && t !== "null");
  return types.length === 1 ? types[0]! : "any";
}

const words: Record<string, string> = { string: "text", integer: "whole number", number: "number", boolean: "yes or no", array: "list", object: "object", any: "any value" };

/** Returns the type in words, such as `list of text`. */
export function typeWord(s: Schema): string {
  const type = typeOf(s);
  if (Array.isArray(s.enum)) return "choice";
  if (type === "array" && typeof s.items === "object" && s.items) return `list of ${typeWord(s.items)}`;
  return words[type] ?? oneLine(type, 40);
}

/** Returns the limits of a value in words. */
export function limitsOf(s: Schema): string[] {
  const out: string[] = [];
  const range = (least: number | undefined, most: number | undefined, what: string) => {
    if (least !== undefined && most !== undefined) out.push(`${least} to ${most}${what}`);
    else if (least !== undefined) out.push(`at least ${least}${what}`);
    else if (most !== undefined) out.push(`at most ${most}${what}`);
  };
  range(s.minimum, s.maximum, "");
  if (s.exclusiveMinimum !== undefined) out.push(`above ${s.exclusiveMinimum}`);
  if (s.exclusiveMaximum !== undefined) out.push(`below ${s.exclusiveMaximum}`);
  range(s.minLength, s.maxLength, " characters");
  range(s.minItems, s.maxItems, " entries");
  if (s.pattern) out.push(`matches ${oneLine(s.pattern, 100)}`);
  if (s.format) out.push(oneLine(s.format, 40));
  return out.map((x) => oneLine(x));
}

interface FormProps {
  schema: Schema;
  /** JSON text of the object. */
  value: string;
  onChange: (value: string) => void;
  /** Error messages by the name of the field. */
  errors?: Map<string, string>;
  /** JSON text of the original value. Fields that differ from it are marked. */
  original?: string;
}

/** Shows a form if the schema has one and the value is an object. Otherwise it shows a field for JSON text. */
export function SchemaForm({ schema, value, onChange, errors, original }: FormProps) {
  const fields = fieldsOf(schema), members = membersOf(value), before = original === undefined ? undefined : membersOf(original);
  if (!fields || !members) return <JSONText label="JSON" value={value} onChange={onChange} error={errors?.get("")} />;
  const set = (name: string, text: string | undefined) => {
    const next = new Map(members);
    if (text === undefined) next.delete(name);
    else next.set(name, text);
    onChange(objectOf(next));
  };
  const other = [...members.keys()].filter((name) => !fields.some((f) => f.name === name));
  return (
    <div className="form">
      {fields.map((f) => (
        <Input key={f.name} field={f} text={members.get(f.name)} set={(t) => set(f.name, t)} error={errors?.get(f.name)} changed={before !== undefined && before.get(f.name) !== members.get(f.name)} />
      ))}
      {other.map((name) => (
        <Input key={name} field={{ name, schema: {}, required: false }} text={members.get(name)} set={(t) => set(name, t)} error={errors?.get(name)} changed={before !== undefined && before.get(name) !== members.get(name)} />
      ))}
      {errors?.has("") && <p className="err" role="alert"><Text>{errors.get("")!}</Text></p>}
    </div>
  );
}

/** A field for JSON text. */
export function JSONText({ label, value, onChange, error }: { label: string; value: string; onChange: (value: string) => void; error?: string }) {
  const id = useId();
  const problem = error ?? (isJSON(value) ? undefined : "This is not JSON yet.");
  return (
    <div className={`field ${problem ? "bad" : ""}`}>
      <label htmlFor={id}>{label}</label>
      <textarea id={id} className="inp mono" rows={Math.min(16, Math.max(4, value.split("\n").length))} spellCheck={false} value={value} onChange={(e) => onChange(e.target.value)} aria-invalid={problem !== undefined} aria-describedby={`${id}-e`} />
      <span id={`${id}-e`} className="err">{problem && <Text>{problem}</Text>}</span>
    </div>
  );
}

interface InputProps {
  field: Field;
  /** JSON text of the value; undefined when it is not sent. */
  text: string | undefined;
  set: (text: string | undefined) => void;
  error?: string;
  changed: boolean;
}

/** Decodes a JSON string. It returns undefined for any other JSON. */
function stringOf(text: string | undefined): string | undefined {
  if (text?.[0] !== '"') return undefined;
  try {
    return JSON.parse(text) as string;
  } catch {
    return undefined;
  }
}

function Input({ field: { name, schema: s, required }, text, set, error, changed }: InputProps) {
  const id = useId();
  const limits = limitsOf(s).join(", ");
  const props = { id, className: "inp", "aria-required": required, "aria-invalid": error !== undefined, "aria-describedby": `${id}-h` };
  return (
    <div className={`field ${changed ? "changed" : ""} ${error ? "bad" : ""}`}>
      <label htmlFor={id}>
        <code><Text most={100}>{name}</Text></code> {required && <span className="t3">required</span>}
      </label>
      <Control schema={s} text={text} set={set} required={required} props={props} />
      <span id={`${id}-h`} className="hint">
        {error && <span className="err"><Text>{error}</Text> </span>}
        {s.description && <Text most={200}>{String(s.description)}</Text>} {limits && limits.slice(0, 1).toUpperCase() + limits.slice(1)}
      </span>
    </div>
  );
}

type ControlProps = Pick<InputProps, "text" | "set"> & { schema: Schema; required: boolean; props: { id: string; className: string } };

function Control({ schema: s, text, set, required, props }: ControlProps): ReactNode {
  const type = typeOf(s), hint = s.default === undefined ? "" : oneLine(typeof s.default === "string" ? s.default : JSON.stringify(s.default), 60);
  if (Array.isArray(s.enum) && s.enum.length <= mostFields) return <Choice choices={s.enum.map((v) => JSON.stringify(v))} hint={hint} {...{ text, set, required, props }} />;
  if (type === "boolean") return <Choice choices={["true", "false"]} names={{ true: "yes", false: "no" }} hint={hint === "true" ? "yes" : hint === "false" ? "no" : ""} {...{ text, set, required, props }} />;
  const value = stringOf(text);
  if (type === "string" && (text === undefined || value !== undefined)) {
    // An empty text is sent only when the field is required.
    const put = (v: string) => set(v === "" && !required ? undefined : JSON.stringify(v));
    if (typeof s.maxLength === "number" && s.maxLength <= 200 && !value?.includes("\n")) return <input {...props} value={value ?? ""} placeholder={hint} onChange={(e) => put(e.target.value)} />;
    return <textarea {...props} rows={Math.min(12, Math.max(1, (value ?? "").split("\n").length))} value={value ?? ""} placeholder={hint} onChange={(e) => put(e.target.value)} />;
  }
  const put = (v: string) => set(v.trim() === "" ? undefined : v);
  if (type === "integer" || type === "number") return <input {...props} inputMode={type === "integer" ? "numeric" : "decimal"} value={text ?? ""} placeholder={hint} onChange={(e) => put(e.target.value)} />;
  return <textarea {...props} className="inp mono" spellCheck={false} rows={Math.min(12, Math.max(2, (text ?? "").split("\n").length))} value={text ?? ""} placeholder={hint || "JSON"} onChange={(e) => put(e.target.value)} />;
}

function Choice({ choices, names = {}, hint, text, set, required, props }: Omit<ControlProps, "schema"> & { choices: string[]; names?: Record<string, string>; hint: string }) {
  const all = text === undefined || choices.includes(text) ? choices : [text, ...choices];
  return (
    <select {...props} value={text ?? ""} onChange={(e) => set(e.target.value || undefined)}>
      <option value="">{hint ? `default: ${hint}` : required ? "choose" : "not sent"}</option>
      {all.map((c) => <option key={c} value={c}>{names[c] ?? oneLine(stringOf(c) ?? c, 80)}</option>)}
    </select>
  );
}
