/** Shows the difference of two texts, side by side or in one column. No text is read as markup, and invisible characters are shown as chips. */
import { useState, type ReactNode } from "react";
import { useKeys } from "../keys.ts";
import { Icon } from "./Icon.tsx";
import { visible } from "./Text.tsx";

/** A line that is on one side or on both. Line numbers count from 1. */
interface Line {
  before?: string;
  after?: string;
  b: number;
  a: number;
}

/** A titled part of a comparison, such as `parameters`. */
export interface Part {
  title: string;
  before: string;
  after: string;
}

/** Maximum number of cells of the comparison's table. For larger texts, all lines count as replaced. */
const mostCells = 1 << 21;

/** Compares two texts line by line. */
export function compare(before: string, after: string): Line[] {
  const x = before === "" ? [] : before.split("\n"), y = after === "" ? [] : after.split("\n");
  let head = 0, tail = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const out: Line[] = [];
  const same = (i: number, j: number) => out.push({ before: x[i]!, after: y[j]!, b: i + 1, a: j + 1 });
  for (let i = 0; i < head; i++) same(i, i);
  changed(x, y, head, x.length - tail, y.length - tail, out, same);
  for (let i = tail; i > 0; i--) same(x.length - i, y.length - i);
  return out;
}

function changed(x: string[], y: string[], from: number, xEnd: number, yEnd: number, out: Line[], same: (i: number, j: number) => void) {
  const n = xEnd - from, m = yEnd - from, width = m + 1;
  const common = (n + 1) * width <= mostCells ? new Uint32Array((n + 1) * width) : undefined;
  const at = (i: number, j: number) => common?.[i * width + j] ?? 0;
  if (common) for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) common[i * width + j] = x[from + i] === y[from + j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  let i = 0, j = 0, start = out.length;
  // Shows removed lines beside the lines that were added at the same place.
  const pair = (l: Line) => {
    const free = l.after === undefined ? undefined : out.slice(start).find((o) => o.after === undefined);
    if (free) [free.after, free.a] = [l.after!, l.a];
    else out.push(l);
  };
  while (i < n || j < m) {
    if (common && i < n && j < m && x[from + i] === y[from + j]) {
      same(from + i++, from + j++);
      start = out.length;
    } else if (i < n && (j === m || !common || at(i + 1, j) >= at(i, j + 1))) pair({ before: x[from + i]!, b: from + ++i, a: 0 });
    else pair({ after: y[from + j]!, b: 0, a: from + ++j });
  }
}

const isSame = (l: Line) => l.before === l.after;

/** Keeps the changed lines and `context` lines around them. A number replaces that many omitted lines. */
function around(lines: Line[], context = 3): (Line | number)[] {
  const keep = lines.map(() => false);
  lines.forEach((l, i) => {
    if (!isSame(l)) for (let j = Math.max(0, i - context); j <= Math.min(lines.length - 1, i + context); j++) keep[j] = true;
  });
  const out: (Line | number)[] = [];
  lines.forEach((l, i) => {
    if (keep[i]) out.push(l);
    else if (typeof out.at(-1) === "number") out[out.length - 1] = (out.at(-1) as number) + 1;
    else out.push(1);
  });
  return out;
}

/** Marks the different part of two lines: everything between their common beginning and their common end. */
function marked(text: string, other: string | undefined, Mark: "ins" | "del"): ReactNode {
  if (other === undefined) return visible(text);
  let head = 0, tail = 0;
  while (head < text.length && head < other.length && text[head] === other[head]) head++;
  while (tail < text.length - head && tail < other.length - head && text[text.length - 1 - tail] === other[other.length - 1 - tail]) tail++;
  // Do not split a surrogate pair.
  if (head > 0 && /[\ud800-\udbff]/.test(text[head - 1]!)) head--;
  if (tail > 0 && /[\udc00-\udfff]/.test(text[text.length - tail]!)) tail--;
  const end = text.length - tail;
  return (
    <>
      {visible(text.slice(0, head))}
      {end > head && <Mark>{visible(text.slice(head, end))}</Mark>}
      {visible(text.slice(end))}
    </>
  );
}

const mostRows = 1000;

