/** Edits a copy of the rules, and replays the last calls with the copy. The console does not write the file. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { Link } from "wouter";
import type { GetPolicyResponse, Replay as Result, RuleProblem } from "../../../gen/toold/v1/policy_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin, calls } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { say, toast } from "../../parts/say.ts";
import { Copy, Failure, Note, Skeleton, Tag } from "../../parts/small.tsx";
import { oneLine, Text, visible } from "../../parts/Text.tsx";
import { clock, exact } from "../../parts/Time.tsx";
import { Editor, type Place } from "./Editor.tsx";
import { beginning, changesOf, count, linesChanged, moved, outcomes, useDraft, type Change } from "./rules.ts";

const pause = 500; // milliseconds without typing before a replay begins
const maxGroups = 30; // maximum number of rows of a table

export default function Replay({ policy }: { policy: GetPolicyResponse }) {
  const [draft, setDraft] = useDraft();
  const start = beginning(policy);
  const text = draft ?? start;
  const settled = useSettled(text);
  const changed = linesChanged(start, text);
  const [at, goTo] = useState<Place>();
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ["replay", policy.version, settled],
    queryFn: async ({ signal }) => {
      const began = performance.now();
      const result = await calls.tryRules({ rules: settled, subject: { case: "lastCalls", value: 1000 } }, { signal });
      return { result, took: Math.round(performance.now() - began) };
    },
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  const problem = data?.result.error, warnings = data?.result.warnings ?? [];
  const marks = useMemo(() => [...(problem ? [problem] : []), ...warnings], [data]);
  useEffect(() => {
    const r = data?.result;
    if (r) say(r.error ? `Line ${r.error.line} is wrong.` : `${r.replay?.changed.length ?? 0} calls would change.`);
  }, [data]);
  return (
    <>
      <section className="sec">
        <header>
          <h2>Edit</h2>
          {changed > 0 && <Tag tone="run" icon="edit">{changed} {changed === 1 ? "line" : "lines"} changed</Tag>}
          {changed > 0 && (
            <span className="right">
              <button className="btn bare sm" onClick={() => setDraft(undefined)}>Discard the edit</button>
            </span>
          )}
        </header>
        {policy.text === undefined && policy.file !== "" && <Note>The file also has rules of other namespaces, so its text is not shown here. Paste a text to try it.</Note>}
        <Editor value={text} onChange={setDraft} label="Rules, as YAML" marks={marks} at={at} />
        {problem && <Problem problem={problem} wrong goTo={goTo} />}
        {warnings.slice(0, 10).map((w, i) => <Problem key={i} problem={w} goTo={goTo} />)}
      </section>
      {error ? (
        <Failure error={error} what="The calls were not replayed. Nothing was changed." again={() => void refetch()} />
      ) : !data ? (
        <Skeleton />
      ) : problem ? (
        <p className="t2">The text is no rule file, so no call was replayed.</p>
      ) : (
        data.result.replay && <Outcome replay={data.result.replay} took={data.took} busy={isFetching || settled !== text} unchanged={changed === 0} />
      )}
      <Take policy={policy} text={text} broken={problem !== undefined} />
    </>
  );
}

function useSettled(text: string): string {
  const [settled, set] = useState(text);
  useEffect(() => {
    const t = setTimeout(() => set(text), pause);
    return () => clearTimeout(t);
  }, [text]);
  return settled;
}

function Problem({ problem, wrong, goTo }: { problem: RuleProblem; wrong?: boolean; goTo: (p: Place) => void }) {
  return (
    <Note tone={wrong ? "fail" : "wait"} icon={wrong ? "fail" : "warn"}>
      <button className="btn bare sm" onClick={() => goTo({ line: problem.line, column: problem.column })}>
        Line {problem.line}, column {problem.column}
      </button>{" "}
      <Text>{problem.message}</Text>
    </Note>
  );
}

function Outcome({ replay: r, took, busy, unchanged }: { replay: Result; took: number; busy: boolean; unchanged: boolean }) {
  const since = r.since && timestampDate(r.since);
  const changes = useMemo(() => changesOf(r), [r]);
  return (
    <section className="sec" aria-busy={busy}>
      <header>
        <h2>Replay of the last {count(r.judged)} calls</h2>
        <span className="t3">
          {since && <>since <time dateTime={since.toISOString()} title={exact(since)}>{clock(since).slice(0, 5)}</time> · </>}
          {took} ms · nothing ran{busy && " · again …"}
        </span>
      </header>
      {!r.complete && <Note tone="wait" icon="warn">The time for a replay was over before all calls were judged.</Note>}
      <Matrix replay={r} />
      {changes.length === 0 && <p className="t2">{r.judged === 0 ? "There is no past call that rules could judge." : unchanged ? "The text is the one in force. Edit it to see which calls it would change." : "No call would have another outcome."}</p>}
      {changes.map((c) => <Changed key={c.key} change={c} />)}
      <p className="t3">
        Both sets of rules judge the stored arguments now, with the modes of today and without kept answers.
        {r.skipped > 0 && ` ${count(r.skipped)} calls were skipped: their arguments were invalid or purged, or their tool no longer exists.`}
      </p>
    </section>
  );
}

function Matrix({ replay: r }: { replay: Result }) {
  const shown = outcomes.map((_, i) => i).filter((i) => i < 3 || r.before?.blocked || r.after?.blocked);
  return (
    <div className="mxw" tabIndex={0} role="region" aria-label="Before and after, in numbers">
      <table className="mx">
        <thead>
          <tr>
            <td className="none0"><span className="sr">before, after</span></td>
            {shown.map((to) => <th key={to} scope="col">{outcomes[to].would}</th>)}
          </tr>
        </thead>
        <tbody>
          {shown.map((from) => (
            <tr key={from}>
              <th scope="row">{outcomes[from].was}</th>
              {shown.map((to) => {
                const n = moved(r, from, to);
                return <td key={to} className={from === to ? "same" : n > 0 ? "chg" : ""}>{count(n)}{from !== to && n > 0 && <span className="sr"> changed</span>}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Changed({ change: c }: { change: Change }) {
  const [all, show] = useState(false);
  const groups = all ? c.groups.slice(0, 200) : c.groups.slice(0, maxGroups);
  return (
    <>
      <p>
        <b>{count(c.count)} {c.count === 1 ? "call" : "calls"}: {c.heading.toLowerCase()}.</b>{" "}
        {c.yes + c.no > 0 && <span className="t2">People had said yes to {count(c.yes)} of them and no to {count(c.no)}.</span>}
      </p>
      <div className="box">
        <table className="t chg">
          <thead>
            <tr>
              <th>{c.heading}</th>
              <th className="m0 c2">Caller</th>
              <th className="r c3">Calls</th>
              <th className="c4">People said</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((g, i) => (
              <tr key={i} className={g.no > 0 && c.key.endsWith("-1") ? "warnrow" : ""}>
                <td title={oneLine(g.title)}>
                  <code className="t2">{visible(oneLine(g.tool, 64))}</code> <Link href={`/calls/${g.calls[0].callId}`}><code>{visible(oneLine(g.title))}</code></Link>
                </td>
                <td className="t2 m0 c2">{visible(oneLine(g.caller, 100))}</td>
                <td className="r num c3">{count(g.calls.length)}</td>
                <td className="c4">{said(g.yes, g.no)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {c.groups.length > groups.length && !all && <button className="btn sm" onClick={() => show(true)}>Show {count(Math.min(c.groups.length, 200) - groups.length)} more</button>}
    </>
  );
}

function said(yes: number, no: number) {
  if (yes + no === 0) return <span className="t3">nothing</span>;
  return <>{yes > 0 && `yes ${count(yes)}`}{yes > 0 && no > 0 && ", "}{no > 0 && <b>no {count(no)}</b>}</>;
}

/** Says how to make the edited rules active. */
function Take({ policy, text, broken }: { policy: GetPolicyResponse; text: string; broken: boolean }) {
  const { has } = useSession();
  const queries = useQueryClient();
  const [error, fail] = useState<unknown>();
  const save = () => {
    const at = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
    const a = document.createElement("a");
    a.href = at;
    a.download = policy.file.split("/").pop() || "rules.yaml";
    a.click();
    URL.revokeObjectURL(at);
  };
  const reload = async () => {
    fail(undefined);
    try {
      const done = await admin.reload({});
      toast(done.changed.includes("rules") ? "The daemon has the new rules." : "The rule file has not changed.");
      await queries.invalidateQueries({ queryKey: ["policy"] });
    } catch (e) {
      fail(e);
    }
  };
  return (
    <div className="stack tight">
      <div className="rowx">
        <Copy text={text} label="Copy the rules" />
        <button className="btn sm" onClick={save}>Download the rules</button>
        {has(Role.ADMIN) && <button className="btn sm" onClick={() => void reload()}>Reload the rule file</button>}
      </div>
      <p className="t2">
        Rules live in a file{policy.file && <>, <code>{oneLine(policy.file, 200)}</code></>}: put them there, then {has(Role.ADMIN) ? "reload it here, or run " : "run "}
        <code>toold reload</code>. The old ones stay when the new ones do not parse.{broken && " These would not."}
        {!policy.file && " No rule file is configured: set rules in the configuration first."}
      </p>
      {error !== undefined && <Failure error={error} what="The rule file was not reloaded. The old rules stay in force." />}
    </div>
  );
}
