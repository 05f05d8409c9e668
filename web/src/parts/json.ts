/** JSON as text. It does not use JSON.parse, which would change what a person must see exactly: it rounds numbers, drops repeated members, and decodes escapes. */

interface Token {
  kind: "{" | "}" | "[" | "]" | "," | ":" | "string" | "word";
  text: string;
}

/** Splits JSON text into tokens, or returns undefined when it is not JSON. */
function tokens(text: string): Token[] | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  return [...text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs)].map(([t]) => ({ kind: t[0] === '"' ? "string" : t.length === 1 && "{}[],:".includes(t) ? (t as Token["kind"]) : "word", text: t }));
}

/** Returns JSON text with each member on a separate line. Values stay as they were written. Text that is not JSON is returned unchanged. */
export function indent(text: string): string {
  const all = tokens(text);
  if (!all) return text;
  let out = "", depth = 0;
  const line = () => (out += "\n" + "  ".repeat(depth));
  all.forEach(({ kind, text: t }, i) => {
    const empty = i > 0 && /[[{]/.test(all[i - 1]!.kind);
    if (kind === "}" || kind === "]") {
      depth--;
      if (!empty) line();
    } else if (empty) line();
    out += kind === ":" ? ": " : t;
    if (kind === "{" || kind === "[") depth++;
    if (kind === ",") line();
  });
  return out;
}

/**
 * Returns the members of an object with the text of their values, or undefined when the text is not an object. When a name occurs several times, the
 * last member counts.
 */
export function membersOf(text: string): Map<string, string> | undefined {
  const all = tokens(text);
  if (all?.[0]?.kind !== "{") return undefined;
  const members = new Map<string, string>();
  let depth = 0, name: string | undefined, value = "";
  for (const { kind, text: t } of all) {
    const inside = depth === 1;
    if (kind === "{" || kind === "[") depth++;
    if (kind === "}" || kind === "]") depth--;
    if (depth === 0 || (inside && kind === ",")) {
      if (name !== undefined) members.set(name, value);
      [name, value] = [undefined, ""];
    } else if (inside && name === undefined && kind === "string") name = JSON.parse(t) as string;
    else if (name !== undefined && !(inside && kind === ":")) value += t;
  }
  return members;
}

/** Returns the text of an object with these members. */
export const objectOf = (members: Map<string, string>) => `{${[...members].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;

/** Reports whether a text is JSON. */
export const isJSON = (text: string) => tokens(text) !== undefined;
