/** A unified diff, side by side or in one column. */
import { Fragment, useState, useSyncExternalStore, type ReactNode } from "react";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { Text } from "../../parts/Text.tsx";
import { exactly } from "./Exact.tsx";

interface Line {
  /** ` ` kept, `-` removed, `+` added, `@` a heading, `\` a remark. */
  sign: string;
  text: string;
  /** Line numbers; 0 when the line is not in that version. */
  old: number;
  now: number;
}

export interface FileDiff {
  name: string;
  lines: Line[];
  added: number;
  removed: number;
}

/** Parses a unified diff. Lines that it does not understand become remarks, so that no text is left out. */
export function parseDiff(text: string): FileDiff[] {
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

/** Marks the different part of two lines: everything between their common beginning and their common end. */
function marked(text: string, other: string | undefined, as: "del" | "ins"): ReactNode {
  if (other === undefined || text === other) return exactly(text);
  const most = Math.min(text.length, other.length);
  let from = 0, end = 0;
  while (from < most && text[from] === other[from]) from++;
  while (end < most - from && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
  if (from + end === 0 || text.length - from - end === 0) return exactly(text);
  const Mark = as;
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

export function Diff({ text, name }: { text: string; name: string }) {
  const [view, setView] = useState(chosen), big = useWide();
  const choose = (v: "sbs" | "uni") => setView((chosen = v));
  useKeys({ u: () => choose(view === "sbs" ? "uni" : "sbs") });
  const shown = big ? view : "uni";
  return (
    <>
      {parseDiff(text).map((f, i) => (
        <div className="diff" key={i} data-view={shown}>
          <div className="file">
            <Icon name="file" small className="t3" />
            <code><Text most={512}>{f.name || name || "change"}</Text></code>
            <span className="t3 nowrap">+{f.added} −{f.removed}</span>
            {big && (
              <span className="seg viewsw right" role="group" aria-label="Diff view">
                <button aria-pressed={view === "sbs"} onClick={() => choose("sbs")}>Side by side</button>
                <button aria-pressed={view === "uni"} onClick={() => choose("uni")}>One column</button>
              </span>
            )}
          </div>
          <div className="lines">{shown === "sbs" ? <SideBySide lines={f.lines} /> : <OneColumn lines={f.lines} />}</div>
        </div>
      ))}
    </>
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
