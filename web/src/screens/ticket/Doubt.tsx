/** The ticket of a call in doubt, of which it is not known whether it ran: the known facts, and the three answers. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { Executed, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { DecisionAction } from "../../../gen/toold/v1/suspension_pb.ts";
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { calls } from "../../api/clients.ts";
import { hasReason } from "../../api/errors.ts";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { Copy, Note } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { clock, exact } from "../../parts/Time.tsx";
import { Form, RawJson } from "./Form.tsx";
import { isObject, type Json, tryParse } from "./json.ts";
import { shapeOf } from "./schema.ts";

export interface DoubtAnswer {
  outcome: "happened" | "run_again" | "give_up" | "";
  data?: Json;
  /** True while the entered data is not JSON. `data` is then undefined. */
  wrong?: boolean;
  message: string;
}

const answers = [
  { outcome: "happened", title: "It happened", about: "The call succeeds with what you enter; the tool does not run." },
  { outcome: "run_again", title: "Run it again", about: "If it did happen, it happens twice. The tool gets the same idempotency key, which not every tool heeds." },
  { outcome: "give_up", title: "Nobody can tell", about: "The call fails with IN_DOUBT, and nothing runs again. The model reads that nobody knows whether it happened." },
] as const;

const At = ({ t }: { t?: Timestamp }) => <span className="off num" title={t && exact(timestampDate(t))}>{t && clock(timestampDate(t))}</span>;

function Step({ t, icon, tone = "", children }: { t?: Timestamp; icon: IconName; tone?: string; children: React.ReactNode }) {
  return <li><At t={t} /><Icon name={icon} small className={tone} /><span>{children}</span></li>;
}

export function Known({ call }: { call: Call }) {
  const s = call.suspension!, about = tryParse(s.parameters), last = call.attempts.at(-1);
  const said = isObject(about) && typeof about.tool_answer === "string" ? about.tool_answer : "";
  const asked = isObject(about) ? about.tool_asked === true : false, key = isObject(about) && typeof about.idempotency_key === "string" ? about.idempotency_key : "";
  return (
    <>
      <section className="sec">
        <header><h2>What is known</h2></header>
        <ol className="tl">
          {call.decisions.filter((d) => d.action === DecisionAction.RESUME).map((d) => <Step key={d.decisionId} t={d.time} icon="ok" tone="ok">Approved by <Text most={128}>{d.decidedBy?.subject ?? ""}</Text></Step>)}
          {last && <Step t={last.startedAt} icon="run">Attempt {last.attempt} started; the intent is on disk</Step>}
          <li className="break"><span className="off" /><Icon name="x" small /><span className="txt">The daemon stopped before it recorded an end{last && ` (epoch ${last.epoch})`}. It is not known whether the tool had finished.</span></li>
          <Step t={s.createdAt} icon="doubt" tone="doubt">{asked ? <>Asked the tool: it cannot tell{said && <span className="d"> <Text most={300}>{said}</Text></span>}</> : "The tool was not asked what became of it"}</Step>
        </ol>
      </section>
      <LastOutput call={call} />
      <Note icon="out">
        <div className="rowx">
          <span className="grow">Where to look: at what the arguments name, and at the <Link href={`/calls/${encodeURIComponent(call.callId)}`}>output of the call</Link>. {key && <>Idempotency key <code>{key.slice(0, 16)}…</code></>} {call.executed === Executed.UNKNOWN && "Executed: unknown."}</span>
          {key && <Copy text={key} label="Copy the key" />}
        </div>
      </Note>
    </>
  );
}

/** Lines of each stream, and characters of them that are shown. */
const lastLines = 20, lastCharacters = 4000;

/** Shows the last output of the attempt, which may say how far the attempt got. */
function LastOutput({ call }: { call: Call }) {
  const { data: streams = [] } = useQuery({
    queryKey: ["last output", call.callId, call.attempts.length],
    queryFn: async () => {
      const all = await Promise.all(["stdout", "stderr", "pty"].map(async (name) => ({ name, text: await lastOf(call.callId, name) })));
      return all.filter((s) => s.text);
    },
  });
  return streams.map(({ name, text }) => (
    <section key={name} className="sec">
      <header><h2>Last output</h2><span className="t3">{name}</span></header>
      <div className="code"><pre tabIndex={0} aria-label={`Last output on ${name}`}>{text.length > lastCharacters && "… "}<Text most={lastCharacters}>{text.slice(-lastCharacters)}</Text></pre></div>
    </section>
  ));
}

async function lastOf(callId: string, name: string): Promise<string> {
  try {
    const { data } = await calls.readArtifact({ callId, name, lines: { first: BigInt(-lastLines), count: BigInt(lastLines) }, limit: BigInt(512 << 10) });
    return new TextDecoder().decode(data);
  } catch (e) {
    if (hasReason(e, "ARTIFACT_NOT_FOUND")) return "";
    throw e;
  }
}

export function DoubtForm({ answer, set, schema, errors }: { answer: DoubtAnswer; set: (a: DoubtAnswer) => void; schema: Json | undefined; errors: ReadonlyMap<string, string> }) {
  const form = schema !== undefined && shapeOf(schema).kind === "object";
  return (
    <fieldset className="opts">
      <legend className="b sr">Your answer</legend>
      {answers.map((a, i) => (
        <div key={a.outcome} className="stack tight">
          <label className="opt">
            <input type="radio" name="outcome" checked={answer.outcome === a.outcome} onChange={() => set({ ...answer, outcome: a.outcome, wrong: false })} />
            <span className="b">{a.title}</span>
            <kbd>{i + 1}</kbd>
            <span className="d">{a.about}</span>
          </label>
          {a.outcome === "happened" && answer.outcome === "happened" && (
            <div className="cols2 below">
              <div className="field"><span className="lab">data <span className="t3">{form ? "by the result schema" : "JSON, may be left out"}</span></span>{form ? <Form schema={schema!} value={answer.data} set={(data) => set({ ...answer, data })} errors={errors} /> : <RawJson label="data" value={answer.data} set={(data, wrong) => set({ ...answer, data, wrong })} />}</div>
              <div className="field"><label htmlFor="doubt-message">message <span className="t3">the model reads it</span></label><textarea id="doubt-message" className="inp" rows={2} maxLength={4000} value={answer.message} onChange={(e) => set({ ...answer, message: e.target.value })} /></div>
            </div>
          )}
        </div>
      ))}
    </fieldset>
  );
}
