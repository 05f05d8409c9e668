/** The ticket of a call: what would run, and the form for the answer. */
import { Code, ConnectError } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import type { Description } from "../../../gen/toold/v1/assessment_pb.ts";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import type { SettledQuestion } from "../../../gen/toold/v1/call_service_pb.ts";
import { DecisionAction, type DecisionSchema, ResumeMode, type TicketRights, type Vote } from "../../../gen/toold/v1/suspension_pb.ts";
import { tools } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { alertNow } from "../../parts/say.ts";
import { Copy, Note } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { decide } from "../inbox/decide.ts";
import { titleOf } from "../inbox/model.ts";
import { Bar, type Kept, type Words } from "./Bar.tsx";
import { DoubtForm, Known, type DoubtAnswer } from "./Doubt.tsx";
import { Agree, Edit, useJudged } from "./Edit.tsx";
import { violations } from "./errors.ts";
import { Exact } from "../../parts/Exact.tsx";
import { Asked, Facts, Head, OnRecord, Reach, Votes } from "./facts.tsx";
import { Form } from "./Form.tsx";
import { Instead, type InsteadAnswer } from "./Instead.tsx";
import { print, same, tryParse, type Json, type JsonObject } from "./json.ts";
import { Next } from "./Next.tsx";
import { blank, check } from "./schema.ts";
import { SignIn } from "./SignIn.tsx";
import { Arguments, What } from "./What.tsx";
import "./ticket.css";

export interface TicketProps {
  /** The call with its question. The question is open unless `settled` is set. */
  call: Call;
  rights: TicketRights;
  /** Set when the question is settled. The ticket then has no form. */
  settled?: SettledQuestion;
  /** Called when the daemon has stored the viewer's answer. */
  onDecided: () => void;
}

/** What a yes would change: the arguments as the viewer edited them, the arguments that another person voted for, or the result. */
type Change = { kind: "edit"; value: Json | undefined } | { kind: "vote"; vote: Vote } | { kind: "instead"; answer: InsteadAnswer };

const hour = 3_600_000;

