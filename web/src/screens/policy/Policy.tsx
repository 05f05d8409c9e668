/** The active rules with their hits. Beside them is one of these: a rule, an edit with its replay, or a trial of one call. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect, useRef } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { GetPolicyResponse, PolicyRule, RuleHits } from "../../../gen/toold/v1/policy_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { calls } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Empty, Failure, Skeleton, Tag } from "../../parts/small.tsx";
import { oneLine, Text, visible } from "../../parts/Text.tsx";
import { clock, exact, Time } from "../../parts/Time.tsx";
import { count, look, ruleID, scope, tierName } from "./rules.ts";
import "./policy.css";

const Replay = lazy(() => import("./Replay.tsx"));
const Trial = lazy(() => import("./Trial.tsx"));

export default function Policy() {
  const { has } = useSession();
  const may = has(Role.OPERATOR, Role.VIEWER), operates = has(Role.OPERATOR);
  const { data, error, refetch } = useQuery({ queryKey: ["policy"], queryFn: () => calls.getPolicy({}), enabled: may, refetchInterval: 10_000 });
  const [at] = useLocation();
  const part = at.split("/")[2] ?? "";
  return (
    <>
      <header className="bar top">
        <h1>Policy</h1>
        {data && <About policy={data} />}
        <div className="right rowx">
          <Link className="btn" href="/policy/kept">Kept<span className="wide"> answers</span></Link>
          {operates && <Link className="btn" href="/policy/replay" aria-current={part === "replay" ? "page" : undefined}>Edit</Link>}
          {operates && <Link className="btn" href="/policy/try" aria-current={part === "try" ? "page" : undefined}>Try a call</Link>}
        </div>
      </header>
      <div className="body">
        {!may ? (
          <Empty title="You may not read the rules">
            It needs the role viewer or operator. You may read the <Link href="/policy/kept">kept answers</Link> that concern you.
          </Empty>
        ) : data ? (
          <div className="pol">
            <Rules policy={data} />
            <section className="pad stack polx" aria-label={part === "replay" ? "Edit and replay" : part === "try" ? "Try a call" : "Rule"}>
              <Suspense fallback={<Skeleton />}>{part === "replay" && operates ? <Replay policy={data} /> : part === "try" && operates ? <Trial policy={data} /> : <Rule policy={data} />}</Suspense>
            </section>
          </div>
        ) : error ? (
          <Failure error={error} what="The rules were not read." again={() => void refetch()} />
        ) : (
          <Skeleton rows={10} />
        )}
      </div>
    </>
  );
}

function About({ policy: p }: { policy: GetPolicyResponse }) {
  const since = p.since && timestampDate(p.since);
  return (
    <span className="t3 wide cut">
      {p.file ? oneLine(p.file, 60) : "No rule file"}
      {p.version && <> · version <code>{p.version.slice(0, 8)}</code></>}
      {since && <> · in force since <time dateTime={since.toISOString()} title={exact(since)}>{clock(since).slice(0, 5)}</time></>}
    </span>
  );
}

const hitsOf = (h?: RuleHits) => Number(h?.count ?? 0n);

function Rules({ policy: p }: { policy: GetPolicyResponse }) {
  const [params] = useSearchParams();
  const [at, go] = useLocation();
  const chosen = params.get("rule") ?? "";
  const list = useRef<HTMLTableSectionElement>(null);
  const to = (r: PolicyRule) => `${at}?rule=${encodeURIComponent(ruleID(r))}`;
  const move = (by: number) => {
    const held = new URLSearchParams(window.location.search).get("rule"); // may be newer than the rendered selection
    const now = p.rules.findIndex((r) => ruleID(r) === held);
    const next = p.rules[Math.min(Math.max(now < 0 ? (by > 0 ? 0 : p.rules.length - 1) : now + by, 0), p.rules.length - 1)];
    if (next) go(to(next), { replace: true });
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  useEffect(() => {
    void list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const most = Math.max(1, ...[...p.rules, ...p.defaults].map((r) => hitsOf(r.hits)));
  const never = p.rules.filter((r) => !r.hidesTools && r.hits?.count === 0n);
  const since = p.since && timestampDate(p.since);
  const layers = p.rules.some((r) => r.layer !== "operator");
  return (
    <section className="pane polr" aria-label="Rules in force">
      <table className="t rules">
        <thead>
          <tr>
            <th className="c1">Action</th>
            <th>Rule</th>
            <th className="r c3">Hits</th>
            <th className="m0 sp"><span className="sr">Share</span></th>
            <th className="r m0 c5">Last</th>
          </tr>
        </thead>
        <tbody ref={list}>
          {p.rules.map((r) => (
            <tr key={ruleID(r)} aria-selected={ruleID(r) === chosen} onClick={() => go(to(r))}>
              <td className="c1"><Action action={r.action} /></td>
              <td>
                <Link href={to(r)}><b>{visible(oneLine(r.name, 100))}</b></Link>
                {layers && r.layer !== "operator" && <span className="t3"> {visible(oneLine(r.layer, 60))}</span>} <code className="t2">{visible(oneLine(scope(r)))}</code>
              </td>
              <Hits hits={r.hits} hides={r.hidesTools} most={most} />
            </tr>
          ))}
          {p.defaults.map((d) => (
            <tr key={`${d.layer} ${d.tier}`}>
              <td className="c1"><Action action={d.action} /></td>
              <td>
                <b className="t2">by tier: {tierName(d.tier)}</b> {d.layer !== "operator" && <span className="t3">{visible(oneLine(d.layer, 60))}</span>} <code className="t2">what no rule names</code>
              </td>
              <Hits hits={d.hits} most={most} />
            </tr>
          ))}
        </tbody>
      </table>
      <p className="listfoot">
        Deny and block first, then ask always, ask, allow. Hits count in this namespace{since && <>, since <time dateTime={since.toISOString()} title={exact(since)}>{clock(since).slice(0, 5)}</time></>}: the start of the daemon, or its latest reload with other rules.
        {never.length > 0 && <> {never.length === 1 ? "A rule that" : `${never.length} rules that`} never decided {never.length === 1 ? "is" : "are"} worth a look: <b>{never.slice(0, 5).map((r) => oneLine(r.name, 60)).join(", ")}</b>{never.length > 5 && " …"}.</>}
        {!p.unattendedWaits && " In unattended runs, ask means deny."}
      </p>
    </section>
  );
}

export function Action({ action }: { action: PolicyRule["action"] }) {
  const { word, tone, icon } = look(action);
  return <Tag tone={tone} icon={icon}>{word}</Tag>;
}

function Hits({ hits, hides, most }: { hits?: RuleHits; hides?: boolean; most: number }) {
  const n = hitsOf(hits);
  return (
    <>
      <td className="c3 r num">
        {hits?.count === undefined ? <span className="t3" title="The daemon has too many namespaces to count.">unknown</span> : n > 0 ? count(n) : hides ? <span className="t3" title="The rule hides tools: their calls end before the rules are asked.">hides</span> : <span className="t3">never</span>}
      </td>
      <td className="sp m0">{n > 0 && <span className="spark" style={{ width: `${Math.max(0.5, (100 * n) / most)}%` }} />}</td>
      <td className="c5 r num t3 m0">{hits?.lastAt && <Time at={hits.lastAt} />}</td>
    </>
  );
}

/** Shows the facts of the selected rule. */
function Rule({ policy: p }: { policy: GetPolicyResponse }) {
  const [params] = useSearchParams();
  const { has } = useSession();
  const r = p.rules.find((r) => ruleID(r) === params.get("rule"));
  if (!r) {
    return (
      <Empty title={p.rules.length === 0 ? "There is no rule here" : "Select a rule"}>
        {p.rules.length === 0 ? <>The tier of each tool decides. {has(Role.OPERATOR) && <Link href="/policy/replay">Write rules and see what they would change.</Link>}</> : "Its conditions and who may answer stand here."}
      </Empty>
    );
  }
  const facts: [string, string[]][] = [
    ["Tools", r.tools], ["When", r.when ? [r.when] : []], ["Callers", r.callers], ["Tiers", r.tiers.map(tierName)], ["Sources", r.sources],
    ["Approvers", [...r.approverRoles, ...r.approverGroups.map((g) => `group ${g}`)]], ["Approvals", r.count > 1 ? [String(r.count)] : []], ["Expires after", r.expiresIn ? [`${Number(r.expiresIn.seconds) / 60} min`] : []],
    ["Remember", r.remembersNone ? ["none"] : r.remember],
  ];
  return (
    <section className="sec">
      <header>
        <h2><Text most={200}>{r.name}</Text></h2>
        <Action action={r.action} />
        {r.fourEyes && <Tag tone="line" icon="user">not the caller</Tag>}
        {r.resultInstead && <Tag tone="line">may answer in the tool’s place</Tag>}
      </header>
      {r.reason && <p><Text>{r.reason}</Text></p>}
      <dl className="facts">
        {facts.filter(([, values]) => values.length > 0).map(([name, values]) => (
          <div key={name} className="contents">
            <dt>{name}</dt>
            <dd>{values.map((v, i) => <code key={i} className="lines"><Text most={500}>{v}</Text></code>)}</dd>
          </div>
        ))}
        <div className="contents">
          <dt>Where</dt>
          <dd>{p.file ? `${oneLine(p.file, 200)}:${r.line}:${r.column}` : "default"}, layer {oneLine(r.layer, 100)}</dd>
        </div>
        <div className="contents">
          <dt>Hits</dt>
          <dd>{r.hits?.count === undefined ? "unknown" : count(r.hits.count)}{r.hits?.lastAt && <>, the last <Time at={r.hits.lastAt} /></>}</dd>
        </div>
      </dl>
      {r.hidesTools && <p className="t2">This rule hides tools: a call of such a tool ends with NOT_FOUND before the rules are asked, so it is no hit.</p>}
    </section>
  );
}
