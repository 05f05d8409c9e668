/** Tries a tool: a form, a description of what the call would do, and the call itself. */
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { Mutability, Safety } from "../../../gen/toold/v1/assessment_pb.ts";
import { VerdictAction, type Verdict } from "../../../gen/toold/v1/call_pb.ts";
import type { DescribeCallResponse } from "../../../gen/toold/v1/call_service_pb.ts";
import { IsolationLevel, NetworkMode } from "../../../gen/toold/v1/isolation_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { ErrorCode } from "../../../gen/toold/v1/result_pb.ts";
import type { Descriptor } from "../../../gen/toold/v1/tool_service_pb.ts";
import { calls } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { fieldsOf, JSONText, parseSchema, SchemaForm } from "../../parts/SchemaForm.tsx";
import { indent, isJSON } from "../../parts/json.ts";
import { Failure, Note, Tag } from "../../parts/small.tsx";
import { Status } from "../../parts/Status.tsx";
import { Text } from "../../parts/Text.tsx";
import { span, Time } from "../../parts/Time.tsx";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { effectsOf } from "./model.ts";

interface Described {
  arguments: string;
  response: DescribeCallResponse;
  took: number;
  at: ReturnType<typeof timestampNow>;
}

export function TryIt({ tool, lost }: { tool: Descriptor; lost: boolean }) {
  const { has } = useSession();
  const schema = parseSchema(tool.parameters), form = fieldsOf(schema) !== undefined;
  const [text, setText] = useState("{}");
  const [json, setJSON] = useState(!form);
  const describe = useMutation({
    mutationFn: async (args: string): Promise<Described> => {
      const began = performance.now();
      const response = await calls.describeCall({ spec: { tool: tool.id, arguments: args } });
      return { arguments: args, response, took: performance.now() - began, at: timestampNow() };
    },
  });
  // The id is created before the call is sent, so that a repeated request finds the same call.
  const run = useMutation({ mutationFn: async (args: string) => (await calls.callTool({ spec: { tool: tool.id, arguments: args, callId: crypto.randomUUID(), lingerNever: true }, wait: { seconds: 2n, nanos: 0 } })).call! });
  if (!has(Role.CALLER, Role.DELEGATE)) return <section className="sec"><h2>Try it</h2><Note icon="info">Describing and running a tool needs the role caller, which you do not have.</Note></section>;
  const now = describe.data && describe.data.arguments === text ? describe.data : undefined;
  const errors = new Map(now?.response.error?.fieldViolations.map((v) => [/^[^.[]*/.exec(v.field)![0], `${v.field.replace(/^[^.[]*/, "")} ${v.description}`.trim()]));
  const ready = now?.response.valid && !run.isPending && !lost;
  const change = (next: string) => {
    setText(next);
    run.reset();
  };
  return (
    <div className="stack">
      <section className="sec">
        <header>
          <h2>Try it</h2>
          <span className="seg right" role="group" aria-label="View of the form">
            <button aria-pressed={!json} disabled={!form} onClick={() => setJSON(false)}>Form</button>
            <button aria-pressed={json} onClick={() => (setJSON(true), setText(indent(text)))}>JSON</button>
          </span>
        </header>
        <form
          className="stack"
          onSubmit={(e) => {
            e.preventDefault();
            describe.mutate(text);
          }}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || !e.shiftKey) return;
            e.preventDefault();
            if (ready && !e.repeat) run.mutate(text); // a held key runs the tool only once
          }}
        >
          {json ? <JSONText label="Arguments" value={text} onChange={change} error={errors.size ? [...errors].map(([f, t]) => `${f} ${t}`).join("; ") : undefined} /> : <SchemaForm schema={schema!} value={text} onChange={change} errors={errors} />}
          <div className="rowx">
            <button className="btn go" disabled={describe.isPending || lost || !isJSON(text)}>Describe <kbd>enter</kbd></button>
            <button className={`btn ${now?.response.assessment?.safety === Safety.DESTRUCTIVE ? "bad" : ""}`} type="button" disabled={!ready} onClick={() => run.mutate(text)}>Run <kbd>shift</kbd> <kbd>enter</kbd></button>
            <span className="t3">{now ? (ready ? "Run starts exactly what is described." : "") : "Describe runs nothing. Run comes after it."}</span>
          </div>
        </form>
      </section>
      {describe.error && <Failure error={describe.error} what="The call was not described, and nothing ran." again={() => describe.mutate(text)} />}
      {run.error && <Failure error={run.error} what="It is not known whether the call started. The list of calls shows it if it did." />}
      {run.data && (
        <section className="sec" aria-label="The call">
          <h2>The call</h2>
          <div className="box res"><div className="rowx"><Status call={run.data} /><Link className="right" href={`/calls/${run.data.callId}`}>Open the call</Link></div>{run.data.result && <pre><Text most={2000}>{run.data.result.modelText || run.data.result.data}</Text></pre>}</div>
        </section>
      )}
      {describe.data && <WouldHappen described={describe.data} current={now !== undefined} tool={tool} />}
    </div>
  );
}

interface Said {
  icon: IconName;
  tone: "ok" | "wait" | "fail" | "run";
  word: string;
  outcome: string;
}