export function Ticket({ call, rights, settled, onDecided }: TicketProps) {
  const s = call.suspension!, { me } = useSession(), subject = me.principal?.subject;
  const doubt = s.origin === "in_doubt";
  const asks = !doubt && (s.responseSchema !== "" || s.resumeMode !== ResumeMode.REPLAY_TOOL_CALL);
  const schema = useMemo<Json>(() => tryParse(s.responseSchema) ?? {}, [s.responseSchema]);
  const args = s.pending?.arguments || call.effectiveArguments;
  const [answer, setAnswer] = useState<Json | undefined>(() => (asks ? blank(schema) : undefined));
  const [touched, touch] = useState(false);
  const [about, setAbout] = useState<DoubtAnswer>({ outcome: "", message: "" });
  const [change, setChange] = useState<Change>();
  const [reason, setReason] = useState("");
  const [sent, setSent] = useState(false);
  const [error, setError] = useState<unknown>();
  const article = useRef<HTMLElement>(null);
  const moved = useMoved(s.digest, args);
  const mayEdit = rights.edit?.allowed ?? false, mayInstead = (rights.resultInstead?.allowed && rights.approve?.allowed) ?? false;
  const { data: tool } = useQuery({ queryKey: ["descriptor", call.tool, call.toolDigest], queryFn: async () => (await tools.getTool({ tool: call.tool })).tool, enabled: mayEdit || mayInstead || doubt, retry: false, staleTime: Infinity });
  const parameters = useMemo(() => tryParse(tool?.parameters ?? ""), [tool]), resultSchema = useMemo(() => tryParse(tool?.resultSchema ?? ""), [tool]);

  const basis = s.description?.basis ?? "";
  const { data: now } = useJudged(s.suspensionId, args, mayEdit && basis !== "" && !sent);
  const under = now?.description?.basis && now.description.basis !== basis ? now.description : undefined;

  const edited = change?.kind === "edit" ? change : undefined, instead = change?.kind === "instead" ? change.answer : undefined;
  const proposed = change?.kind === "vote" ? change.vote.arguments : edited?.value !== undefined && !same(edited.value, tryParse(args)) ? print(edited.value) : "";
  const wrong = asks ? check(schema, answer, s.responseSchema !== "") : new Map<string, string>();
  const notYet = moved.pending
    ? "The question changed. Look at what is different first."
    : edited && (edited.value === undefined || (parameters !== undefined && check(parameters, edited.value, true).size > 0))
      ? "The edited arguments are not right yet."
      : change?.kind === "vote" && !s.votes.some((v) => v.decisionId === change.vote.decisionId)
        ? "This vote no longer counts: it was changed, or another edit voided it. Look at the votes again."
      : (instead && !instead.error && instead.wrong) || (about.outcome === "happened" && about.wrong)
        ? "The data is not JSON yet."
      : instead && (instead.error ? !instead.message : !instead.message && instead.data === undefined)
        ? "The result is not complete yet."
      : doubt && !about.outcome
        ? "Choose an answer first."
        : wrong.size > 0
          ? "The answer is not complete yet."
          : undefined;

  const votes = s.votes.map((v) => v.decisionId).join();
  useEffect(() => setSent(false), [votes]); // the vote is stored, or an edit of another person voided it
  const id = useDecisionId();
  const send = async (content: Content, kept?: Kept) => {
    setSent(true);
    setError(undefined);
    const remember = kept && { option: kept.option, scope: kept.scope, until: timestampFromMs(Date.now() + kept.hours * hour) };
    try {
      await decide(call, { ...content, remember, decisionId: id(JSON.stringify([s.digest, content, kept])) });
      setChange(undefined); // a stored vote leaves nothing to send
      onDecided();
    } catch (e) {
      setError(e);
      alertNow(`${lostAnswer(e) ? unknown : "Your answer was not taken."} ${oneLine(messageOf(e), 300)}`);
      setSent(false);
    }
  };
  const approve = (kept?: Kept) => {
    const result = doubt ? print(doubtResult(about)) : asks && answer !== undefined ? print(answer) : "";
    if (instead) void send({ action: DecisionAction.RESUME, resultInstead: { data: instead.data === undefined || instead.error ? "" : print(instead.data), message: instead.message, error: instead.error } });
    else void send({ action: DecisionAction.RESUME, result, arguments: proposed }, kept);
  };
  const toggle = () => setChange(edited ? undefined : { kind: "edit", value: tryParse(args) });
  const toggleInstead = () => setChange(instead ? undefined : { kind: "instead", answer: { message: "", error: false } });
  const pick = (n: number) => article.current?.querySelectorAll<HTMLInputElement>(".opt input[type=radio]")[n - 1]?.click();
  useKeys(Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [String(n), () => pick(n)])), (asks || doubt) && !sent && !settled);
  // Scrolls to the top, where the page shows how the question was settled.
  const settles = !!settled, wasSettled = useRef(settles);
  useEffect(() => {
    if (settles && !wasSettled.current) article.current?.closest(".pane")?.scrollTo(0, 0);
    wasSettled.current = settles;
  }, [settles]);
  const fieldErrors = touched || error ? new Map([...(touched ? wrong : []), ...violations(error, "decision.result")]) : new Map<string, string>();
  return (
    <article className="ticket" aria-label="Ticket" ref={article}>
      <div className="in" onKeyDown={leaveField}>
        <Head call={call} title={titleOf(call)} settled={!!settled} />
        <Asked call={call} />
        {error !== undefined && !settled && <Refused error={error} />}
        {settled && settled.decision?.decidedBy?.subject !== subject && <Unsent typed={{ reason, arguments: proposed, answer: touched ? answer : undefined, message: instead?.message ?? about.message, data: instead?.data ?? about.data }} />}
        {moved.pending && !settled && <Moved was={moved.was} now={args} seen={moved.accept} />}
        {!settled && <Next call={call} rights={rights} />}
        {settled?.decision?.arguments && !settled.decision.resultInstead && <Note>Below is what was asked about. The yes counts for the edited arguments above.</Note>}
        {s.action === "auth" && <SignIn s={s} open={!settled} />}
        {doubt && <Known call={call} />}
        {!settled && edited && <Edit suspensionId={s.suspensionId} schema={parameters} before={args} value={edited.value} set={(value) => setChange({ kind: "edit", value })} close={toggle} digest={s.digest} votes={s.approvers?.count ?? 1} />}
        {!settled && change?.kind === "vote" && <Agree suspensionId={s.suspensionId} before={args} vote={change.vote} close={() => setChange(undefined)} votes={s.approvers?.count ?? 1} />}
        {!settled && instead && <Instead answer={instead} set={(a) => setChange({ kind: "instead", answer: a })} schema={resultSchema} errors={violations(error, "decision.result_instead.data")} close={toggleInstead} />}
        {!settled && doubt && <DoubtForm answer={about} set={setAbout} schema={resultSchema} errors={violations(error, "decision.result.data")} />}
        {!settled && asks && (
          <form className="stack answer" aria-label="Your answer" onSubmit={(e) => e.preventDefault()}>
            <Form schema={schema} value={answer} set={(v) => (touch(true), setAnswer(v))} errors={fieldErrors} />
            {s.resumeMode === ResumeMode.USE_DECISION_AS_TOOL_RESULT && <p className="t3">Your answer is the result of the call: the model reads it.</p>}
          </form>
        )}
        {under && !settled && <Under d={under} />}
        <What call={call} />
        {!settled && <Votes s={s} use={mayEdit && rights.approve?.allowed ? (vote) => (setChange({ kind: "vote", vote }), article.current?.closest(".pane")?.scrollTo(0, 0)) : undefined} />}
        <Reach call={call} />
        <Facts call={call} />
        <OnRecord call={call} />
      </div>
      {!settled && (
        <Bar
          digest={s.digest} rights={rights} words={words(call, { doubt, asks, proposed: proposed !== "", change, about, answer })} options={asks || doubt || proposed || instead ? [] : s.rememberOptions} notYet={notYet}
          editing={!!edited} edit={mayEdit ? toggle : undefined} answering={!!instead} instead={mayInstead ? toggleInstead : undefined} sent={sent} reason={reason} setReason={setReason}
          approve={approve} decline={doubt ? undefined : (r) => void send({ action: DecisionAction.CANCEL, reason: r })}
        />
      )}
    </article>
  );
}

