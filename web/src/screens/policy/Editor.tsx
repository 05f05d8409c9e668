/** A text editor for rules. It is in a shadow root, because CodeMirror adds style sheets. The content security policy allows these only in a shadow root. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { tags } from "@lezer/highlight";
import { Decoration, EditorView, highlightSpecialChars, keymap, lineNumbers, type DecorationSet } from "@codemirror/view";
import { useEffect, useRef } from "react";

/** A marked position. Both numbers count from 1. */
export interface Place {
  line: number;
  column: number;
}

const theme = EditorView.theme({
  "&": { fontSize: "var(--fs-12)", color: "var(--text)", backgroundColor: "transparent", maxHeight: "24rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.25rem", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)", minHeight: "8rem" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-3)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-bg) !important" },
  ".cm-specialChar": { color: "var(--doubt)", backgroundColor: "var(--doubt-bg)" },
  ".bad": { backgroundColor: "var(--fail-bg)" },
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--ok)" },
  { tag: tags.comment, color: "var(--text-3)" },
]);

const setBad = StateEffect.define<number[]>();
const bad = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, change) {
    for (const e of change.effects) {
      if (!e.is(setBad)) continue;
      const lines = e.value.filter((n) => n >= 1 && n <= change.state.doc.lines).toSorted((a, b) => a - b);
      return Decoration.set([...new Set(lines)].map((n) => Decoration.line({ class: "bad" }).range(change.state.doc.line(n).from)));
    }
    return marks.map(change.changes);
  },
  provide: (f) => EditorView.decorations.from(f),
});

/** Replaces a selection. Chromium itself would add style attributes to keep the look of the lines, which the content security policy blocks and reports. */
function replace(e: InputEvent, v: EditorView) {
  if (e.inputType !== "insertText" || e.data === null || v.composing || v.state.selection.main.empty) return false;
  v.dispatch(v.state.replaceSelection(e.data), { scrollIntoView: true, userEvent: "input.type" });
  e.preventDefault();
  return true;
}

/** `marks` are marked lines. When `at` changes, the cursor moves there. */
export function Editor({ value, onChange, label, marks, at }: { value: string; onChange: (text: string) => void; label: string; marks: Place[]; at?: Place }) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    root.append(parent);
    const v = new EditorView({
      root,
      parent,
      state: EditorState.create({
        doc: value,
        extensions: [
          lineNumbers(), highlightSpecialChars({ addSpecialChars: /[\u202a-\u202e\u2066-\u2069\u200b-\u200f]/g }), history(), yaml(), syntaxHighlighting(colours), bad, theme,
          keymap.of([...defaultKeymap, ...historyKeymap]),
          EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
          EditorView.domEventHandlers({ beforeinput: replace }),
          EditorView.updateListener.of((u) => u.docChanged && changed.current(u.state.doc.toString())),
        ],
      }),
    });
    view.current = v;
    return () => {
      v.destroy();
      parent.remove();
    };
  }, [label]); // uses the value of the first render; the next effect handles later values
  useEffect(() => {
    const v = view.current!;
    if (v.state.doc.toString() !== value) v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: value } });
  }, [value]);
  useEffect(() => view.current!.dispatch({ effects: setBad.of(marks.map((m) => m.line)) }), [marks]);
  useEffect(() => {
    const v = view.current!;
    if (!at || at.line < 1 || at.line > v.state.doc.lines) return;
    const line = v.state.doc.line(at.line);
    v.dispatch({ selection: { anchor: Math.min(line.from + Math.max(at.column - 1, 0), line.to) }, scrollIntoView: true });
    v.focus();
  }, [at]);
  return <div className="code edit" ref={host} />;
}
