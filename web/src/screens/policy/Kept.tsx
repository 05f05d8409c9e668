/** The answers that people stored for later calls. The viewer can revoke them. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { type Rule, RememberScope } from "../../../gen/toold/v1/suspension_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { calls } from "../../api/clients.ts";
import { hasReason } from "../../api/errors.ts";
import { useSession } from "../../api/session.tsx";
import { alertNow, toast } from "../../parts/say.ts";
import { Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { count } from "./rules.ts";
import "./policy.css";

const most = 1000; // maximum number of answers that are read

async function all(): Promise<{ rules: Rule[]; more: boolean }> {
  const rules: Rule[] = [];
  for (let pageToken = ""; ; ) {
    const page = await calls.listRules({ pageSize: 500, pageToken });
    rules.push(...page.rules);
    pageToken = page.nextPageToken;
    if (!pageToken || rules.length >= most) return { rules, more: pageToken !== "" };
  }
}

const scopes: Partial<Record<RememberScope, string>> = { [RememberScope.RUN]: "in the run", [RememberScope.THREAD]: "in the thread", [RememberScope.NAMESPACE]: "in the namespace" };

export default function Kept() {
  const { has } = useSession();
  const queries = useQueryClient();
  const { data, error, refetch } = useQuery({ queryKey: ["kept"], queryFn: all, refetchInterval: 30_000 });
  const [search, type] = useState("");
  const [shown, show] = useState(100);
  const [asked, ask] = useState<Rule>();
  const [gone, revoked] = useState<Rule[]>([]); // shown crossed out until the viewer leaves the page
  const may = has(Role.CALLER, Role.DELEGATE, Role.APPROVER, Role.OPERATOR);
  const ended = new Set(gone.map((r) => r.ruleId));
  const list = [...(data?.rules.filter((r) => !ended.has(r.ruleId)) ?? []), ...gone].toSorted((a, b) => Number((b.createdAt?.seconds ?? 0n) - (a.createdAt?.seconds ?? 0n)));
  const found = list.filter((r) => [r.tool, r.title, r.principal, r.ruleId, r.madeBy?.subject ?? ""].some((t) => t.toLowerCase().includes(search.toLowerCase())));
  const done = async (r: Rule) => {
    revoked([...gone, r]);
    toast("The answer is revoked. Such calls ask again.");
    await queries.invalidateQueries({ queryKey: ["kept"] });
  };
  return (
    <>
      <header className="bar top">
        <h1>Kept answers</h1>
        <span className="crumb"><Link href="/policy">Policy</Link></span>
        <div className="right rowx">
          <label className="search">
            <span className="sr">Search kept answers</span>
            <input placeholder="Tool, caller, who said it" value={search} onChange={(e) => type(e.target.value)} />
          </label>
        </div>
      </header>
      <div className="body">
        {error && !data ? (
          <Failure error={error} what="The kept answers were not read." again={() => void refetch()} />
        ) : !data ? (
          <Skeleton />
        ) : list.length === 0 ? (
          <Empty title="No answer is kept">
            An approver may keep a yes for later calls: press <kbd>a</kbd> and a number in the <Link href="/inbox">inbox</Link>. A kept yes stands here until it ends.
          </Empty>
        ) : (
          <>
            <table className="t kept">
              <thead>
                <tr>
                  <th>Allows</th>
                  <th className="m0">For</th>
                  <th className="m0">Kept by</th>
                  <th>Ends</th>
                  {may && <th className="r"><span className="sr">Revoke</span></th>}
                </tr>
              </thead>
              <tbody>
                {found.slice(0, shown).map((r) => (
                  <tr key={r.ruleId} className={ended.has(r.ruleId) ? "gone" : ""}>
                    <td><code className="t2">{oneLine(r.tool, 64)}</code> <Text most={300}>{r.title || r.option}</Text></td>
                    <td className="m0">
                      <Text most={100}>{r.principal}</Text>
                      {r.onBehalfOf && <> for <Text most={100}>{r.onBehalfOf}</Text></>}, {scopes[r.scope]} {r.scopeId && (r.scope === RememberScope.RUN ? <Link href={`/runs/${encodeURIComponent(r.scopeId)}`}>{oneLine(r.scopeId, 40)}</Link> : <Link href={`/threads/${encodeURIComponent(r.scopeId)}`}>{oneLine(r.scopeId, 40)}</Link>)}
                    </td>
                    <td className="m0"><Text most={100}>{r.madeBy?.subject ?? ""}</Text>, <Time at={r.createdAt} />, <Link href={`/calls/${r.callId}`}>the call</Link></td>
                    <td><Time at={r.until} /></td>
                    {may && <td className="r">{ended.has(r.ruleId) ? "revoked" : <button className="btn sm bad" aria-label={`Revoke ${oneLine(r.title || r.ruleId, 80)}`} onClick={() => ask(r)}>Revoke</button>}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
            {found.length > shown && <p className="pad"><button className="btn sm" onClick={() => show(shown + 100)}>Show 100 more of {count(found.length)}</button></p>}
            <p className="listfoot">{count(found.length)} {found.length === 1 ? "answer" : "answers"}{data.more && `; only the first ${count(most)} were read`}. A kept yes replaces an ask, never an ask always, a deny or a block.</p>
          </>
        )}
      </div>
      {asked && <Confirm rule={asked} close={() => ask(undefined)} done={done} />}
    </>
  );
}

function Confirm({ rule, close, done }: { rule: Rule; close: () => void; done: (r: Rule) => Promise<void> }) {
  const ref = useRef<HTMLDialogElement>(null);
  const [error, fail] = useState<unknown>();
  const [busy, work] = useState(false);
  useEffect(() => {
    ref.current?.showModal();
  }, []);
  const revoke = async () => {
    work(true);
    try {
      await calls.revokeRule({ ruleId: rule.ruleId });
    } catch (e) {
      if (!hasReason(e, "RULE_NOT_FOUND")) {
        fail(e);
        work(false);
        return;
      }
      alertNow("The answer had ended already.");
    }
    ref.current?.close();
    await done(rule);
  };
  return (
    <dialog className="ask" ref={ref} onClose={close} aria-labelledby="ask-title">
      <div className="stack">
        <h2 id="ask-title">Revoke this kept answer?</h2>
        <p><code className="t2">{oneLine(rule.tool, 64)}</code> <Text most={500}>{rule.title || rule.option}</Text></p>
        <p className="t2">Such calls ask a person again. Calls that it allowed before continue.</p>
        {error !== undefined && <Failure error={error} what="The answer was not revoked." />}
        <div className="rowx">
          <button className="btn bad" disabled={busy} onClick={() => void revoke()}>Revoke the answer</button>
          <button className="btn" onClick={() => ref.current?.close()}>Keep it</button>
        </div>
      </div>
    </dialog>
  );
}
