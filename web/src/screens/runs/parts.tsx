/** Parts that the pages of runs and threads share. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import type { RunSummary, WaitingCall } from "../../../gen/toold/v1/call_pb.ts";
import { DocumentScope } from "../../../gen/toold/v1/event_pb.ts";
import { calls, documents } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { tryNow, type Live } from "../../api/live.ts";
import { Icon } from "../../parts/Icon.tsx";
import { toast } from "../../parts/say.ts";
import { Banner, Tag } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { ConnectError } from "@connectrpc/connect";
import { answerers, stateOf } from "./model.ts";

export const runPath = (id: string) => `/runs/${encodeURIComponent(id)}`;
export const threadPath = (id: string) => `/threads/${encodeURIComponent(id)}`;

/** Returns the id in the address of the page. It does not use the router: the router decodes some escapes, and a second decoding would change an id such as `a%2f`. */
export function useId(): string {
  useLocation();
  const part = location.pathname.split("/")[2] ?? "";
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function State({ run }: { run: RunSummary }) {
  const { tone, icon, word } = stateOf(run);
  return (
    <span className={`st ${tone}`}>
      <Icon name={icon} small className={icon === "run" ? "spin " : ""} />
      {word}
    </span>
  );
}

export function StateTag({ run }: { run: RunSummary }) {
  const { tone, icon, word } = stateOf(run);
  return <Tag tone={tone === "none" ? "" : tone} icon={icon}>{word}</Tag>;
}

/** Warns that the page may show old data. */
export function Lost({ live }: { live: Live }) {
  if (live.state === "lost") {
    return (
      <Banner tone="wait" action="Try now" onAction={tryNow}>
        The connection is lost. The page shows what was known before.
      </Banner>
    );
  }
  return live.state === "ended" && live.message ? <Banner tone="fail">The page is not live: {oneLine(live.message)}</Banner> : null;
}

const modeNames: Record<string, string> = { plan: "plan: read only", accept_edits: "accept edits" };

/** Shows the permission mode of a run or thread, and the modes that the viewer may choose. */
export function Mode({ of, mode, choices, changed }: { of: { case: "runId" | "threadId"; value: string }; mode: string; choices: string[]; changed: () => void }) {
  const now = mode || "default";
  const [sending, send] = useState(false);
  const set = async (next: string) => {
    send(true);
    try {
      await calls.setPermissionMode({ selector: of, mode: next });
      toast(`The mode is ${next}. It was ${now}.`);
    } catch (e) {
      toast(`The mode was not changed. ${toFailure(ConnectError.from(e)).message}`);
    }
    send(false);
    changed();
  };
  return (
    <label className="rowx">
      <span className="t3">Mode</span>
      {choices.length === 0 ? (
        <span title="You may not change it">{oneLine(now, 40)}</span>
      ) : (
        <select className="inp auto" value={now} disabled={sending} onChange={(e) => void set(e.target.value)}>
          {[...new Set([now, ...choices])].map((m) => (
            <option key={m} value={m}>{modeNames[m] ?? oneLine(m, 40)}</option>
          ))}
        </select>
      )}
    </label>
  );
}

/** Ends a run after a confirmation. */
export function EndRun({ run, done }: { run: RunSummary; done: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, type] = useState("");
  const [failed, fail] = useState("");
  const [sending, send] = useState(false);
  const open = Number((run.calls?.new ?? 0n) + (run.calls?.running ?? 0n) + (run.calls?.suspended ?? 0n) + (run.calls?.resuming ?? 0n));
  const end = async () => {
    send(true);
    fail("");
    try {
      const { cancelledCallIds } = await calls.endRun({ runId: run.runId, reason });
      dialog.current?.close();
      toast(`The run has ended. ${cancelledCallIds.length} calls were cancelled.`);
      done();
    } catch (e) {
      fail(toFailure(ConnectError.from(e)).message);
    }
    send(false);
  };
  return (
    <>
      <button className="btn bad" onClick={() => dialog.current?.showModal()}>
        <Icon name="stop" small /> End run
      </button>
      <dialog className="keys endrun" ref={dialog} aria-labelledby="end-title" onClick={(e) => e.target === dialog.current && dialog.current.close()}>
        <header>
          <h2 id="end-title" className="grow">End this run?</h2>
        </header>
        <form
          className="pad stack"
          onSubmit={(e) => {
            e.preventDefault();
            void end();
          }}
        >
          <p>
            {open === 0 ? "No call is open." : `${open} open ${open === 1 ? "call is" : "calls are"} cancelled and cannot be continued.`} The documents of the run are removed{run.blockedCallId ? ", and it is no longer blocked" : ""}. A later call opens the run again.
          </p>
          <label className="stack tight">
            Reason, for the record
            <input className="inp" maxLength={1000} value={reason} onChange={(e) => type(e.target.value)} />
          </label>
          {failed && <p role="alert" className="fail-text">The run was not ended. {oneLine(failed)}</p>}
          <div className="rowx">
            <button className="btn bad" disabled={sending}>End run</button>
            <button type="button" className="btn" onClick={() => dialog.current?.close()}>Keep it</button>
          </div>
        </form>
      </dialog>
    </>
  );
}

/** Shows the open questions and who may answer them, with links to the tickets. */
export function Waits({ waits, running }: { waits: WaitingCall[]; running: number }) {
  if (waits.length === 0) return null;
  return (
    <section className="note wait" aria-label="Where it waits">
      <Icon name="wait" />
      <div className="grow stack tight">
        <span>
          It waits for {waits.length === 1 ? "one answer" : `${waits.length} answers`}.{running > 0 && ` ${running === 1 ? "One call still runs" : `${running} calls still run`}.`}
        </span>
        <ul className="stack tight waits">
          {waits.map((w) => (
            <li key={w.suspensionId}>
              <Link href={`/inbox/${encodeURIComponent(w.suspensionId)}`}>
                <code>{oneLine(w.tool, 64)}</code> {oneLine(!w.title || w.title === w.tool ? w.action : w.title, 120)}
              </Link>{" "}
              <span className="t2">
                for {answerers(w)}, since <Time at={w.createdAt} />
              </span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

/** Shows the documents of a run or thread. A viewer that may not read them sees none. */
export function Documents({ scope, id, title }: { scope: DocumentScope.RUN | DocumentScope.THREAD; id: string; title: string }) {
  const { data } = useQuery({ queryKey: ["documents", scope, id], queryFn: () => documents.listDocuments({ scope, scopeId: id, pageSize: 50 }), retry: false });
  if (!data || data.documents.length === 0) return null;
  return (
    <section className="sec">
      <header>
        <h2>{title}</h2>
      </header>
      <div className="box">
        <table className="t">
          <tbody>
            {data.documents.map((d) => (
              <tr key={d.key}>
                <td className="wrap"><code>{oneLine(d.key, 80)}</code></td>
                <td className="wrap t2"><Text most={200}>{d.value}</Text></td>
                <td className="r t3 num fit">revision {String(d.revision)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {data.nextPageToken && <p className="t3">There are more documents: <code>toold documents list</code> shows all.</p>}
    </section>
  );
}

/** Moves the focus between the elements of a list with j and k. */
export function step(selector: string, by: 1 | -1) {
  const all = [...document.querySelectorAll<HTMLElement>(selector)];
  const at = all.indexOf(document.activeElement as HTMLElement);
  all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))]?.focus();
}

/** Reports whether the pointer or the focus is on an element. While it is, nothing in the element may move. */
export function useHeld(): { held: boolean; hold: { onPointerEnter: () => void; onPointerLeave: () => void; onFocus: () => void; onBlur: () => void } } {
  const [held, set] = useState({ pointer: false, focus: false });
  return {
    held: held.pointer || held.focus,
    hold: {
      onPointerEnter: () => set((h) => ({ ...h, pointer: true })), onPointerLeave: () => set((h) => ({ ...h, pointer: false })),
      onFocus: () => set((h) => ({ ...h, focus: true })), onBlur: () => set((h) => ({ ...h, focus: false })),
    },
  };
}

export function useTitle(title: string) {
  useEffect(() => {
    const was = document.title;
    document.title = `${oneLine(title, 60)} · toold`;
    return () => void (document.title = was);
  }, [title]);
}

