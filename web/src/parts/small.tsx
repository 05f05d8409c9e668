/** Small parts: tags, notes, copy buttons, and the states of a screen that has no data yet. */
import { useState, type ReactNode } from "react";
import { ConnectError } from "@connectrpc/connect";
import { toFailure } from "../api/errors.ts";
import { Icon, type IconName } from "./Icon.tsx";
import { useLater } from "./Time.tsx";

type Tone = "ok" | "fail" | "wait" | "doubt" | "run" | "line" | "";

export function Tag({ tone = "", icon, children }: { tone?: Tone; icon?: IconName; children: ReactNode }) {
  return (
    <span className={`tag ${tone}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  );
}

export function Note({ tone, icon = "info", children }: { tone?: "ok" | "fail" | "wait" | "doubt" | "run"; icon?: IconName; children: ReactNode }) {
  return (
    <div className={`note ${tone ?? ""}`}>
      <Icon name={icon} />
      <div className="grow">{children}</div>
    </div>
  );
}

/** A button that copies a text. It does not show the text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <button className="btn sm" onClick={() => void copy()}>
      <Icon name="copy" small /> {done ? "Copied" : label}
    </button>
  );
}

/** Says why there is nothing to show, and what the next step is. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty pad stack tight">
      <h2>{title}</h2>
      <div className="t2">{children}</div>
    </div>
  );
}

/** Shows an error: its code, the action that failed, and a button to try again. */
export function Failure({ error, what, again }: { error: unknown; what: string; again?: () => void }) {
  const { code, message } = error instanceof ConnectError ? toFailure(error) : { code: "ERROR", message: String(error) };
  return (
    <div className="pad" role="alert">
      <Note tone="fail" icon="fail">
        <div className="stack tight">
          <b>{what}</b>
          <span>
            <code>{code}</code> {message}
          </span>
          {again && (
            <span>
              <button className="btn sm" onClick={again}>Try again</button>
            </span>
          )}
        </div>
      </Note>
    </div>
  );
}

/** Grey bars with the height of the coming rows. They appear after 300 ms. */
export function Skeleton({ rows = 6 }: { rows?: number }) {
  const late = useLater();
  return (
    <div className="skbox" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} className="skl" style={{ visibility: late ? "visible" : "hidden" }}>
          <i className="sk s1" />
          <i className="sk s2" />
        </span>
      ))}
    </div>
  );
}

/** A line below the bar of a page. It shows the state of the whole page. */
export function Banner({ tone, children, action, onAction }: { tone: "wait" | "fail" | "run"; children: ReactNode; action?: string; onAction?: () => void }) {
  return (
    <div className={`banner ${tone}`} role="status">
      <span className="grow">{children}</span>
      {action && <button className="btn sm" onClick={onAction}>{action}</button>}
    </div>
  );
}