/** Escape in a field leaves the field but not the ticket. The typed text stays. */
function leaveField(e: KeyboardEvent<HTMLElement>) {
  if (e.key !== "Escape" || !(e.target instanceof HTMLElement) || !e.target.matches("input, textarea, select")) return;
  e.preventDefault();
  e.target.blur();
}

/** Reports whether the daemon may have received the answer, although no reply arrived. */
const lostAnswer = (e: unknown) => !(e instanceof ConnectError) || (toFailure(e).reason === "" && [Code.Unavailable, Code.Unknown, Code.Canceled, Code.DeadlineExceeded, Code.Internal].includes(e.code));
const unknown = "It is not known whether your answer was taken.";

const messageOf = (e: unknown) => (e instanceof ConnectError ? toFailure(e).message : String(e));

/** The content of a decision, without the fields that every decision has. */
type Content = Pick<MessageInitShape<typeof DecisionSchema>, "action" | "result" | "arguments" | "reason" | "resultInstead">;

function doubtResult(a: DoubtAnswer): JsonObject {
  const out: JsonObject = { outcome: a.outcome };
  if (a.outcome === "happened" && a.data !== undefined) out.data = a.data;
  if (a.outcome === "happened" && a.message) out.message = a.message;
  return out;
}

function words(call: Call, k: { doubt: boolean; asks: boolean; proposed: boolean; change: Change | undefined; about: DoubtAnswer; answer: Json | undefined }): Words {
  const s = call.suspension!, votes = (s.approvers?.count ?? 1) > 1;
  const no = "Declining ends the call: the tool does not run, and the model reads your reason.";
  if (k.doubt) {
    const says = { happened: ["Say that it happened?", "It happened"], run_again: ["Run it again, even if it did happen?", "Run it again"], give_up: ["Fail the call, because nobody can tell?", "Fail the call"], "": ["Answer?", "Answer"] }[k.about.outcome];
    return { act: "Answer", question: says[0], yes: says[1]!, no: "", help: "" };
  }
  if (k.change?.kind === "instead") return { act: votes ? "Vote for this result" : "Give this result", question: votes ? "Vote for this result? The tool would not run." : "Give this result? The tool does not run.", yes: votes ? "Vote for it" : "Give it", no: "Decline", help: no };
  if (s.action === "auth") return { act: "I have signed in", question: "Run the tool again?", yes: "Run it again", no: "Do not sign in", help: `“I have signed in” runs the tool again; it asks again if the sign-in is missing. Without a sign-in, the call ends.` };
  if (s.action === "frontend") return { act: "Answer for it", question: "Answer in the place of the frontend?", yes: "Send the answer", no: "Stop the call", help: "Answer only if the frontend cannot. Stopping ends the call." };
  if (k.asks) return { act: "Answer", question: <>Answer <Text most={80}>{k.answer === undefined ? "nothing" : print(k.answer)}</Text>?</>, yes: "Send the answer", no: "Do not answer", help: "Without an answer, the call ends, and the model reads your reason." };
  if (votes) return { act: k.proposed ? "Vote for the edit" : "Vote yes", question: k.change?.kind === "vote" ? "Vote for these arguments?" : k.proposed ? "Vote for the edited call? It voids other votes." : "Vote yes to exactly this?", yes: "Vote yes", no: "Decline", help: `The tool runs when enough people voted for the same. One no is enough. ${no}` };
  return k.proposed ? { act: "Approve as edited", question: "Run your edit in the place of what was asked?", yes: "Yes, run the edit", no: "Decline", help: no } : { act: "Approve", question: "Run exactly this?", yes: "Yes, run it", no: "Decline", help: `Approving runs exactly what is above. ${no}` };
}

