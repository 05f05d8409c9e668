/** Judges one call by the active rules and by the edited ones. The call need not exist, and nothing runs. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { Link } from "wouter";
import { RunMode, VerdictAction } from "../../../gen/toold/v1/call_pb.ts";
import type { GetPolicyResponse, Ruling } from "../../../gen/toold/v1/policy_pb.ts";
import { calls, tools } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { Failure, Note, Tag } from "../../parts/small.tsx";
import { oneLine, Text, visible } from "../../parts/Text.tsx";
import { Action } from "./Policy.tsx";
import { beginning, useDraft } from "./rules.ts";

const means: Partial<Record<VerdictAction, string>> = {
  [VerdictAction.ALLOW]: "the call runs",
  [VerdictAction.SUSPEND]: "the call waits for an answer",
  [VerdictAction.DENY]: "the call is refused, and its run continues",
  [VerdictAction.BLOCK]: "the call is refused, and its run is blocked",
};

export default function Trial({ policy }: { policy: GetPolicyResponse }) {
  const { me } = useSession();
  const [draft] = useDraft();
  const edited = draft !== undefined && draft !== beginning(policy);
  const [form, set] = useState({ tool: "", text: "{}", caller: "", mode: "", unattended: false });
  const field = (name: "tool" | "text" | "caller" | "mode") => ({ id: `try-${name}`, className: "inp", value: form[name], onChange: (e: { target: { value: string } }) => set({ ...form, [name]: e.target.value }) });
  const list = useQuery({ queryKey: ["tools", "ids"], queryFn: async () => (await tools.listTools({ pageSize: 200 })).tools.map((t) => t.id), staleTime: 60_000 });
  const trial = useMutation({
    mutationFn: () =>
      calls.tryRules({
        rules: edited ? draft : undefined,
        subject: {
          case: "call",
          value: {
            spec: { tool: form.tool.trim(), arguments: form.text, run: { runId: "try", mode: form.unattended ? RunMode.UNATTENDED : RunMode.ATTENDED } },
            caller: form.caller.trim(), permissionMode: form.mode.trim(),
          },
        },
      }),
  });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    trial.mutate();
  };
  const r = trial.data;
  return (
    <>
      <section className="sec">
        <header>
          <h2>Try a call</h2>
          <span className="t3">nothing runs</span>
        </header>
        <form className="trial" onSubmit={submit}>
          <div className="field">
            <label htmlFor="try-tool">Tool</label>
            <input {...field("tool")} list="try-tools" required maxLength={64} autoComplete="off" />
            <datalist id="try-tools">{list.data?.map((id) => <option key={id} value={id} />)}</datalist>
          </div>
          <div className="field">
            <label htmlFor="try-text">Arguments, as JSON</label>
            <textarea {...field("text")} rows={4} spellCheck={false} />
          </div>
          <div className="row2">
            <div className="field">
              <label htmlFor="try-caller">Caller</label>
              <input {...field("caller")} placeholder={oneLine(me.principal?.subject ?? "", 60)} maxLength={128} />
            </div>
            <div className="field">
              <label htmlFor="try-mode">Permission mode</label>
              <input {...field("mode")} placeholder="default" maxLength={128} list="try-modes" />
              <datalist id="try-modes">{["default", "plan", "accept_edits", "bypass"].map((m) => <option key={m} value={m} />)}</datalist>
            </div>
          </div>
          <label className="rowx">
            <input type="checkbox" checked={form.unattended} onChange={(e) => set({ ...form, unattended: e.target.checked })} /> In an unattended run
          </label>
          <div className="rowx">
            <button className="btn go" disabled={trial.isPending}>Judge the call</button>
            <span className="t2">{edited ? <>by the rules in force and by <Link href="/policy/replay">your edit</Link></> : "by the rules in force"}</span>
          </div>
        </form>
      </section>
      {trial.error && <Failure error={trial.error} what="The call was not judged." again={() => trial.mutate()} />}
      <div role="status" className="stack">
        {r?.error && <Note tone="fail" icon="fail">Your edit is no rule file: line {r.error.line}, column {r.error.column}: <Text>{r.error.message}</Text></Note>}
        {r?.callError && <Note tone="fail" icon="fail"><Text>{r.callError}</Text></Note>}
        {r?.inForce && <Decision ruling={r.inForce} title="By the rules in force" />}
        {r?.tried && edited && <Decision ruling={r.tried} title="By your edit" />}
      </div>
    </>
  );
}

function Decision({ ruling: r, title }: { ruling: Ruling; title: string }) {
  const d = r.decision!;
  return (
    <section className="sec">
      <header>
        <h2>{title}</h2>
        <Action action={d.action} />
        <span className="t2">{means[d.outcome] ?? ""}</span>
        {r.hidden && <Tag tone="fail">the tool is hidden: a call finds no tool</Tag>}
      </header>
      <div className="ruling">
        <p><Text>{r.why}</Text></p>
        <dl className="facts">
          {([
            ["Rule", d.rule && `${d.rule}${d.line ? `, line ${d.line}` : ""}`], ["Pattern", r.pattern], ["Layer", r.layer], ["Mode", r.mode], ["Command", r.command],
            ["Approvers", r.count > 0 ? [...r.approverRoles, ...r.approverGroups.map((g) => `group ${g}`)].join(", ") + (r.count > 1 ? `, ${r.count} people` : "") + (r.fourEyes ? ", not the caller" : "") : ""],
          ] as const).filter(([, v]) => v).map(([name, value]) => (
            <div key={name} className="contents">
              <dt>{name}</dt>
              <dd><Text most={500}>{value as string}</Text></dd>
            </div>
          ))}
        </dl>
      </div>
      {r.tried.length > 0 && (
        <details>
          <summary>{r.tried.length} {r.tried.length === 1 ? "rule names" : "rules name"} this tool</summary>
          <div className="box">
            <table className="t chg">
              <thead>
                <tr>
                  <th className="c4">Action</th>
                  <th>Rule</th>
                  <th className="c2">For this call</th>
                </tr>
              </thead>
              <tbody>
                {r.tried.slice(0, 50).map((t, i) => (
                  <tr key={i}>
                    <td className="c4"><Action action={t.action} /></td>
                    <td title={oneLine(t.pattern)}>{visible(oneLine(t.rule, 100))} <code className="t2">{visible(oneLine([t.pattern, t.command].filter(Boolean).join(" · ")))}</code></td>
                    <td className="c2">{t.holds ? <b>matches</b> : <span className="t3">{t.whyNot}</span>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </section>
  );
}
