/** Edits the arguments: a form, the changes, and how the rules would judge the edited call. */
import { ConnectError } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { VerdictAction, type Verdict } from "../../../gen/toold/v1/call_pb.ts";
import type { DescribeCallResponse } from "../../../gen/toold/v1/call_service_pb.ts";
import { calls } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { useKeys } from "../../keys.ts";
import type { Vote } from "../../../gen/toold/v1/suspension_pb.ts";
import { Diff } from "../../parts/Diff.tsx";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { Note } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { violations } from "./errors.ts";
import { Form, RawJson } from "./Form.tsx";
import { print, tryParse, type Json } from "./json.ts";
import { check, shapeOf } from "./schema.ts";

/** Asks the daemon how it would judge a call if the viewer approved it with these arguments. */
export function useJudged(suspensionId: string, args: string, on: boolean) {
  const [settled, settle] = useState(args);
  useEffect(() => {
    const t = setTimeout(() => settle(args), 300);
    return () => clearTimeout(t);
  }, [args]);
  return useQuery({ queryKey: ["judged", suspensionId, settled], queryFn: () => calls.describeCall({ suspensionId, arguments: settled }), enabled: on && settled === args, retry: false, staleTime: Infinity });
}

interface Props {
  suspensionId: string;
  schema: Json | undefined;
  before: string;
  value: Json | undefined;
  set: (v: Json | undefined) => void;
  close: () => void;
  digest: string;
  /** Number of people who must agree. */
  votes: number;
}

export function Edit({ suspensionId, schema, before, value, set, close, digest, votes }: Props) {
  const was = useMemo(() => tryParse(before), [before]);
  const form = schema !== undefined && shapeOf(schema).kind === "object";
  const [raw, setRaw] = useState(!form);
  const found = value !== undefined && schema !== undefined ? check(schema, value, true) : new Map<string, string>();
  const text = value === undefined ? "" : print(value);
  const { data, error, isFetching } = useJudged(suspensionId, text, found.size === 0 && text !== "");
  const refused = error ? violations(error, "decision.arguments") : new Map<string, string>();
  useKeys({ escape: close });
  return (
    <section className="sec edit" aria-label="Edit arguments">
      <header>
        <h2>Edit arguments</h2>
        <span className="seg" role="group" aria-label="How the arguments are edited">
          {form && <button aria-pressed={!raw} onClick={() => setRaw(false)}>Form</button>}
          <button aria-pressed={raw} onClick={() => setRaw(true)}>JSON</button>
        </span>
        <button className="btn bare sm right" onClick={close}>Discard <kbd>e</kbd></button>
      </header>
      <div className="cols2">
        {raw || !form ? <div className="field"><span className="lab">Arguments</span><RawJson label="Arguments" value={value} set={set} /></div> : <Form schema={schema} value={value} set={set} errors={found.size ? found : refused} before={was} />}
        <div className="stack">
          <div className="sec" aria-live="polite">
            <h3>How it would be judged now</h3>
            {value === undefined || found.size > 0 ? (
              <p className="t2">{value === undefined ? "There are no arguments to judge yet." : `${found.size === 1 ? "One field is" : `${found.size} fields are`} not right yet.`}</p>
            ) : error ? (
              <Note tone="fail" icon="fail">{refused.size ? [...refused].map(([f, t]) => <p key={f}><code>{oneLine(f, 100) || "arguments"}</code> <Text most={300}>{t}</Text></p>) : <Text most={500}>{error instanceof ConnectError ? toFailure(error).message : String(error)}</Text>}</Note>
            ) : data ? (
              <Judged d={data} stale={isFetching} votes={votes} />
            ) : (
              <p className="t3">Asking the gates</p>
            )}
          </div>
          {data?.valid && !error && (
            <Note tone="run">
              {data.digest === digest ? "Nothing is changed yet: these are the arguments that were asked about." : <>Your yes would count for the edited call, digest <code>{data.digest.slice(0, 8)}…{data.digest.slice(-4)}</code>. The record keeps what was requested, too.</>}
            </Note>
          )}
        </div>
      </div>
    </section>
  );
}

