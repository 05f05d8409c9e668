/** The dialog that lists the keys. */
import { useEffect, useRef } from "react";
import { places } from "../routes.tsx";

const groups: [string, [string, string][]][] = [
  ["Lists", [["j", "next"], ["k", "previous"], ["enter", "open"], ["/", "search"], [".", "show what is new"], ["p", "pause"], ["x", "select"]]],
  ["Decide", [["a y", "approve"], ["a 1–9 y", "approve and keep"], ["e", "edit"], ["r", "give the result"], ["d", "decline"], ["c", "claim"], ["h", "hand over"], ["u", "side by side or one column"]]],
  ["Anywhere", [["l", "copy the link"], ["f", "follow"], ["shift+c", "cancel the call"], ["esc", "back to rest"], ["?", "this page"]]],
];

export function Keys({ open, close }: { open: boolean; close: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) ref.current?.showModal();
    else ref.current?.close();
  }, [open]);
  const all: typeof groups = [["Go", places.map((p) => [`g ${p.key}`, p.name])], ...groups];
  return (
    <dialog className="keys" ref={ref} onClose={close} aria-labelledby="keys-title" onClick={(e) => e.target === ref.current && close()}>
      <header>
        <h2 id="keys-title" className="grow">Keys</h2>
        <button className="btn sm" onClick={close}>Close</button>
      </header>
      <div className="kc">
        {all.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([key, what]) => (
                <div key={key} style={{ display: "contents" }}>
                  <dt>{what}</dt>
                  <dd>{key.split(" ").map((k) => <kbd key={k}>{k}</kbd>)}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  );
}
