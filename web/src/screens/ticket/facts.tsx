/** The facts of a ticket: who asks, when the question expires, what the call can reach, and for what the answer is valid. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Tier } from "../../../gen/toold/v1/assessment_pb.ts";
import { RunMode, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { DecisionAction, ExpiryAction, ResumeMode, type Suspension, type Vote } from "../../../gen/toold/v1/suspension_pb.ts";
import { useSession } from "../../api/session.tsx";
import { effectsOf, frontend, isFrontend, Marks } from "../../parts/effects.tsx";
import { IsolationFacts } from "../../parts/Isolation.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { Copy, Tag } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { clock, Time, useNow } from "../../parts/Time.tsx";
import { kinds } from "../inbox/model.ts";
import { Exact } from "../../parts/Exact.tsx";
import { isObject, tryParse } from "./json.ts";

export function Head({ call, title, settled }: { call: Call; title: string; settled: boolean }) {
  const s = call.suspension!, a = call.assessment, d = s.description ?? call.description;
  const unknown = d?.command.filter((p) => p.unknown).length ?? 0;
  return (
    <header className="th">
      <h1 tabIndex={-1}><Text most={300}>{title}</Text></h1>
      {!settled && <Due s={s} />}
      <p className="sub">
        <code><Text most={64}>{call.tool}</Text></code>
        <Marks of={[...(s.action === "approval" ? [] : [kinds.get(s.action) ?? { tone: "run", icon: "ask", word: "Question" } as const]), ...(isFrontend(call) ? s.action === "frontend" ? [] : [frontend] : effectsOf(call))]} />
        {unknown > 0 && <Tag tone="doubt" icon="unknown">{unknown === 1 ? "1 part unknown" : `${unknown} parts unknown`}</Tag>}
        {a?.tier === Tier.ESCALATE && <Tag tone="wait">Tier: escalate</Tag>}
        {a?.tier === Tier.CONFIRM && <Tag>Tier: confirm</Tag>}
        {call.isolation && call.isolation.facts.length === 0 && <Tag tone="line">Isolation: none needed</Tag>}
      </p>
    </header>
  );
}

function Due({ s }: { s: Suspension }) {
  const now = useNow(60_000);
  if (!s.expiresAt) return null;
  const at = timestampDate(s.expiresAt);
  const then = s.onExpiry === ExpiryAction.DEFAULT_RESULT ? <>then <Text most={60}>{s.defaultResult}</Text> answers</> : "then cancelled";
  const far = at.getTime() - now > 86_400_000;
  return (
    <p className={`due ${at.getTime() - now < 3_600_000 ? "soon" : ""}`}>
      <b><Time at={s.expiresAt} /></b>
      <span>waits until {far && `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, `}{clock(at)}, {then}</span>
    </p>
  );
}

/** Who asks, and why. */
export function Asked({ call }: { call: Call }) {
  const s = call.suspension!, run = call.run;
  const own = s.origin === "tool" ? "The tool itself asks. " : s.origin === "in_doubt" ? "" : undefined;
  return (
    <div className={`ask ${s.action === "in_doubt" ? "doubt" : s.action === "approval" ? "" : "run"}`}>
      <q><Text most={4000}>{s.message}</Text></q>
      {own !== undefined ? own && <span className="t2">{own}</span> : (
        <span className="t2">
          Gate <b><Text most={64}>{s.origin}</Text></b>
          {s.rule ? <>, rule <Link href="/policy"><Text most={128}>{s.rule}</Text></Link></> : <Default s={s} />}
          {s.reason && !s.message.includes(s.reason) && <>: <Text most={1000}>{s.reason}</Text></>}
        </span>
      )}
      {call.modelReason && <span className="t2">The model says: “<Text most={1000}>{call.modelReason}</Text>”</span>}
      <span className="t2">
        Asked by <b><Text most={128}>{call.caller?.subject ?? "an unknown caller"}</Text></b>
        {run?.onBehalfOf && <> for <b><Text most={128}>{run.onBehalfOf}</Text></b></>}
        {run?.runId && <> in run <Link href={`/runs/${encodeURIComponent(run.runId)}`}><Text most={128}>{run.runId}</Text></Link></>}
        , <Time at={s.createdAt} />.
      </span>
    </div>
  );
}

/** Says why a call needs an answer although no rule matches it. The permission gate reports the tier, and the part of a command that caused the question. */
function Default({ s }: { s: Suspension }) {
  const p = tryParse(s.parameters);
  if (s.action !== "approval" || !isObject(p) || typeof p.tier !== "string") return null;
  return <>, no rule: calls of the tier <b><Text most={20}>{p.tier.toLowerCase()}</Text></b> are asked about{typeof p.command === "string" && p.command && <>, here because of <code><Text most={200}>{p.command}</Text></code></>}</>;
}

