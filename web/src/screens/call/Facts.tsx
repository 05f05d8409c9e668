/** The facts of a call. The page shows them beside the events. */
import { durationMs } from "@bufbuild/protobuf/wkt";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Tier } from "../../../gen/toold/v1/assessment_pb.ts";
import { AttemptEnd, Durability, HookKind, VerdictAction, type Attempt, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { IsolationLevel, NetworkMode } from "../../../gen/toold/v1/isolation_pb.ts";
import { DecisionAction } from "../../../gen/toold/v1/suspension_pb.ts";
import { effectsOf } from "../../parts/effects.tsx";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { IsolationFacts } from "../../parts/Isolation.tsx";
import { Text } from "../../parts/Text.tsx";
import { clock, exact, span } from "../../parts/Time.tsx";
import { DecisionText, ms, took } from "./Timeline.tsx";

const name = (e: Record<number, string>, v: number) => (e[v] ?? "unknown").toLowerCase().replaceAll("_", " ");
const short = (text: string) => <Text most={300}>{text}</Text>;

export function Facts({ call }: { call: Call }) {
  const run = call.run;
  return (
    <aside className="side" aria-label="Facts">
      <Section title="Who">
        <dl className="facts">
          <Fact name="Caller">{call.caller && short(call.caller.subject)}</Fact>
          <Fact name="For">{run?.onBehalfOf && short(run.onBehalfOf)}</Fact>
          <Fact name="Agent">{run?.agent?.agentId && short(run.agent.agentId)}</Fact>
          <Fact name="Run">{run?.runId && <Link href={`/runs/${encodeURIComponent(run.runId)}`}>{short(run.runId)}</Link>}</Fact>
          <Fact name="Thread">{run?.threadId && <Link href={`/threads/${encodeURIComponent(run.threadId)}`}>{short(run.threadId)}</Link>}</Fact>
          <Fact name="Parent">{run?.parentCallId && <Link href={`/calls/${encodeURIComponent(run.parentCallId)}`}>{short(run.parentCallId)}</Link>}</Fact>
          <Fact name="Batch">{call.batchId && <>{call.batchPosition} in <code>{short(call.batchId)}</code></>}</Fact>
          <Fact name="Labels">{run && Object.keys(run.labels).length > 0 && short(Object.entries(run.labels).map(([k, v]) => `${k}=${v}`).join(", "))}</Fact>
          <Fact name="Model’s reason">{call.modelReason && short(call.modelReason)}</Fact>
        </dl>
      </Section>
      <Section title="What">
        <dl className="facts">
          <Fact name="Tool"><Link href={`/tools/${encodeURIComponent(call.tool)}`}><code>{short(call.tool)}</code></Link></Fact>
          <Fact name="Digest">{call.toolDigest && <code title={call.toolDigest}>{call.toolDigest.slice(0, 8)}…{call.toolDigest.slice(-4)}</code>}</Fact>
          <Fact name="Effect">{call.assessment && effectsOf(call).map((m) => m.word.toLowerCase()).join(", ")}</Fact>
          <Fact name="Tier">{call.assessment && name(Tier, call.assessment.tier)}</Fact>
          <Fact name="Retry of">{call.retryOf && <Link href={`/calls/${encodeURIComponent(call.retryOf)}`}><code>{short(call.retryOf)}</code></Link>}</Fact>
        </dl>
      </Section>
      {call.verdicts.length > 0 && (
        <Section title="Gates" note="last answers">
          <ul className="held">
            {call.verdicts.map((v) => {
              const [icon, tone, text] = gateWord(v.action);
              const by = v.answered ? call.decisions.findLast((d) => d.action === DecisionAction.RESUME)?.decidedBy?.subject : undefined;
              return (
                <li key={v.gate} title={v.duration && v.time ? `asked at ${exact(new Date(ms(v.time)))}, took ${span(took(v))}` : ""}>
                  <Icon name={icon} small className={tone} />
                  <span>{short(v.gate)}{v.reason && <span className="t3 why">{short(v.reason)}</span>}</span>
                  <span className="t3">{by ? <>answered by {short(by)}</> : text}{v.overruled && ", overruled"}</span>
                </li>
              );
            })}
          </ul>
        </Section>
      )}
      {call.hookRuns.length > 0 && (
        <Section title="Hooks" note="that may wait">
          <ul className="held">
            {call.hookRuns.map((h, i) => (
              <li key={i}>
                <Icon name={h.failed ? "fail" : "ok"} small className={h.failed ? "fail" : "ok"} />
                <span>{name(HookKind, h.kind)} {short(h.hook)}</span>
                <span className="t3 num">{h.failed && "failed, "}{span(h.duration ? durationMs(h.duration) : 0)}</span>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {call.decisions.length > 0 && (
        <Section title="Decisions">
          <ul className="stack tight">
            {call.decisions.map((d) => <li key={d.decisionId}><DecisionText decision={d} /> <span className="t3 num" title={exact(new Date(ms(d.time)))}>{clock(new Date(ms(d.time)))}</span></li>)}
          </ul>
        </Section>
      )}
      {call.attempts.length > 0 && (
        <Section title="Attempts">
          <ul className="held">
            {call.attempts.slice(-20).map((a) => {
              const [icon, tone, text] = endWord(a);
              return (
                <li key={a.attempt} title={a.startedAt ? `began ${exact(new Date(ms(a.startedAt)))}, epoch ${a.epoch}` : ""}>
                  <Icon name={icon} small className={tone} />
                  <span>{a.attempt}{a.operation && <> elsewhere as {short(a.operation.operationId)}</>}</span>
                  <span className="t3 num">{text}{a.endedAt && `, ${span(ms(a.endedAt) - ms(a.startedAt))}`}</span>
                </li>
              );
            })}
          </ul>
        </Section>
      )}
      {call.isolation && (call.isolation.facts.length > 0 || call.isolation.required > IsolationLevel.NONE) && (
        <Section title="Isolation" note={`required ${name(IsolationLevel, call.isolation.required)}, network ${name(NetworkMode, call.isolation.network)}`}>
          <IsolationFacts of={call.isolation} />
        </Section>
      )}
      <Section title="Times">
        <dl className="facts">
          <Fact name="Accepted">{call.createdAt && <Clock at={ms(call.createdAt)} />}</Fact>
          <Fact name="Ended">{call.endedAt && <Clock at={ms(call.endedAt)} />}</Fact>
          <Fact name="Queue limit">{call.timeouts?.queue && span(durationMs(call.timeouts.queue))}</Fact>
          <Fact name="Attempt limit">{call.timeouts?.attempt && span(durationMs(call.timeouts.attempt))}</Fact>
          <Fact name="Class">{call.durability === Durability.SYNC ? "sync: stored, then published" : "behind: published, then stored"}</Fact>
          <Fact name="Call"><code>{short(call.callId)}</code></Fact>
          <Fact name="Model’s id">{call.modelCallId && <code>{short(call.modelCallId)}</code>}</Fact>
        </dl>
      </Section>
    </aside>
  );
}

function gateWord(a: VerdictAction): [IconName, string, string] {
  switch (a) {
    case VerdictAction.ALLOW:
      return ["ok", "ok", "allows"];
    case VerdictAction.SUSPEND:
      return ["wait", "wait", "asks"];
    case VerdictAction.SET_RESULT:
      return ["edit", "", "gives the result"];
    case VerdictAction.FAILED:
      return ["warn", "fail", "failed"];
    case VerdictAction.BLOCK:
      return ["deny", "fail", "blocks"];
    case VerdictAction.DENY:
      return ["deny", "fail", "denies"];
  }
  return ["unknown", "", ""];
}

function endWord(a: Attempt): [IconName, string, string] {
  switch (a.end) {
    case AttemptEnd.RETURNED:
      return ["ok", "ok", "returned"];
    case AttemptEnd.SUSPENDED:
      return ["wait", "wait", "asked"];
    case AttemptEnd.TIMED_OUT:
      return ["clock", "fail", "timed out"];
    case AttemptEnd.STOPPED:
      return ["stop", "", "stopped"];
    case AttemptEnd.FAILED:
      return ["fail", "fail", "failed"];
    case AttemptEnd.LOST:
      return ["doubt", "doubt", "end not observed"];
  }
  return ["run", "run", "runs"];
}

function Section({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <section className="sec">
      <header>
        <h2>{title}</h2>
        {note && <span className="t3">{note}</span>}
      </header>
      {children}
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (!children) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Clock({ at }: { at: number }) {
  const d = new Date(at);
  return <time dateTime={d.toISOString()} title={exact(d)}>{d.toDateString() === new Date().toDateString() ? clock(d) : exact(d).slice(0, 19)}</time>;
}