/** Shows the parts that differ. `name` says which thing is compared. */
export function Diff({ name, note, parts }: { name: string; note?: string; parts: Part[] }) {
  const [uni, setUni] = useState(false);
  const [rows, setRows] = useState(mostRows);
  useKeys({ u: () => setUni(!uni) });
  const shown = parts.filter((p) => p.before !== p.after).map((p) => ({ title: p.title, lines: around(compare(p.before, p.after)) }));
  const total = shown.reduce((sum, p) => sum + p.lines.length, 0);
  let left = rows;
  const bounded = shown.map((p) => {
    const lines = p.lines.slice(0, Math.max(0, left));
    left -= lines.length;
    return { ...p, lines };
  }).filter((p) => p.lines.length > 0);
  return (
    <div className="diff" data-view={uni ? "uni" : "sbs"}>
      <div className="file">
        <Icon name="file" small className="t3" />
        <code>{visible(name)}</code>
        {note && <span className="t3">{note}</span>}
        <span className="seg viewsw right" role="group" aria-label="Diff view">
          <button aria-pressed={!uni} onClick={() => setUni(false)}>Side by side</button>
          <button aria-pressed={uni} onClick={() => setUni(true)}>One column</button>
        </span>
      </div>
      <div className="lines">
        <table className="sbs" aria-label="Change, side by side">
          <colgroup><col className="cl" /><col className="cs" /><col /><col className="cl" /><col className="cs" /><col /></colgroup>
          {bounded.map((p) => (
            <tbody key={p.title}>
              <tr className="hunk"><td colSpan={6}>{p.title}</td></tr>
              {p.lines.map((l, i) => typeof l === "number" ? <Folded key={i} lines={l} columns={6} /> : <Beside key={i} line={l} />)}
            </tbody>
          ))}
        </table>
        <table className="uni" aria-label="Change, in one column">
          <colgroup><col className="cl" /><col className="cl" /><col className="cs" /><col /></colgroup>
          {bounded.map((p) => (
            <tbody key={p.title}>
              <tr className="hunk"><td colSpan={4}>{p.title}</td></tr>
              {p.lines.map((l, i) => typeof l === "number" ? <Folded key={i} lines={l} columns={4} /> : <Below key={i} line={l} />)}
            </tbody>
          ))}
        </table>
      </div>
      {total > rows && <button className="btn sm bare" onClick={() => setRows(rows + 10 * mostRows)}>{(total - rows).toLocaleString("en")} more lines: show more</button>}
    </div>
  );
}

function Folded({ lines, columns }: { lines: number; columns: number }) {
  return <tr className="hunk"><td colSpan={columns}>{lines.toLocaleString("en")} {lines === 1 ? "line" : "lines"} the same</td></tr>;
}

function Beside({ line: l }: { line: Line }) {
  if (isSame(l)) return <tr><td className="ln">{l.b}</td><td className="sg" /><td>{visible(l.before!)}</td><td className="ln r">{l.a}</td><td className="sg" /><td>{visible(l.after!)}</td></tr>;
  return (
    <tr>
      {l.before === undefined
        ? <><td className="ln pad0" /><td className="pad0" /><td className="pad0" /></>
        : <><td className="ln del">{l.b}</td><td className="sg del">−</td><td className="del">{marked(l.before, l.after, "del")}</td></>}
      {l.after === undefined
        ? <><td className="ln r pad0" /><td className="pad0" /><td className="pad0" /></>
        : <><td className="ln r add">{l.a}</td><td className="sg add">+</td><td className="add">{marked(l.after, l.before, "ins")}</td></>}
    </tr>
  );
}

function Below({ line: l }: { line: Line }) {
  if (isSame(l)) return <tr><td className="ln">{l.b}</td><td className="ln">{l.a}</td><td className="sg" /><td>{visible(l.before!)}</td></tr>;
  return (
    <>
      {l.before !== undefined && <tr><td className="ln del">{l.b}</td><td className="ln del" /><td className="sg del">−</td><td className="del">{marked(l.before, l.after, "del")}</td></tr>}
      {l.after !== undefined && <tr><td className="ln add" /><td className="ln add">{l.a}</td><td className="sg add">+</td><td className="add">{marked(l.after, l.before, "ins")}</td></tr>}
    </>
  );
}
