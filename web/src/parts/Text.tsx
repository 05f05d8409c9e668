/** Shows text of tools, models and people. The text is never markup, its length is limited, and invisible characters become visible. */
import { useState, type ReactNode } from "react";

/**
 * Invisible characters: controls, format characters (also bidirectional ones), unpaired surrogates, characters that fonts omit, and the blank Braille
 * pattern. Tab and line feed are not among them.
 */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
const plain = (c: string) => c === "\n" || c === "\t";

const names: Record<string, string> = {
  "\u001b": "escape", "\r": "carriage return", "\0": "null", "\u007f": "delete", "\u00ad": "soft hyphen", "\u200b": "zero width space", "\u200c": "zero width non-joiner", "\u200d": "zero width joiner",
  "\u200e": "left-to-right mark", "\u200f": "right-to-left mark", "\u202a": "left-to-right embedding", "\u202b": "right-to-left embedding", "\u202c": "pop directional formatting",
  "\u202d": "left-to-right override", "\u202e": "right-to-left override", "\u2066": "left-to-right isolate", "\u2067": "right-to-left isolate", "\u2068": "first strong isolate", "\u2069": "pop directional isolate", "\ufeff": "byte order mark",
};

const codePoint = (c: string) => "U+" + c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0");

/** Returns the number of invisible characters in a text. */
export function countUnseen(text: string): number {
  let count = 0;
  for (const [c] of text.matchAll(unseen)) if (!plain(c)) count++;
  return count;
}

/** Shows a character that is invisible, or that looks like another one. */
export const Chip = ({ c }: { c: string }) => <span className="cc" title={names[c] ?? "a character that cannot be seen"}>{codePoint(c)}</span>;

/** Returns a text in which a chip with the code point replaces each invisible character. */
export function visible(text: string): ReactNode {
  const out: ReactNode[] = [];
  let from = 0;
  for (const m of text.matchAll(unseen)) {
    if (plain(m[0])) continue;
    if (m.index > from) out.push(text.slice(from, m.index));
    out.push(<Chip key={m.index} c={m[0]} />);
    from = m.index + m[0].length;
  }
  if (out.length === 0) return text;
  out.push(text.slice(from));
  return out;
}

/** Returns a text as one line, for places that accept only strings, such as titles. Each invisible character becomes its code point, such as <U+202E>. */
export function oneLine(text: string, most = 200): string {
  const line = text.slice(0, most + 1).replace(unseen, (c) => (plain(c) ? " " : `<${codePoint(c)}>`));
  return text.length > most ? line.slice(0, most) + "…" : line;
}

/** Shows a text. It cuts a longer text after `most` characters, with a button that shows more. */
export function Text({ children: text, most = 2000 }: { children: string; most?: number }) {
  const [shown, show] = useState(most);
  if (text.length <= shown) return <bdi className="text">{visible(text)}</bdi>;
  return (
    <bdi className="text">
      {visible(text.slice(0, shown))}
      <button className="btn sm bare" onClick={() => show(shown + 20_000)}>
        … {(text.length - shown).toLocaleString("en")} more characters: show more
      </button>
    </bdi>
  );
}
