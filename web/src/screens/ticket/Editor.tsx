/** An editor for JSON. It is in a shadow root, because the content security policy allows its style sheets only there. */
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { bracketMatching } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView, highlightSpecialChars, keymap } from "@codemirror/view";
import { useEffect, useRef } from "react";

const look = EditorView.theme({
  "&": { border: "1px solid var(--line-strong)", borderRadius: "6px", background: "var(--bg-raised)", color: "var(--text)", fontSize: ".75rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", minHeight: "3.5rem" },
  ".cm-specialChar": { color: "var(--doubt)" },
});

export function Editor({ label, text, set }: { label: string; text: string; set: (text: string) => void }) {
  const host = useRef<HTMLDivElement>(null), changed = useRef(set);
  changed.current = set;
  useEffect(() => {
    const at = host.current!, root = at.shadowRoot ?? at.attachShadow({ mode: "open" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          history(), json(), bracketMatching(), look, EditorView.lineWrapping,
          highlightSpecialChars({ addSpecialChars: /[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu }),
          keymap.of([{ key: "Escape", run: (v) => (v.contentDOM.blur(), true) }, ...defaultKeymap, ...historyKeymap]),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
          EditorView.updateListener.of((u) => u.docChanged && changed.current(u.state.doc.toString())),
        ],
      }),
    });
    return () => view.destroy();
    // After the first render, the editor manages its text itself.
  }, []);
  return <div ref={host} className="editor" />;
}