/** Returns a function that returns the id of a decision. An unchanged decision that is sent again keeps its id, so it counts once. */
function useDecisionId() {
  const ids = useRef(new Map<string, string>());
  return (content: string) => {
    const id = ids.current.get(content) ?? crypto.randomUUID();
    ids.current.set(content, id);
    return id;
  };
}

/** Reports that the open question has changed since the viewer read it. */
function useMoved(digest: string, args: string) {
  const [seen, see] = useState({ digest, args });
  const pending = seen.digest !== digest;
  useEffect(() => {
    if (pending) alertNow("The question changed while you looked. Nothing was sent.");
  }, [pending]);
  return { pending, was: seen.args, accept: () => see({ digest, args }) };
}

function Moved({ was, now, seen }: { was: string; now: string; seen: () => void }) {
  return (
    <Note tone="doubt" icon="warn">
      <div className="stack tight">
        <b>The question changed while you looked. Nothing was sent.</b>
        {was === now ? <span>The arguments are the same; the tool, its isolation or the texts of the question changed. Everything below is new.</span> : <><span>Before:</span><Arguments text={was} /><span>Now:</span><Arguments text={now} /></>}
        <span><button className="btn sm" onClick={seen}>I have seen the difference</button></span>
      </div>
    </Note>
  );
}

/** Warns that the state under the call has changed since the question was asked, for example a file. */
function Under({ d }: { d: Description }) {
  return (
    <Note tone="wait" icon="warn">
      <b>What this changes is different from what the question shows.</b> It changed after the question was asked. It is checked again when it runs.
      {d.notes.map((n, i) => <p key={i}><Text most={500}>{n}</Text></p>)}
    </Note>
  );
}

/** Shows what the viewer typed before another person decided. */
function Unsent({ typed }: { typed: { reason: string; arguments: string; answer: Json | undefined; message: string; data: Json | undefined } }) {
  const texts = [typed.reason, typed.arguments, typed.answer === undefined ? "" : print(typed.answer), typed.message, typed.data === undefined ? "" : print(typed.data)].filter(Boolean);
  if (texts.length === 0) return null;
  return (
    <section className="sec" aria-label="Not sent">
      <header><h2>Not sent</h2><span className="t3">what you typed before</span><span className="right"><Copy text={texts.join("\n")} /></span></header>
      {texts.map((t, i) => <div className="code" key={i}><pre><Exact>{t}</Exact></pre></div>)}
    </section>
  );
}

function Refused({ error }: { error: unknown }) {
  const { code, reason } = error instanceof ConnectError ? toFailure(error) : { code: "ERROR", reason: "" };
  if (lostAnswer(error))
    return (
      <Note tone="doubt" icon="doubt">
        <b>{unknown}</b> The connection to the daemon was lost before it replied. The same answer may be sent again: it counts once. <Text most={500}>{messageOf(error)}</Text>
      </Note>
    );
  const why = reason === "DIGEST_MISMATCH" ? "The question changed, and your answer was for what it was before." : "";
  return (
    <Note tone="fail" icon="fail">
      <b>Your answer was not taken.</b> {why} <code>{code}</code> <Text most={500}>{messageOf(error)}</Text>
    </Note>
  );
}
