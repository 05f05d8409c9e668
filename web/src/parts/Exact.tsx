/** Shows a text that will run, in full. Characters that could hide text become visible. */
import type { ReactNode } from "react";
import { Chip, oneLine } from "./Text.tsx";

/** From this number of repetitions on, one chip stands for a repeated character. Otherwise the repetitions would push the other text out of view. */
const run = 40;
/** Maximum number of elements of one text. After them, invisible characters are written as text, so that the page stays fast. */
const mostChips = 2000;
const hidden = /([\s\S])\1{39,}|[\s\u2800]{40,}|[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu; // a space other than U+0020 does not separate the words of a command

const names: Record<string, string> = { " ": "spaces", "\n": "line feeds", "\t": "tabs" };
const readable = (c: string) => names[c] ?? `times “${oneLine(c)}”`;

/** Returns the whole text as nodes. Chips replace invisible characters and long repetitions of one character. */
export function exactly(text: string): ReactNode[] {
  const out: ReactNode[] = [];
  let from = 0, chips = 0, plain = "";
  for (const m of text.matchAll(hidden)) {
    const c = m[1] ?? m[0], long = m[0].length >= run;
    if (!long && (c === "\n" || c === "\t")) continue;
    plain += text.slice(from, m.index);
    from = m.index + m[0].length;
    const label = long ? `${m[0].length.toLocaleString("en")} ${m[1] ? readable(c) : "blank characters"}` : "";
    if (++chips > mostChips) {
      plain += long ? `<${label}>` : oneLine(c);
      continue;
    }
    if (plain) out.push(plain);
    plain = "";
    out.push(long ? <span key={m.index} className="cc" title={m[1] ? "The same character again and again" : "Nothing of this can be seen"}>{label}</span> : <Chip key={m.index} c={c} />);
    if (long && m[0].includes("\n")) plain = "\n";
  }
  out.push(plain + text.slice(from));
  return out;
}

export const Exact = ({ children }: { children: string }) => <bdi className="text">{exactly(children)}</bdi>;

/** Formats the length of a text in UTF-8. */
export function bytes(text: string): string {
  const n = new TextEncoder().encode(text).length;
  return n === 1 ? "1 byte" : `${n.toLocaleString("en")} bytes`;
}
