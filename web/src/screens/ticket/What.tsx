/** Shows what would run: previews, the parts of a command, the arguments. Nothing is left out, and nothing is hidden behind a scrollbar. */
import { useMemo, useState, type ReactNode } from "react";
import { Kind, Safety, type CommandPart } from "../../../gen/toold/v1/assessment_pb.ts";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { ContentType, type Content } from "../../../gen/toold/v1/content_pb.ts";
import { UnifiedDiff } from "../../parts/Diff.tsx";
import { effectOf, Marks, offline } from "../../parts/effects.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { Copy, Note } from "../../parts/small.tsx";
import { Text, countUnseen, oneLine } from "../../parts/Text.tsx";
import { bytes, Exact, exactly } from "../../parts/Exact.tsx";
import { isObject, Num, tryParse, type Json } from "./json.ts";

/** The parts of the ticket that show what runs, in the order in which a person needs them to decide. */
export function What({ call }: { call: Call }) {
  const d = call.suspension?.description ?? call.description;
  const text = call.suspension?.pending?.arguments || call.effectiveArguments;
  const shell = d?.kind === Kind.EXECUTE && d.preview[0]?.type === ContentType.TEXT ? d.preview[0] : undefined;
  const unseen = (d?.preview ?? []).reduce((n, c) => n + countUnseen(c.text), 0) || countUnseen(text) || countEscaped(text);
  return (
    <>
      {unseen > 0 && (
        <Note tone="doubt" icon="eye">
          {unseen === 1 ? "1 character of this cannot be seen" : `${unseen.toLocaleString("en")} characters of this cannot be seen`}, or changes the order of others. What is stored is shown here, with a chip for each.
        </Note>
      )}
      {shell && <Command text={shell.text} parts={d!.command} call={call} />}
      {d?.preview.filter((c) => c !== shell).map((c, i) => <Preview key={i} content={c} />)}
      <Notes notes={d?.notes ?? []} degraded={d?.degraded ?? false} />
      <Arguments text={text} />
      {d && d.locations.length > 0 && (
        <section className="sec">
          <header><h2>Files</h2></header>
          <ul className="files">{d.locations.map((l, i) => <li key={i}><Icon name="file" small className="t3" /><code><Exact>{l.path}</Exact>{l.line > 0 && <span className="t3">:{l.line}</span>}</code></li>)}</ul>
        </section>
      )}
    </>
  );
}

/** Counts the characters in JSON text that are written as escapes and would be invisible without them. */
function countEscaped(text: string): number {
  let n = 0;
  const walk = (v: Json) => {
    if (typeof v === "string") n += countUnseen(v);
    else if (Array.isArray(v)) v.forEach(walk);
    else if (isObject(v)) for (const [k, x] of Object.entries(v)) (n += countUnseen(k)), walk(x);
  };
  const v = tryParse(text);
  if (v !== undefined) walk(v);
  return n;
}

function Command({ text, parts, call }: { text: string; parts: CommandPart[]; call: Call }) {
  const shown = useMemo(() => underlined(text, parts), [text, parts]);
  return (
    <section className="sec">
      <header>
        <h2>Command</h2>
        <span className="t3">{bytes(text)}, all of it</span>
        <span className="right"><Copy text={text} /></span>
      </header>
      <div className="code cmd"><pre>{shown}</pre></div>
      {parts.length > 1 || parts[0]?.reason ? (
        <>
          <ol className="parts" aria-label="The command, part by part">
            {parts.map((p, i) => (
              <li key={i} className={p.unknown ? "odd" : p.safety === Safety.DESTRUCTIVE ? "hot" : ""}>
                <span className="x num">{i + 1}</span>
                <code><Exact>{p.text}</Exact></code>
                <Marks of={[effectOf(p.safety, p.unknown, call)].filter((m) => !!m)} />
                <span className="t2">{p.reason ? <Text most={300}>{p.reason}</Text> : p.safety === Safety.READ_ONLY ? "only reads" : ""}{p.safety === Safety.NETWORK && offline(call) && ", and it has no network here"}</span>
              </li>
            ))}
          </ol>
          <p className="t3">This is read from the text, and a command can do more than its text shows. What it can reach at most is below.</p>
        </>
      ) : null}
    </section>
  );
}

const sentence = (s: string) => s.charAt(0).toUpperCase() + s.slice(1);