const roles: Partial<Record<Role, string>> = { [Role.CALLER]: "the caller", [Role.DELEGATE]: "a delegate", [Role.APPROVER]: "approver", [Role.OPERATOR]: "operator", [Role.ADMIN]: "admin" };

function answeredBy(s: Suspension): string {
  const a = s.approvers;
  if (!a) return "the caller or its delegate";
  const who = (a.roles.length ? a.roles : [Role.APPROVER]).map((r) => roles[r] ?? "").filter(Boolean).join(" or ");
  const many = a.count > 1 ? `${a.count} of: ${who}` : `any ${who}`;
  return [many, a.groups.length ? `of ${a.groups.join(", ")}` : "", a.distinctFromCaller ? "not the caller" : ""].filter(Boolean).join(", ");
}

const onYes: Partial<Record<ResumeMode, string>> = {
  [ResumeMode.REPLAY_TOOL_CALL]: "the tool runs from its start",
  [ResumeMode.USE_DECISION_AS_TOOL_RESULT]: "the answer is the result; the tool does not run",
  [ResumeMode.PASS_DECISION_TO_TOOL]: "the tool runs with the answer as arguments",
};

export function Facts({ call }: { call: Call }) {
  const s = call.suspension!, run = call.run;
  const facts: [string, ReactNode][] = [["Answered by", <Text most={300}>{answeredBy(s)}</Text>], ["Asked", <Time at={s.createdAt} />]];
  if (s.action !== "in_doubt" && onYes[s.resumeMode]) facts.push(["On yes", onYes[s.resumeMode]]);
  if (run?.agent?.agentId) facts.push(["Agent", <Text most={128}>{run.agent.agentId}</Text>]);
  if (run?.threadId) facts.push(["Thread", <Link href={`/threads/${encodeURIComponent(run.threadId)}`}><Text most={128}>{run.threadId}</Text></Link>]);
  if (run?.mode === RunMode.UNATTENDED) facts.push(["Run mode", "unattended: waits"]);
  if (call.timeouts?.attempt) facts.push(["Timeout", `${Number(call.timeouts.attempt.seconds)} s each attempt`]);
  return <dl className="facts cols">{facts.map(([name, v]) => <div key={name}><dt>{name}</dt><dd>{v}</dd></div>)}</dl>;
}

export function Reach({ call }: { call: Call }) {
  const i = call.isolation;
  if (!i || i.facts.length === 0) return null;
  return (
    <section className="sec">
      <header><h2>What it can reach at most</h2></header>
      <IsolationFacts of={i} />
    </section>
  );
}

/** `use` opens the arguments that another person voted for. */
export function Votes({ s, use }: { s: Suspension; use?: (vote: Vote) => void }) {
  const needed = s.approvers?.count ?? 1, { me } = useSession();
  if (needed < 2) return null;
  const yes = s.votes.filter((v) => v.action === DecisionAction.RESUME).length;
  return (
    <section className="sec">
      <header><h2>Votes</h2><span className="t3">{yes} of {needed}; they must be the same yes</span></header>
      <ul className="votes">
        {s.votes.map((v) => (
          <li key={v.decisionId}>
            <Icon name={v.action === DecisionAction.CANCEL ? "deny" : "ok"} small />
            <b className="who"><Text most={128}>{v.voter?.subject ?? ""}</Text></b>
            <span className="what">{v.action === DecisionAction.CANCEL ? "no" : v.edited ? <>yes, to other arguments: <code><Exact>{v.arguments}</Exact></code> {use && v.arguments && v.voter?.subject !== me.principal?.subject && <button className="btn sm" onClick={() => use(v)}>Compare and vote for them</button>}</> : "yes, to these arguments"}</span>
            <Time at={v.time} className="t3" />
          </li>
        ))}
        <li><Icon name="new" small /><span className="t2">{s.votes.length ? "another person" : "nobody yet"}</span></li>
      </ul>
      <p className="t3">One no decides at once. Edited arguments void the votes for others.</p>
    </section>
  );
}

export function OnRecord({ call }: { call: Call }) {
  const s = call.suspension!;
  return (
    <section className="sec">
      <header><h2>On record</h2><span className="t3">what your answer is bound to</span></header>
      <dl className="facts">
        <dt>Digest</dt><dd><code>{s.digest}</code> <Copy text={s.digest} label="Copy the digest" /></dd>
        <dt>Call</dt><dd><Link href={`/calls/${encodeURIComponent(call.callId)}`}><code><Text most={128}>{call.callId}</Text></code></Link></dd>
        <dt>Suspension</dt><dd><code>{s.suspensionId}</code>, round {s.round}</dd>
        {s.policyVersion && <><dt>Rules</dt><dd><Link href="/policy">version <code><Text most={64}>{s.policyVersion}</Text></code></Link></dd></>}
      </dl>
    </section>
  );
}
