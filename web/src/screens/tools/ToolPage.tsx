/** The page of a tool: what it does, its arguments, its definitions, and a form to try it. */
import { useState } from "react";
import { Link } from "wouter";
import { IsolationLevel, NetworkMode } from "../../../gen/toold/v1/isolation_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import type { Source } from "../../../gen/toold/v1/source_pb.ts";
import { type Descriptor, OnDoubt } from "../../../gen/toold/v1/tool_service_pb.ts";
import { useSession } from "../../api/session.tsx";
import { indent } from "../../parts/json.ts";
import { fieldsOf, limitsOf, parseSchema, typeWord } from "../../parts/SchemaForm.tsx";
import { Copy, Note, Tag } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { span } from "../../parts/Time.tsx";
import { History } from "./History.tsx";
import { effectsOf, short, sourceState, tierWord, useToolCalls } from "./model.ts";
import { TryIt } from "./TryIt.tsx";

export function ToolPage({ tool: d, tab, source, lost }: { tool: Descriptor; tab?: string; source?: Source; lost: boolean }) {
  const { has } = useSession();
  const state = sourceState(source);
  const calls = useToolCalls();
  const use = calls.data?.of.get(d.id);
  const ended = use ? use.calls - use.denied : 0;
  return (
    <article className="ticket" aria-label={d.id}>
      <div className="in">
        <header className="th">
          <h1 tabIndex={-1}><code className="b20"><Text most={64}>{d.id}</Text></code> {d.displayName && d.displayName !== d.id && <span className="t2"><Text most={100}>{d.displayName}</Text></span>}</h1>
          {calls.data && (calls.data.counted > 0 || has(Role.VIEWER, Role.OPERATOR)) && (
            <p className="due">
              <b className="num">{calls.data.counted === 0 ? "No calls" : use ? <Link href={`/calls?tool=${encodeURIComponent(d.id)}&since=all`}>{use.calls.toLocaleString("en")}</Link> : 0}</b>
              <span>{calls.data.counted === 0 ? "yet" : <>of the last {calls.data.counted.toLocaleString("en")} calls</>}{use && ended > 0 ? `, ${((100 * use.failed) / ended).toFixed(1)} % failed` : ""}{use?.denied ? `, ${use.denied.toLocaleString("en")} denied` : ""}</span>
            </p>
          )}
          <p className="sub">
            {effectsOf(d).map((e) => <Tag key={e.word} tone={e.tone} icon={e.icon}>{e.word}</Tag>)}
            <Tag>Tier: {tierWord(d.effects?.tier)}</Tag>
            {d.idempotent && <Tag tone="line">Idempotent</Tag>}
            <span><Text most={100}>{d.source}</Text>{d.version && <> · version <Text most={64}>{d.version}</Text></>} · digest <code title={d.digest}>{short(d.digest)}</code></span>
          </p>
        </header>
        {state && <Note tone={state.tone === "fail" ? "fail" : "wait"} icon="warn">The source <Text most={100}>{d.source}</Text> is {state.word}: calls of this tool end with UPSTREAM until it is back.{source?.error && <> <Text most={300}>{source.error}</Text></>}</Note>}
        <p className="t2 desc"><Text most={4000}>{d.description || "It has no description."}</Text></p>
        {tab === "definitions" ? (
          <History tool={d.id} full />
        ) : (
          <div className="cols2">
            <div className="stack">
              <Arguments d={d} />
              {d.guidance && <section className="sec"><h2>Guidance for models</h2><p className="t2 desc"><Text most={4000}>{d.guidance}</Text></p></section>}
              <Facts d={d} />
              {has(Role.APPROVER, Role.VIEWER, Role.OPERATOR, Role.ADMIN) && <History tool={d.id} />}
            </div>
            <TryIt tool={d} lost={lost} />
          </div>
        )}
      </div>
    </article>
  );
}