/** Shows the arguments that another person voted for, beside the arguments of the question. A vote for them sends exactly the same text. */
export function Agree({ suspensionId, before, vote, close, votes }: { suspensionId: string; before: string; vote: Vote; close: () => void; votes: number }) {
  const { data, error, isFetching } = useJudged(suspensionId, vote.arguments, true);
  useKeys({ escape: close });
  return (
    <section className="sec edit" aria-label="Arguments that somebody voted for">
      <header>
        <h2>What <Text most={128}>{vote.voter?.subject ?? ""}</Text> votes for</h2>
        <button className="btn bare sm right" onClick={close}>Discard <kbd>esc</kbd></button>
      </header>
      <Diff name="arguments" parts={[{ title: "the question, and the vote", before: lines(before), after: lines(vote.arguments) }]} />
      <h3>How it would be judged now</h3>
      {error ? <Note tone="fail" icon="fail"><Text most={500}>{error instanceof ConnectError ? toFailure(error).message : String(error)}</Text></Note> : data ? <Judged d={data} stale={isFetching} votes={votes} /> : <p className="t3">Asking the gates</p>}
    </section>
  );
}

/** Writes JSON text with one line for each value. */
const lines = (text: string) => {
  const v = tryParse(text);
  return v === undefined ? text : print(v, 2);
};

const says: Partial<Record<VerdictAction, { tone: string; icon: IconName; word: string }>> = {
  [VerdictAction.ALLOW]: { tone: "ok", icon: "ok", word: "allows" },
  [VerdictAction.BLOCK]: { tone: "fail", icon: "deny", word: "blocks the run" },
  [VerdictAction.SUSPEND]: { tone: "wait", icon: "wait", word: "asks" },
  [VerdictAction.SET_RESULT]: { tone: "", icon: "info", word: "answers itself; the tool does not run" },
  [VerdictAction.FAILED]: { tone: "fail", icon: "warn", word: "failed, which refuses the call" },
  [VerdictAction.DENY]: { tone: "fail", icon: "deny", word: "denies" },
};

export function Verdicts({ list }: { list: Verdict[] }) {
  if (list.length === 0) return <p className="t2">No gate is asked about it.</p>;
  return (
    <ol className="verd">
      {list.map((v, i) => {
        const s = says[v.action];
        return (
          <li key={i}>
            <Icon name={s?.icon ?? "unknown"} small className={s?.tone} />
            <span className="cut" title={oneLine(v.gate)}>{oneLine(v.gate, 64)}</span>
            <span className="t2">{s?.word ?? "says something unknown"}{v.answered && ", answered by your yes"}</span>
            <span className="t2">{v.reason && <Text most={500}>{v.reason}</Text>}</span>
          </li>
        );
      })}
    </ol>
  );
}

function Judged({ d, stale, votes }: { d: DescribeCallResponse; stale: boolean; votes: number }) {
  if (!d.valid) return <Note tone="fail" icon="fail"><Text most={500}>{d.error?.message ?? "The call would be refused."}</Text></Note>;
  return (
    <div className={`stack tight ${stale ? "t3" : ""}`}>
      <Verdicts list={d.verdicts} />
      <p className="b">{d.outcome === VerdictAction.ALLOW ? "With your yes it runs." : d.outcome !== VerdictAction.SUSPEND ? "It would not run, even with your yes." : votes > 1 ? `Your yes is one vote for these arguments; ${votes} are needed.` : "With your yes, somebody is asked again."}</p>
      {d.description && d.description.notes.length > 0 && <ul className="notes">{d.description.notes.map((n, i) => <li key={i} className="t2"><Icon name="info" small /> <span><Text most={500}>{n}</Text></span></li>)}</ul>}
    </div>
  );
}
