/** Several questions of one kind. The page shows each of them, and sends a separate decision for each, which is valid only for the digest of that question. */
import { ConnectError } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "wouter";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { DecisionAction } from "../../../gen/toold/v1/suspension_pb.ts";
import { calls } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { type Question, useInbox } from "../../api/inbox.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Marks } from "../../parts/effects.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow } from "../../parts/say.ts";
import { Empty, Failure, Skeleton, Tag } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { useSteps } from "../ticket/steps.ts";
import { What } from "../ticket/What.tsx";
import "../ticket/ticket.css";
import { decide } from "./decide.ts";
import { kindOf, marks, mostTogether, outcome, title } from "./model.ts";

export function Together({ ids, lost, back }: { ids: string[]; lost: boolean; back: () => void }) {
  const { questions, complete } = useInbox();
  const all = ids.slice(0, mostTogether).map((id) => questions.get(id)).filter((q) => !!q);
  const first = all.find((q) => kindOf(q));
  // The address may contain any questions. Only those of the same kind as the first one are shown.
  const kind = useRef<string>(undefined);
  kind.current ??= first && kindOf(first);
  const alike = all.filter((q) => q.settled || kindOf(q) === kind.current);
  const callIds = alike.map((q) => q.call.callId).join();
  const { data, error, refetch } = useQuery({
    queryKey: ["together", callIds],
    queryFn: () => Promise.all(alike.map(async (q) => (await calls.getCall({ callId: q.call.callId })).call!)),
    enabled: complete && alike.length > 0,
    staleTime: Infinity,
  });
  if (!complete) return <Skeleton />;
  if (alike.length === 0 || !kind.current) return <Empty title="None of these questions waits"><button className="btn sm" onClick={back}>Back to the list</button></Empty>;
  if (error) return <Failure error={error} what="The calls could not be read. Nothing was answered." again={() => void refetch()} />;
  if (!data) return <Skeleton />;
  return <Several key={callIds} alike={alike} full={new Map(data.map((c) => [c.callId, c]))} {...{ lost, back }} />;
}

