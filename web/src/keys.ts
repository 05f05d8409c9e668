/** Binds keys. Screens bind keys while they are mounted; the newest binding of a key wins. Bindings are inactive while a person types in a field. */
import { useEffect, useRef } from "react";

/** Maps keys to functions. Keys are written as `a`, `shift+c`, `enter`, `escape`, `.`; `g i` is a sequence of two keys. */
export type Bindings = Record<string, (e: KeyboardEvent) => void>;

const stack: { current: Bindings }[] = [];
let first = ""; // the first key of a sequence
let forget: ReturnType<typeof setTimeout>;

/** Binds keys while the component is mounted and `on` is true. */
export function useKeys(bindings: Bindings, on = true) {
  const ref = useRef(bindings);
  ref.current = bindings;
  useEffect(() => {
    if (!on) return;
    stack.push(ref);
    return () => void stack.splice(stack.indexOf(ref), 1);
  }, [on]);
}

/** Reports whether the pressed key belongs to a field or a dialog. */
function typing(e: KeyboardEvent) {
  const at = e.target instanceof HTMLElement ? e.target : document.body;
  return at.matches("input:not([type=radio]):not([type=checkbox]), textarea, select") || at.isContentEditable || e.composedPath().some((x) => x instanceof HTMLElement && x.classList.contains("cm-editor"));
}

const names: Record<string, string> = { ArrowDown: "j", ArrowUp: "k", Escape: "escape", Enter: "enter" };

addEventListener("keydown", (e) => {
  if (e.repeat && !/^([jk]|Arrow.*)$/.test(e.key)) return; // a held key only moves through a list
  if (e.isComposing || e.metaKey || e.ctrlKey || e.altKey || e.defaultPrevented) return;
  // An open dialog or list has its own keys.
  if (document.querySelector("dialog[open], [role=dialog], [role=listbox], [role=menu]")) return;
  const field = typing(e);
  if (field && e.key !== "Escape") return;
  if (field && e.target instanceof HTMLElement) e.target.blur();
  // Enter and space press the focused element.
  if ((e.key === "Enter" || e.key === " ") && e.target instanceof HTMLElement && e.target.matches("a, button, summary, [role=tab]")) return;
  if (e.key.startsWith("Arrow") && e.target instanceof HTMLElement && e.target.matches("[role=tab], input, [role=separator]")) return;
  // Caps lock also makes letters upper-case, so only the shift key counts as shift.
  const key = names[e.key] ?? (/^[a-z]$/i.test(e.key) ? (e.shiftKey ? "shift+" : "") + e.key.toLowerCase() : e.key);
  const wanted = first ? `${first} ${key}` : key;
  first = "";
  clearTimeout(forget);
  for (const { current } of stack.toReversed()) {
    if (!current[wanted]) continue;
    e.preventDefault();
    current[wanted](e);
    return;
  }
  if (stack.some(({ current }) => Object.keys(current).some((k) => k.startsWith(`${wanted} `)))) {
    first = wanted;
    forget = setTimeout(() => (first = ""), 1200);
  }
});