/** Underlines the parts of a command that do more than read, if the text contains them literally. */
function underlined(text: string, parts: CommandPart[]): ReactNode[] {
  const found: { from: number; to: number; part: CommandPart }[] = [];
  let at = 0;
  for (const part of parts) {
    if (part.safety === Safety.READ_ONLY && !part.unknown) continue;
    const from = text.indexOf(part.text, at);
    if (from < 0) continue;
    at = from + part.text.length;
    found.push({ from, to: at, part });
  }
  const out: ReactNode[] = [];
  at = 0;
  for (const { from, to, part } of found) {
    out.push(...exactly(text.slice(at, from)));
    out.push(<u key={from} className={part.unknown ? "uk" : part.safety === Safety.DESTRUCTIVE ? "" : "nw"}>{exactly(text.slice(from, to))}</u>);
    at = to;
  }
  out.push(...exactly(text.slice(at)));
  return out.map((n, i) => <span key={i}>{n}</span>);
}

function Preview({ content: c }: { content: Content }) {
  if (c.type === ContentType.DIFF) return <section className="sec"><UnifiedDiff text={c.text} name={c.name} /></section>;
  if (c.type === ContentType.TEXT)
    return (
      <section className="sec">
        <header><h2>{c.name ? <Text most={200}>{c.name}</Text> : "In detail"}</h2><span className="t3">{bytes(c.text)}</span></header>
        <div className="code"><pre><Exact>{c.text}</Exact></pre></div>
      </section>
    );
  // Images, pages and links of tools are only named. The page does not open them.
  return (
    <p className="t2">
      <Icon name="file" small /> <Text most={200}>{c.name || c.uri || "content"}</Text> <span className="t3">{oneLine(c.mimeType, 80)}{c.data.length > 0 && `, ${c.data.length.toLocaleString("en")} bytes`}. It is not shown here.</span>
    </p>
  );
}

function Notes({ notes, degraded }: { notes: string[]; degraded: boolean }) {
  if (notes.length === 0 && !degraded) return null;
  return (
    <ul className="notes">
      {degraded && <li className="wait"><Icon name="warn" small /> <span>The tool could not say what this would do. The arguments are all that is known.</span></li>}
      {notes.map((n, i) => {
        const warns = /chang(ed|es) (since|after)|will be refused|overwrites|not read|does not exist any more|destructive/i.test(n);
        return <li key={i} className={warns ? "wait" : "t2"}><Icon name={warns ? "warn" : "info"} small /> <span><Text most={2000}>{sentence(n)}</Text></span></li>;
      })}
    </ul>
  );
}

/** Maximum number of values that get a line each. Larger arguments are shown as JSON, because so many lines would block the browser. */
const mostValues = 2000;
const count = (v: Json): number => (isObject(v) || Array.isArray(v) ? Object.values(v).reduce<number>((n, x) => n + count(x), 1) : 1);

export function Arguments({ text }: { text: string }) {
  const value = useMemo(() => tryParse(text), [text]);
  const large = useMemo(() => value !== undefined && count(value) > mostValues, [value]);
  const [raw, setRaw] = useState(false);
  const fields = isObject(value) && !raw && !large;
  return (
    <section className="sec">
      <header>
        <h2>Arguments</h2>
        <span className="t3">{bytes(text)}, as they run</span>
        <span className="seg right" role="group" aria-label="How the arguments are shown">
          <button aria-pressed={fields} disabled={large} onClick={() => setRaw(false)}>Fields</button>
          <button aria-pressed={!fields} onClick={() => setRaw(true)}>JSON</button>
        </span>
      </header>
      <div className="code json">{fields ? <pre><Fields value={value} depth={0} /></pre> : <pre><Exact>{text}</Exact></pre>}</div>
    </section>
  );
}

/** Shows a value as lines of names and values. Each value is shown in full. */
export function Fields({ value, depth }: { value: Json; depth: number }): ReactNode {
  const entries: [string, Json][] = isObject(value) ? Object.entries(value) : Array.isArray(value) ? value.map((x, i) => [`[${i}]`, x]) : [];
  if (depth === 0 && entries.length === 0) return <span className="t3">none</span>;
  return entries.map(([name, v]) => {
    const nested = (isObject(v) && Object.keys(v).length > 0) || (Array.isArray(v) && v.length > 0);
    return (
      <span key={name} className="fl" style={{ "--d": depth } as React.CSSProperties}>
        <span className="k">{exactly(name)}</span>{" "}
        {nested ? (
          <>
            <span className="t3">{Array.isArray(v) ? (v.length === 1 ? "1 item" : `${v.length} items`) : ""}</span>
            <Fields value={v} depth={depth + 1} />
          </>
        ) : (
          <Scalar value={v} />
        )}
      </span>
    );
  });
}

function Scalar({ value: v }: { value: Json }) {
  if (typeof v === "string") return <><span className="s">"{exactly(v)}"</span>{v.length > 60 && <span className="t3"> {v.length.toLocaleString("en")} characters</span>}</>;
  if (v instanceof Num) return <span className="n">{v.text}</span>;
  return <span className="n">{v === null ? "null" : Array.isArray(v) ? "[]" : typeof v === "object" ? "{}" : String(v)}</span>;
}