function Several({ alike, full, lost, back }: { alike: Question[]; full: ReadonlyMap<string, Call>; lost: boolean; back: () => void }) {
  const { me } = useSession();
  const subject = me.principal?.subject ?? "";
  const [left, leave] = useState<ReadonlySet<string>>(new Set());
  const { step, setStep, alone, deliberate, held } = useSteps();
  const [errors, setErrors] = useState<ReadonlyMap<string, string>>(new Map());
  const [sending, setSending] = useState(false);
  const reason = useRef<HTMLInputElement>(null);
  const decisions = useRef(new Map<string, string>()); // the id of each decision, so that a decision that is sent again counts once
  const chosen = alike.filter((q) => !q.settled && !left.has(q.id) && full.get(q.call.callId)?.suspension?.suspensionId === q.id);
  const tool = alike[0]!.call.tool, n = chosen.length, waits = alike.some((q) => !q.settled);
  const ready = n > 0 && !sending && !lost;

  const send = async (action: DecisionAction) => {
    if (!ready || !deliberate()) return;
    setSending(true);
    const failed = new Map<string, string>();
    await Promise.all(
      chosen.map(async (q) => {
        const key = `${q.id} ${action}`;
        decisions.current.set(key, decisions.current.get(key) ?? crypto.randomUUID());
        try {
          await decide(full.get(q.call.callId)!, { decisionId: decisions.current.get(key)!, action, reason: reason.current?.value ?? "" });
        } catch (e) {
          failed.set(q.id, e instanceof ConnectError ? toFailure(e).message : String(e));
        }
      }),
    );
    setErrors(failed);
    setSending(false);
    setStep("rest");
    if (failed.size > 0) alertNow(`${failed.size} of ${n} answers were not taken.`);
  };
  useKeys({ a: () => ready && alone() && setStep("arm"), d: () => ready && alone() && setStep("no") }, step === "rest");
  useKeys({ escape: () => setStep("rest"), y: () => step === "arm" && void send(DecisionAction.RESUME) }, step !== "rest");

  return (
    <article className="ticket" aria-label={`${alike.length} tickets together`}>
      <div className="in">
        <header className="th">
          <h1 tabIndex={-1}>
            {alike.length} calls of <Text most={60}>{tool}</Text>
          </h1>
          <p className="sub">
            <code><Text most={60}>{tool}</Text></code>
            <Marks of={marks(alike[0]!)} />
            {alike[0]!.call.run?.runId && <span>in run <Link href={`/runs/${encodeURIComponent(alike[0]!.call.run.runId)}`}><Text most={60}>{alike[0]!.call.run.runId}</Text></Link></span>}
          </p>
        </header>
        <div className="ask">
          <q>{!waits ? "All of them are decided." : n === 0 ? "None is chosen." : `Allow ${n === 1 ? "this one" : n === 2 ? "both" : `these ${n}`}?`}</q>
          <span className="t2">Same tool, same caller, {alike[0]!.call.run?.runId ? "same run, " : ""}nothing destroyed, no network. Each gets an answer of its own, bound to its own digest.</span>
        </div>
        <div className="tog">
          {alike.map((q) => (
            <One key={q.id} q={q} call={full.get(q.call.callId)} subject={subject} error={errors.get(q.id)} on={!left.has(q.id)} toggle={() => leave(flip(left, q.id))} />
          ))}
        </div>
      </div>
      <div className="act" role="group" aria-label="Decide" onKeyDown={held}>
        {step === "rest" && (
          <div className="bar2">
            {waits && (
              <>
                <button className="btn lg go" disabled={!ready} onClick={() => setStep("arm")}>Approve {n} <kbd>a</kbd></button>
                <button className="btn lg bad" disabled={!ready} onClick={() => setStep("no")}>Decline {n} <kbd>d</kbd></button>
              </>
            )}
            <button className="btn lg bare right" onClick={back}>Back to the list <kbd>esc</kbd></button>
          </div>
        )}
        {step === "arm" && (
          <div className="bar2 arm">
            <span className="grow">Run exactly these {n}? <code className="digests">{chosen.map((q) => digest(full.get(q.call.callId))).join(", ")}</code></span>
            <span className="pair">
              <button className="btn lg" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
              <button className="btn lg go" autoFocus disabled={!ready} onClick={() => void send(DecisionAction.RESUME)}>Yes, run {n === 2 ? "both" : `all ${n}`} <kbd>y</kbd></button>
            </span>
          </div>
        )}
        {step === "no" && (
          <form className="bar2 no" onSubmit={(e) => (e.preventDefault(), void send(DecisionAction.CANCEL))}>
            <label className="grow">
              <span className="nowrap">Reason</span>
              <input className="inp" ref={reason} autoFocus maxLength={1000} placeholder="The model reads it: what would be right instead?" />
            </label>
            <span className="pair">
              <button className="btn lg" type="button" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
              <button className="btn lg bad" disabled={!ready}>Decline {n} calls <kbd>enter</kbd></button>
            </span>
          </form>
        )}
      </div>
    </article>
  );
}

const digest = (call: Call | undefined) => call?.suspension?.digest.slice(0, 8) ?? "";

function flip(set: ReadonlySet<string>, id: string) {
  const next = new Set(set);
  if (!next.delete(id)) next.add(id);
  return next;
}

function One({ q, call, subject, error, on, toggle }: { q: Question; call?: Call; subject: string; error?: string; on: boolean; toggle: () => void }) {
  const { settled } = q;
  return (
    <section className="sec" aria-label={title(q)}>
      <label className="opt">
        <input type="checkbox" checked={on && !settled} disabled={!!settled} onChange={toggle} />
        <span className="b">
          <Text most={200}>{title(q)}</Text> {settled && <Tag tone={settled.decision ? "ok" : "line"}>{outcome(settled, subject)}</Tag>}
        </span>
        <span className="rowx">
          {!settled && <Time at={q.call.suspension?.expiresAt} className="t3" />}
          <code className="t3">{digest(call)}</code>
        </span>
        {error && <span className="d fail"><Icon name="fail" small className="fail" /> {error}</span>}
      </label>
      {call && <What call={call} />}
    </section>
  );
}
