/** A form made from a JSON Schema. */
import { lazy, Suspense, useId, useState, type ReactNode } from "react";
import { Skeleton } from "../../parts/small.tsx";
import { countUnseen, oneLine, Text, visible } from "../../parts/Text.tsx";
import { isObject, Num, print, same, tryParse, type Json, type JsonObject } from "./json.ts";
import { hint, mostFields, shapeOf, type Field, type Option } from "./schema.ts";

const Editor = lazy(() => import("./Editor.tsx").then((m) => ({ default: m.Editor })));

interface Props {
  schema: Json;
  value: Json | undefined;
  set: (v: Json | undefined) => void;
  /** Error messages, by path. */
  errors: ReadonlyMap<string, string>;
  /** The value before the edit. Fields that differ from it are marked. */
  before?: Json;
  path?: string;
}

export function Form(p: Props) {
  const shape = shapeOf(p.schema);
  if (shape.kind !== "object") return <One {...p} name="answer" required path={p.path ?? ""} />;
  const value: JsonObject = isObject(p.value) ? p.value : {}, before = isObject(p.before) ? p.before : undefined;
  // Members that the schema does not list are kept. The viewer edits them as JSON.
  return (
    <div className="stack">
      {shape.fields.map((f) => (
        <One
          key={f.name}
          {...f}
          path={p.path ? `${p.path}.${f.name}` : f.name}
          errors={p.errors}
          value={Object.hasOwn(value, f.name) ? value[f.name] : undefined}
          before={before && Object.hasOwn(before, f.name) ? before[f.name] : undefined}
          compared={!!before}
          set={(v) => p.set(withMember(value, f.name, v))}
        />
      ))}
    </div>
  );
}

function withMember(o: JsonObject, name: string, v: Json | undefined): JsonObject {
  // A map, because an assignment to a member named __proto__ would not create it.
  const members = new Map(Object.entries(o));
  if (v === undefined) members.delete(name);
  else members.set(name, v);
  return Object.fromEntries(members);
}

interface OneProps extends Field {
  value: Json | undefined;
  set: (v: Json | undefined) => void;
  errors: ReadonlyMap<string, string>;
  before?: Json;
  compared?: boolean;
  path: string;
}

function One(p: OneProps) {
  const id = useId(), shape = shapeOf(p.schema), about = isObject(p.schema) ? p.schema : {};
  const title = typeof about.title === "string" && about.title ? about.title : p.name, description = typeof about.description === "string" ? about.description : "";
  const error = p.errors.get(p.path), changed = p.compared && !same(p.value, p.before);
  const unseen = typeof p.value === "string" ? countUnseen(p.value) : 0;
  const label = <><Text most={100}>{title}</Text> <span className="t3 fh">{hint(p.schema, p.required)}</span></>;
  const below = (
    <>
      {description && <span className="hint" id={`${id}d`}><Text most={500}>{description}</Text></span>}
      {unseen > 0 && <span className="hint">{unseen === 1 ? "1 character" : `${unseen} characters`} here cannot be seen, or change the order of others. What is stored: <code>{visible(String(p.value).slice(0, 500))}</code></span>}
      {changed && <span className="hint">{p.before === undefined ? "was left out" : <>was <code>{oneLine(print(p.before), 200)}</code></>}</span>}
      {error && <span className="err" id={`${id}e`} role="alert">{oneLine(error, 300)}</span>}
    </>
  );
  const described = [description && `${id}d`, error && `${id}e`].filter(Boolean).join(" ") || undefined;
  const className = `field ${changed ? "changed" : ""} ${error ? "bad" : ""}`;
  const input = { id, className: "inp", "aria-describedby": described, "aria-invalid": error ? true : undefined, "aria-required": p.required || undefined };
  const group = (children: ReactNode) => (
    <fieldset className={className} aria-describedby={described}>
      <legend className="lab b">{label}</legend>
      {children}
      {below}
    </fieldset>
  );
  if (shape.kind === "options") return group(<Options options={shape.options} required={p.required} value={p.value} set={p.set} name={id} />);
  if (shape.kind === "boolean") return group(<Options options={[{ value: true, title: "yes", about: "" }, { value: false, title: "no", about: "" }]} required={p.required} value={p.value} set={p.set} name={id} />);
  if (shape.kind === "object") return group(<Form schema={p.schema} value={p.value} set={p.set} errors={p.errors} before={p.compared ? (p.before ?? {}) : undefined} path={p.path} />);
  if (shape.kind === "list") return group(<List {...p} of={shape.of} />);
  return (
    <div className={className}>
      <label htmlFor={id}>{label}</label>
      {shape.kind === "string" ? (
        shape.long ? (
          <textarea {...input} rows={rows(p.value)} value={typeof p.value === "string" ? p.value : ""} onChange={(e) => p.set(typed(e.target.value, p))} />
        ) : (
          <input {...input} value={typeof p.value === "string" ? p.value : ""} onChange={(e) => p.set(typed(e.target.value, p))} autoComplete="off" spellCheck={false} />
        )
      ) : shape.kind === "number" ? (
        <input {...input} inputMode={shape.whole ? "numeric" : "decimal"} value={p.value instanceof Num ? p.value.text : typeof p.value === "string" ? p.value : ""} onChange={(e) => p.set(e.target.value === "" ? undefined : new Num(e.target.value.trim()))} autoComplete="off" />
      ) : (
        <RawJson label={p.name} value={p.value} set={p.set} />
      )}
      {below}
    </div>
  );
}

