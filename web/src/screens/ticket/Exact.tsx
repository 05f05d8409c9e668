/** A text that runs: all of it, with what hides text made visible. */
import type { ReactNode } from "react";
import { Chip, oneLine } from "../../parts/Text.tsx";

/** From this length on, the same character again and again is one chip: it would push the rest out of sight. */
const run = 40;
/** Elements of one text. Beyond them, characters that cannot be seen are written as text, so that a page of them stays usable. */
const mostChips = 2000;
const hidden = /([\s\S])\1{39,}|[\s\u2800]{40,}|[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu; // a space that is not U+0020 separates no words of a command

const names: Record<string, string> = { " ": "spaces", "\n": "line feeds", "\t": "tabs" };
const readable = (c: string) => names[c] ?? `times “${oneLine(c)}”`;

/** Returns all of a text as nodes. Chips stand for what cannot be seen and for long runs of one character. */
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

/** The length of a text in UTF-8. */
export function bytes(text: string): string {
  const n = new TextEncoder().encode(text).length;
  return n === 1 ? "1 byte" : `${n.toLocaleString("en")} bytes`;
}
