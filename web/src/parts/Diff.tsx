/** Differences, side by side or in one column. Nothing in them is markup, and what cannot be seen is a chip. */
import { Fragment, useState, useSyncExternalStore, type ReactNode } from "react";
import { useKeys } from "../keys.ts";
import { exactly } from "./Exact.tsx";
import { Icon } from "./Icon.tsx";
import { Text } from "./Text.tsx";

interface Line {
  /** ` ` kept, `-` removed, `+` added, `@` a heading, `\` a remark. */
  sign: string;
  text: string;
  /** Line numbers; 0 when the line is not in that version. */
  old: number;
  now: number;
}

interface FileDiff {
  name: string;
  lines: Line[];
  added: number;
  removed: number;
}

/** A part of a comparison with a title, such as `parameters`. */
export interface Part {
  title: string;
  before: string;
  after: string;
}

/** Parses a unified diff. Lines that it does not understand become remarks, so that no text is left out. */
function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | undefined, old = 0, now = 0, oldLeft = 0, nowLeft = 0;
  const begin = () => files.push((file = { name: "", lines: [], added: 0, removed: 0 }));
  const body = text.endsWith("\n") ? text.slice(0, -1) : text;
  for (const line of body.split("\n")) {
    const hunk = oldLeft <= 0 && nowLeft <= 0 ? /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?([^]*)$/.exec(line) : null;
    const inside = oldLeft > 0 || nowLeft > 0;
    if (!inside && line.startsWith("--- ")) {
      begin();
      file!.name = line.slice(4).replace(/^a\//, "");
    } else if (!inside && line.startsWith("+++ ") && file && file.lines.length === 0) {
      const to = line.slice(4);
      if (to !== "/dev/null") file.name = to.replace(/^b\//, "");
    } else if (hunk) {
      if (!file) begin();
      [old, now, oldLeft, nowLeft] = [+hunk[1]!, +hunk[3]!, +(hunk[2] ?? 1), +(hunk[4] ?? 1)];
      file!.lines.push({ sign: "@", text: hunk[5] || `line ${now || old}`, old: 0, now: 0 });
    } else {
      if (!file) begin();
      const first = line[0] ?? " ", sign = inside && " +-".includes(first) ? first : "\\"; // any other line is a remark, in full
      if (sign === " " || sign === "-") oldLeft--;
      if (sign === " " || sign === "+") nowLeft--;
      if (sign === "+") file!.added++;
      if (sign === "-") file!.removed++;
      file!.lines.push({ sign, text: sign !== "\\" ? line.slice(1) : line.replace(/^\\ /, ""), old: sign === " " || sign === "-" ? old++ : 0, now: sign === " " || sign === "+" ? now++ : 0 });
    }
  }
  return files;
}

/** Above this number of cells the table of the comparison would be too large, and all lines count as replaced. */
const mostCells = 1 << 21;

/** Compares two texts line by line. */
function compare(before: string, after: string): Line[] {
  const x = before === "" ? [] : before.split("\n"), y = after === "" ? [] : after.split("\n");
  let head = 0, tail = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const out: Line[] = [];
  const kept = (i: number, j: number) => out.push({ sign: " ", text: x[i]!, old: i + 1, now: j + 1 });
  for (let i = 0; i < head; i++) kept(i, i);
  changed(x, y, head, x.length - tail, y.length - tail, out, kept);
  for (let i = tail; i > 0; i--) kept(x.length - i, y.length - i);
  return out;
}

function changed(x: string[], y: string[], from: number, xEnd: number, yEnd: number, out: Line[], kept: (i: number, j: number) => void) {
  const n = xEnd - from, m = yEnd - from, width = m + 1;
  const common = (n + 1) * width <= mostCells ? new Uint32Array((n + 1) * width) : undefined;
  const at = (i: number, j: number) => common?.[i * width + j] ?? 0;
  if (common) for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) common[i * width + j] = x[from + i] === y[from + j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  let i = 0, j = 0, added: Line[] = [];
  // Of lines that changed at one place, those that were removed come first.
  const flush = () => (out.push(...added), (added = []));
  while (i < n || j < m) {
    if (common && i < n && j < m && x[from + i] === y[from + j]) {
      flush();
      kept(from + i++, from + j++);
    } else if (i < n && (j === m || !common || at(i + 1, j) >= at(i, j + 1))) out.push({ sign: "-", text: x[from + i]!, old: from + ++i, now: 0 });
    else added.push({ sign: "+", text: y[from + j]!, old: 0, now: from + ++j });
  }
  flush();
}

/** Keeps changed lines and `context` lines around them; a heading stands for those that are left out. */
function around(lines: Line[], context = 3): Line[] {
  const keep = lines.map(() => false);
  lines.forEach((l, i) => {
    if (l.sign !== " ") keep.fill(true, Math.max(0, i - context), i + context + 1);
  });
  const out: Line[] = [];
  let left = 0;
  const fold = () => {
    if (left > 0) out.push({ sign: "@", text: `${left.toLocaleString("en")} ${left === 1 ? "line" : "lines"} the same`, old: 0, now: 0 });
    left = 0;
  };
  lines.forEach((l, i) => {
    if (!keep[i]) return left++;
    fold();
    out.push(l);
  });
  fold();
  return out;
}

/** Marks the different part of two lines: everything between their common beginning and their common end. */
function marked(text: string, other: string | undefined, Mark: "ins" | "del"): ReactNode {
  if (other === undefined || text === other) return exactly(text);
  const most = Math.min(text.length, other.length);
  let from = 0, end = 0;
  while (from < most && text[from] === other[from]) from++;
  while (end < most - from && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
  // Half of a character must not stand alone.
  if (from > 0 && /[\ud800-\udbff]/.test(text[from - 1]!)) from--;
  if (end > 0 && /[\udc00-\udfff]/.test(text[text.length - end]!)) end--;
  if (from + end === 0 || text.length - from - end === 0) return exactly(text);
  return <>{exactly(text.slice(0, from))}<Mark>{exactly(text.slice(from, text.length - end))}</Mark>{exactly(text.slice(text.length - end))}</>;
}

/** Pairs removed lines with the lines added in their place. */
function pairs(lines: Line[]): [Line | undefined, Line | undefined][] {
  const out: [Line | undefined, Line | undefined][] = [];
  for (let i = 0; i < lines.length; ) {
    const gone: Line[] = [], come: Line[] = [];
    while (lines[i]?.sign === "-") gone.push(lines[i++]!);
    while (lines[i]?.sign === "+") come.push(lines[i++]!);
    for (let n = 0; n < Math.max(gone.length, come.length); n++) out.push([gone[n], come[n]]);
    if (gone.length + come.length === 0) out.push([lines[i], lines[i++]]);
  }
  return out;
}

const wide = matchMedia("(min-width: 44rem)");
const useWide = () => useSyncExternalStore((changed) => (wide.addEventListener("change", changed), () => wide.removeEventListener("change", changed)), () => wide.matches);
/** The view that the viewer chose most recently. */
let chosen: "sbs" | "uni" = "sbs";

/** Shows a unified diff, all of it. */
export function UnifiedDiff({ text, name }: { text: string; name: string }) {
  return parseDiff(text).map((f, i) => <File key={i} name={f.name || name || "change"} note={`+${f.added} −${f.removed}`} lines={f.lines} />);
}

const mostRows = 1000;

/** Shows the parts that differ. `name` is what was compared. */
export function Diff({ name, note, parts }: { name: string; note?: string; parts: Part[] }) {
  const [rows, setRows] = useState(mostRows);
  const lines = parts.filter((p) => p.before !== p.after).flatMap((p): Line[] => [{ sign: "@", text: p.title, old: 0, now: 0 }, ...around(compare(p.before, p.after))]);
  return (
    <>
      <File name={name} note={note} lines={lines.slice(0, rows)} />
      {lines.length > rows && <button className="btn sm bare" onClick={() => setRows(rows + 10 * mostRows)}>{(lines.length - rows).toLocaleString("en")} more lines: show more</button>}
    </>
  );
}

function File({ name, note, lines }: { name: string; note?: string; lines: Line[] }) {
  const [view, setView] = useState(chosen), big = useWide();
  const choose = (v: "sbs" | "uni") => setView((chosen = v));
  useKeys({ u: () => choose(view === "sbs" ? "uni" : "sbs") });
  const shown = big ? view : "uni";
  return (
    <div className="diff" data-view={shown}>
      <div className="file">
        <Icon name="file" small className="t3" />
        <code><Text most={512}>{name}</Text></code>
        {note && <span className="t3">{note}</span>}
        {big && (
          <span className="seg viewsw right" role="group" aria-label="Diff view">
            <button aria-pressed={view === "sbs"} onClick={() => choose("sbs")}>Side by side</button>
            <button aria-pressed={view === "uni"} onClick={() => choose("uni")}>One column</button>
          </span>
        )}
      </div>
      <div className="lines">{shown === "sbs" ? <SideBySide lines={lines} /> : <OneColumn lines={lines} />}</div>
    </div>
  );
}

const number = (n: number) => (n > 0 ? n : "");

function SideBySide({ lines }: { lines: Line[] }) {
  return (
    <table className="sbs" aria-label="Change, side by side">
      <colgroup><col className="cl" /><col className="cs" /><col /><col className="cl" /><col className="cs" /><col /></colgroup>
      <tbody>
        {pairs(lines).map(([a, b], i) => {
          const line = a ?? b!;
          if (line.sign === "@" || line.sign === "\\") return <tr className="hunk" key={i}><td colSpan={6}>{exactly(line.text)}</td></tr>;
          const changed = line.sign !== " ", del = changed ? "del" : "", add = changed ? "add" : "";
          return (
            <tr key={i}>
              {a ? <><td className={`ln ${del}`}>{number(a.old)}</td><td className={`sg ${del}`}>{changed && "−"}</td><td className={del}>{marked(a.text, changed ? b?.text : undefined, "del")}</td></> : <Nothing />}
              {b ? <><td className={`ln r ${add}`}>{number(b.now)}</td><td className={`sg ${add}`}>{changed && "+"}</td><td className={add}>{marked(b.text, changed ? a?.text : undefined, "ins")}</td></> : <Nothing right />}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

const Nothing = ({ right }: { right?: boolean }) => <Fragment><td className={`ln pad0 ${right ? "r" : ""}`} /><td className="pad0" /><td className="pad0" /></Fragment>;

function OneColumn({ lines }: { lines: Line[] }) {
  return (
    <table className="uni" aria-label="Change, in one column">
      <colgroup><col className="cl" /><col className="cl" /><col className="cs" /><col /></colgroup>
      <tbody>
        {lines.map((l, i) => {
          if (l.sign === "@" || l.sign === "\\") return <tr className="hunk" key={i}><td colSpan={4}>{exactly(l.text)}</td></tr>;
          const c = l.sign === "+" ? "add" : l.sign === "-" ? "del" : "";
          return <tr key={i}><td className={`ln ${c}`}>{number(l.old)}</td><td className={`ln ${c}`}>{number(l.now)}</td><td className={`sg ${c}`}>{l.sign === "-" ? "−" : l.sign}</td><td className={c}>{exactly(l.text)}</td></tr>;
        })}
      </tbody>
    </table>
  );
}