function Arguments({ d }: { d: Descriptor }) {
  const schema = parseSchema(d.parameters), fields = fieldsOf(schema);
  const [raw, setRaw] = useState(!fields);
  return (
    <section className="sec">
      <header>
        <h2>Arguments</h2>
        <span className="seg right" role="group" aria-label="View of the arguments">
          <button aria-pressed={!raw} disabled={!fields} onClick={() => setRaw(false)}>Table</button>
          <button aria-pressed={raw} onClick={() => setRaw(true)}>Schema</button>
        </span>
      </header>
      {raw ? (
        <>
          <div className="code"><pre><Text most={8000}>{indent(d.parameters)}</Text></pre></div>
          {d.resultSchema && <><h3>Result</h3><div className="code"><pre><Text most={8000}>{indent(d.resultSchema)}</Text></pre></div></>}
          <span><Copy text={d.parameters} label="Copy the schema" /></span>
        </>
      ) : fields?.length === 0 ? <p className="t3">It takes none.</p> : (
        <div className="box">
          <table className="t">
            <thead><tr><th>Argument</th><th className="fit">Type</th><th>Meaning</th></tr></thead>
            <tbody>
              {fields!.map((f) => (
                <tr key={f.name}>
                  <td className="wrap name"><code className="b"><Text most={100}>{f.name}</Text></code> {f.required && <span className="t3">required</span>}</td>
                  <td className="fit wrap t2">{typeWord(f.schema)}</td>
                  <td className="wrap t2"><Meaning schema={f.schema} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const sentence = (s: string) => s.slice(0, 1).toUpperCase() + s.slice(1) + ".";

function Meaning({ schema: s }: { schema: NonNullable<ReturnType<typeof parseSchema>> }) {
  const limits = limitsOf(s);
  return (
    <>
      {s.description && <><Text most={300}>{String(s.description)}</Text> </>}
      {Array.isArray(s.enum) && <>One of {s.enum.slice(0, 12).map((v, i) => <span key={i}>{i > 0 && ", "}<code>{oneLine(typeof v === "string" ? v : JSON.stringify(v), 40)}</code></span>)}{s.enum.length > 12 && ` and ${s.enum.length - 12} more`}. </>}
      {limits.length > 0 && `${sentence(limits.join(", "))} `}
      {s.default !== undefined && <>Default <code>{oneLine(typeof s.default === "string" ? s.default : JSON.stringify(s.default), 60)}</code></>}
    </>
  );
}

const networks: Record<NetworkMode, string> = { [NetworkMode.UNSPECIFIED]: "", [NetworkMode.NONE]: "no network", [NetworkMode.PROXY]: "network by the proxy", [NetworkMode.OPEN]: "open network" };

function Facts({ d }: { d: Descriptor }) {
  const seconds = (t?: { seconds: bigint; nanos: number }) => (t ? span(Number(t.seconds) * 1000 + t.nanos / 1e6) : "");
  const bytes = (n: number) => (n >= 1 << 20 ? `${+(n / (1 << 20)).toFixed(1)} MiB` : n >= 1 << 10 ? `${+(n / (1 << 10)).toFixed(1)} KiB` : `${n} bytes`);
  const facts: [string, string][] = [
    ["Aliases", d.aliases.join(", ")], ["Category", d.category],
    ["Limits", [d.maxArguments && `arguments ${bytes(d.maxArguments)}`, d.outputBudget && `output ${bytes(d.outputBudget)} inline`].filter(Boolean).join(", ")],
    ["Timeouts", [d.timeouts?.queue && `queue ${seconds(d.timeouts.queue)}`, d.timeouts?.attempt && `attempt ${seconds(d.timeouts.attempt)}`].filter(Boolean).join(", ")],
    ["Isolation", [d.requiredIsolation === IsolationLevel.FULL ? "full" : d.requiredIsolation === IsolationLevel.NONE ? "none" : "", networks[d.requiredNetwork] ?? ""].filter(Boolean).join(", ")],
    ["Secrets", d.requiredSecrets.join(", ")], ["In doubt", d.onDoubt === OnDoubt.ASK ? "asks a person" : d.onDoubt === OnDoubt.FAIL && !d.idempotent ? "fails" : ""],
    ...Object.entries(d.annotations).map(([k, v]): [string, string] => [oneLine(k, 40), v]),
  ];
  return (
    <dl className="facts">
      {facts.filter(([, v]) => v).map(([k, v]) => <div key={k} style={{ display: "contents" }}><dt>{k}</dt><dd><Text most={300}>{v}</Text></dd></div>)}
      <dt>Digest</dt><dd><code>{d.digest}</code></dd>
    </dl>
  );
}