function rows(v: Json | undefined): number {
  const lines = typeof v === "string" ? v.split("\n").reduce((n, l) => n + Math.max(1, Math.ceil(l.length / 60)), 0) : 0;
  return Math.min(16, Math.max(1, lines));
}

/** Returns the value of a text field. An empty optional field has no value, unless it had a text before the edit. */
const typed = (text: string, p: OneProps) => (text === "" && !p.required && typeof p.before !== "string" ? undefined : text);

function Options({ options, required, value, set, name }: { options: Option[]; required: boolean; value: Json | undefined; set: (v: Json | undefined) => void; name: string }) {
  const at = options.findIndex((o) => value !== undefined && same(o.value, value));
  if (options.length > 9)
    return (
      <select className="inp" aria-labelledby={name} value={at} onChange={(e) => set(options[+e.target.value]?.value)}>
        <option value={-1}>{required ? "choose" : "left out"}</option>
        {options.map((o, i) => <option key={i} value={i}>{oneLine(o.title, 100)}</option>)}
      </select>
    );
  return (
    <div className="opts">
      {options.map((o, i) => (
        <label className="opt" key={i}>
          <input type="radio" name={name} checked={i === at} onChange={() => set(o.value)} />
          <span><Text most={200}>{o.title}</Text></span>
          <span />
          {o.about && <span className="d"><Text most={500}>{o.about}</Text></span>}
        </label>
      ))}
      {!required && at >= 0 && <button type="button" className="btn sm bare" onClick={() => set(undefined)}>Leave it out</button>}
    </div>
  );
}

function List({ of, ...p }: OneProps & { of: Json }) {
  const items = Array.isArray(p.value) ? p.value : [];
  const shape = shapeOf(of);
  // A list of a few known values is shown as a group of check boxes.
  if (shape.kind === "options" && shape.options.length <= 20)
    return (
      <div className="opts">
        {shape.options.map((o, i) => {
          const on = items.some((x) => same(x, o.value));
          return (
            <label className="opt" key={i}>
              <input type="checkbox" checked={on} onChange={() => p.set(on ? items.filter((x) => !same(x, o.value)) : [...items, o.value])} />
              <span><Text most={200}>{o.title}</Text></span>
              <span />
            </label>
          );
        })}
      </div>
    );
  if (items.length > mostFields) return <RawJson label={p.name} value={p.value} set={p.set} />;
  const before = Array.isArray(p.before) ? p.before : [];
  return (
    <div className="stack tight items">
      {items.map((x, i) => (
        <div className="item" key={i}>
          <One name={`${p.name}[${i}]`} schema={of} required path={`${p.path}[${i}]`} errors={p.errors} value={x} before={before[i]} compared={p.compared} set={(v) => p.set(items.map((y, j) => (j === i ? (v ?? "") : y)))} />
          <button type="button" className="btn sm bare" onClick={() => p.set(items.filter((_, j) => j !== i))}>Remove</button>
        </div>
      ))}
      <span><button type="button" className="btn sm" onClick={() => p.set([...items, shape.kind === "object" ? {} : shape.kind === "list" ? [] : shape.kind === "json" ? null : shape.kind === "boolean" ? false : ""])}>Add an item</button></span>
    </div>
  );
}

/** A field for JSON text. Invalid text stays in the editor and is reported; the value is then left out. */
export function RawJson({ label, value, set }: { label: string; value: Json | undefined; set: (v: Json | undefined, wrong: boolean) => void }) {
  const [text, setText] = useState(() => (value === undefined ? "" : print(value, 2)));
  const isWrong = (t: string) => t.trim() !== "" && tryParse(t) === undefined, wrong = isWrong(text);
  return (
    <>
      <Suspense fallback={<Skeleton rows={2} />}>
        <Editor label={label} text={text} set={(t) => (setText(t), set(tryParse(t), isWrong(t)))} />
      </Suspense>
      {wrong && <span className="err" role="alert">This is not JSON yet.</span>}
    </>
  );
}