const said: Record<VerdictAction, Said> = {
  [VerdictAction.UNSPECIFIED]: { icon: "unknown", tone: "wait", word: "does not say", outcome: "It is not known what would happen" },
  [VerdictAction.ALLOW]: { icon: "ok", tone: "ok", word: "allows", outcome: "It would run" },
  [VerdictAction.SUSPEND]: { icon: "wait", tone: "wait", word: "asks", outcome: "It would ask somebody" },
  [VerdictAction.BLOCK]: { icon: "deny", tone: "fail", word: "refuses", outcome: "It would be refused, and its run blocked" },
  [VerdictAction.DENY]: { icon: "deny", tone: "fail", word: "refuses", outcome: "It would be refused" },
  [VerdictAction.FAILED]: { icon: "fail", tone: "fail", word: "failed", outcome: "It would be refused, because a gate failed" },
  [VerdictAction.SET_RESULT]: { icon: "ok", tone: "run", word: "answers", outcome: "A gate would answer in its place" },
};
const sayOf = (a: VerdictAction) => said[a] ?? said[VerdictAction.UNSPECIFIED];

function WouldHappen({ described: { response: r, took, at, arguments: sent }, current, tool }: { described: Described; current: boolean; tool: Descriptor }) {
  const outcome = sayOf(r.outcome), d = r.description;
  return (
    <section className="sec" aria-label="What would happen">
      <header><h2>What would happen</h2><span className="t3">described <Time at={at} />, {span(took)}</span></header>
      {!current && <Note tone="wait" icon="warn">The arguments have changed since. Describe again.</Note>}
      {!r.valid ? (
        <Note tone="fail" icon="fail">It would not start: <code>{ErrorCode[r.error?.code ?? 0]}</code> <Text>{r.error?.message ?? ""}</Text>{r.error?.fieldViolations.map((v, i) => <div key={i}><code><Text most={100}>{v.field || "arguments"}</Text></code> <Text most={300}>{v.description}</Text></div>)}</Note>
      ) : (
        <div className="box res">
          <div className="rowx">
            <span className={`st ${outcome.tone} b`}><Icon name={outcome.icon} small className={outcome.tone} />{outcome.outcome}</span>
            {effectsOf({ ...tool, effects: r.assessment, requiredNetwork: r.isolation?.network ?? tool.requiredNetwork }).map((e) => <Tag key={e.word} tone={e.tone} icon={e.icon}>{e.word}</Tag>)}
            {r.assessment?.mutability === Mutability.READ_ONLY && r.assessment.safety === Safety.READ_ONLY && tool.effects?.mutability !== Mutability.READ_ONLY && <span className="t3">milder than the tool</span>}
          </div>
          <p><b><Text most={300}>{d?.title ?? ""}</Text></b></p>
          {d && d.locations.length > 0 && <p className="t2">Touches {d.locations.slice(0, 10).map((l, i) => <span key={i}>{i > 0 && ", "}<code><Text most={200}>{l.path}</Text></code></span>)}{d.locations.length > 10 && ` and ${d.locations.length - 10} more`}.</p>}
          {d?.notes.map((n, i) => <p key={i} className="t2"><Text most={300}>{n}</Text></p>)}
          {d?.preview.map((c, i) => c.text && <pre key={i}><Text most={4000}>{c.text}</Text></pre>)}
          {canonical(r.effectiveArguments) !== canonical(sent) && <div className="stack tight"><p className="t2">The arguments that would run differ from those that you sent, by defaults, rewrites or their canonical form:</p><pre><Text>{indent(r.effectiveArguments)}</Text></pre></div>}
          {r.verdicts.length > 0 && <ol className="verd">{r.verdicts.map((v, i) => <Gate key={i} verdict={v} />)}</ol>}
          <p className="t2"><Icon name="lock" small className="t3" /> {isolationText(r)}{tool.requiredSecrets.length > 0 && <> Gets {tool.requiredSecrets.length === 1 ? "1 secret" : `${tool.requiredSecrets.length} secrets`}: <code>{tool.requiredSecrets.join(", ")}</code>.</>}</p>
        </div>
      )}
    </section>
  );
}

/** Returns the text without white space between tokens. It does not change the order of members. */
const canonical = (text: string) => indent(text).replace(/\n\s*/g, "").replaceAll('": ', '":');

function Gate({ verdict: v }: { verdict: Verdict }) {
  const { icon, tone, word } = sayOf(v.action);
  return (
    <li>
      <Icon name={icon} small className={tone} />
      <span className="cut"><Text most={64}>{v.gate}</Text></span>
      <span className="t2">{word}{v.overruled && ", overruled"}</span>
      <span className="t2">{v.rule && <>rule “<Text most={64}>{v.rule}</Text>” </>}<Text most={300}>{v.reason}</Text></span>
    </li>
  );
}

function isolationText(r: DescribeCallResponse): string {
  const i = r.isolation;
  if (!i) return "It starts no process.";
  const level = i.required === IsolationLevel.FULL ? "full" : i.required === IsolationLevel.NONE ? "none" : "not said";
  const network = { [NetworkMode.UNSPECIFIED]: "network not said", [NetworkMode.NONE]: "no network", [NetworkMode.PROXY]: "network by the proxy", [NetworkMode.OPEN]: "open network" }[i.network] ?? "network not said";
  const missing = i.facts.filter((f) => !f.held).map((f) => f.name);
  return `Isolation ${level}; ${network}.${i.facts.length === 0 ? " It starts no process." : ""}${missing.length ? ` Not held here: ${missing.join(", ")}.` : ""}`;
}
