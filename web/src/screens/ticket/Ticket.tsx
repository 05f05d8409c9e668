/** The question about one call: what would run, and the answer. */
import { Code, ConnectError } from "@connectrpc/connect";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import type { Description } from "../../../gen/toold/v1/assessment_pb.ts";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { DecisionAction, ResumeMode, type TicketRights } from "../../../gen/toold/v1/suspension_pb.ts";
import { tools } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { useKeys } from "../../keys.ts";
import { alertNow } from "../../parts/say.ts";
import { Note } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { decide } from "../inbox/decide.ts";
import { Bar, type Kept } from "./Bar.tsx";
import { DoubtForm, Known, type DoubtAnswer } from "./Doubt.tsx";
import { Edit, useJudged } from "./Edit.tsx";
import { violations } from "./errors.ts";
import { Asked, Facts, Head, OnRecord, Reach, Votes } from "./facts.tsx";
import { Form } from "./Form.tsx";
import { print, same, tryParse, type Json, type JsonObject } from "./json.ts";
import { blank, check } from "./schema.ts";
import { SignIn } from "./SignIn.tsx";
import { Arguments, What } from "./What.tsx";
import "./ticket.css";

export interface TicketProps {
  /** Has an open question. */
  call: Call;
  rights: TicketRights;
  /** The daemon has stored the viewer's answer. */
  onDecided: () => void;
}

const hour = 3_600_000;

export function Ticket({ call, rights, onDecided }: TicketProps) {
  const s = call.suspension!;
  const doubt = s.origin === "in_doubt";
  const asks = !doubt && (s.responseSchema !== "" || s.resumeMode !== ResumeMode.REPLAY_TOOL_CALL);
  const schema = useMemo<Json>(() => tryParse(s.responseSchema) ?? {}, [s.responseSchema]);
  const args = s.pending?.arguments || call.effectiveArguments;
  const [answer, setAnswer] = useState<Json | undefined>(() => (asks ? blank(schema) : undefined));
  const [touched, touch] = useState(false);
  const [about, setAbout] = useState<DoubtAnswer>({ outcome: "", message: "" });
  const [edited, setEdited] = useState<{ value: Json | undefined }>();
  const [reason, setReason] = useState("");
  const [sent, setSent] = useState(false);
  const [error, setError] = useState<unknown>();
  const article = useRef<HTMLElement>(null);
  const moved = useMoved(s.digest, args);
  const mayEdit = rights.edit?.allowed ?? false;
  const { data: tool } = useQuery({ queryKey: ["descriptor", call.tool, call.toolDigest], queryFn: async () => (await tools.getTool({ tool: call.tool })).tool, enabled: mayEdit || doubt, retry: false, staleTime: Infinity });
  const parameters = useMemo(() => tryParse(tool?.parameters ?? ""), [tool]), resultSchema = useMemo(() => tryParse(tool?.resultSchema ?? ""), [tool]);

  const basis = s.description?.basis ?? "";
  const { data: now } = useJudged(s.suspensionId, args, mayEdit && basis !== "" && !sent);
  const under = now?.description?.basis && now.description.basis !== basis ? now.description : undefined;

  const changed = !!edited && edited.value !== undefined && !same(edited.value, tryParse(args));
  const wrong = asks ? check(schema, answer, s.responseSchema !== "") : new Map<string, string>();
  const notYet = moved.pending
    ? "The question changed. Look at what is different first."
    : edited && (edited.value === undefined || (parameters !== undefined && check(parameters, edited.value, true).size > 0))
      ? "The edited arguments are not right yet."
      : doubt && !about.outcome
        ? "Choose an answer first."
        : wrong.size > 0
          ? "The answer is not complete yet."
          : undefined;

  const id = useDecisionId();
  const send = async (content: { action: DecisionAction; result?: string; arguments?: string; reason?: string }, kept?: Kept) => {
    setSent(true);
    setError(undefined);
    const remember = kept && { option: kept.option, scope: kept.scope, until: timestampFromMs(Date.now() + kept.hours * hour) };
    try {
      await decide(call, { ...content, remember, decisionId: id(JSON.stringify([s.digest, content, kept])) });
      onDecided();
    } catch (e) {
      setError(e);
      alertNow(`${lostAnswer(e) ? unknown : "Your answer was not taken."} ${oneLine(messageOf(e), 300)}`);
      setSent(false);
    }
  };
  const approve = (kept?: Kept) => {
    const result = doubt ? print(doubtResult(about)) : asks && answer !== undefined ? print(answer) : "";
    void send({ action: DecisionAction.RESUME, result, arguments: changed ? print(edited.value!) : "" }, kept);
  };
  const toggle = () => setEdited((e) => (e ? undefined : { value: tryParse(args) }));
  const pick = (n: number) => article.current?.querySelectorAll<HTMLInputElement>(".opt input[type=radio]")[n - 1]?.click();
  useKeys(Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [String(n), () => pick(n)])), (asks || doubt) && !sent);
  const fieldErrors = touched || error ? new Map([...(touched ? wrong : []), ...violations(error, "decision.result")]) : new Map<string, string>();
  const frontend = s.action === "frontend", subagent = s.action === "subagent";
  return (
    <article className="ticket" aria-label="Ticket" ref={article}>
      <div className="in" onKeyDown={leaveField}>
        <Head call={call} title={titleOf(call)} />
        <Asked call={call} />
        {error !== undefined && <Refused error={error} />}
        {moved.pending && <Moved was={moved.was} now={args} seen={moved.accept} />}
        {(frontend || subagent) && <Note icon="window">{frontend ? "The frontend of the run does this and answers." : "A call of a subagent waits; its own question is in the inbox."} Nothing for you to do; a decline would end the call.</Note>}
        {s.action === "auth" && <SignIn s={s} />}
        {doubt && <Known call={call} />}
        {edited && <Edit suspensionId={s.suspensionId} schema={parameters} before={args} value={edited.value} set={(value) => setEdited({ value })} close={toggle} digest={s.digest} votes={s.approvers?.count ?? 1} />}
        {doubt && <DoubtForm answer={about} set={setAbout} schema={resultSchema} errors={violations(error, "decision.result.data")} />}
        {asks && (
          <form className="stack answer" aria-label="Your answer" onSubmit={(e) => e.preventDefault()}>
            <Form schema={schema} value={answer} set={(v) => (touch(true), setAnswer(v))} errors={fieldErrors} />
            {s.resumeMode === ResumeMode.USE_DECISION_AS_TOOL_RESULT && <p className="t3">Your answer is the result of the call: the model reads it.</p>}
          </form>
        )}
        {under && <Under d={under} />}
        <What call={call} />
        <Votes s={s} use={mayEdit ? (text) => setEdited({ value: tryParse(text) }) : undefined} />
        <Reach call={call} />
        <Facts call={call} />
        <OnRecord call={call} />
      </div>
      <Bar
        digest={s.digest} rights={rights} words={words(call, { doubt, asks, edited: changed, about, answer })} options={asks || doubt || changed ? [] : s.rememberOptions} notYet={notYet}
        editing={!!edited} edit={mayEdit ? toggle : undefined} sent={sent} reason={reason} setReason={setReason}
        approve={approve} decline={(r) => void send({ action: DecisionAction.CANCEL, reason: r })}
      />
    </article>
  );
}

/** Escape in a field leaves the field, not the ticket: what was typed stays. */
function leaveField(e: KeyboardEvent<HTMLElement>) {
  if (e.key !== "Escape" || !(e.target instanceof HTMLElement) || !e.target.matches("input, textarea, select")) return;
  e.preventDefault();
  e.target.blur();
}

/** Reports whether an answer may have reached the daemon, although no reply came back. */
const lostAnswer = (e: unknown) => !(e instanceof ConnectError) || (toFailure(e).reason === "" && [Code.Unavailable, Code.Unknown, Code.Canceled, Code.DeadlineExceeded, Code.Internal].includes(e.code));
const unknown = "It is not known whether your answer was taken.";

const messageOf = (e: unknown) => (e instanceof ConnectError ? toFailure(e).message : String(e));

function titleOf(call: Call): string {
  const s = call.suspension!;
  return s.description?.title || call.description?.title || (s.action === "approval" ? call.tool : oneLine(s.message, 200)) || call.tool;
}

function doubtResult(a: DoubtAnswer): JsonObject {
  const out: JsonObject = { outcome: a.outcome };
  if (a.outcome === "happened" && a.data !== undefined) out.data = a.data;
  if (a.outcome === "happened" && a.message) out.message = a.message;
  return out;
}

function words(call: Call, k: { doubt: boolean; asks: boolean; edited: boolean; about: DoubtAnswer; answer: Json | undefined }): { act: string; question: ReactNode; yes: string } {
  const s = call.suspension!;
  if (k.doubt) {
    const says = { happened: ["Say that it happened?", "It happened"], run_again: ["Run it again, even if it did happen?", "Run it again"], give_up: ["Give up and fail the call?", "Give up"], "": ["Answer?", "Answer"] }[k.about.outcome];
    return { act: "Answer", question: says[0], yes: says[1]! };
  }
  if (s.action === "auth") return { act: "I have signed in", question: "Finish the sign-in?", yes: "Finish" };
  if (s.action === "frontend") return { act: "Answer for it", question: "Answer in the place of the frontend?", yes: "Send the answer" };
  if (k.asks) return { act: "Answer", question: <>Answer <Text most={80}>{k.answer === undefined ? "nothing" : print(k.answer)}</Text>?</>, yes: "Send the answer" };
  if ((s.approvers?.count ?? 1) > 1) return { act: k.edited ? "Vote for the edit" : "Vote yes", question: k.edited ? "Vote for the edited call? It voids other votes." : "Add your vote to", yes: "Vote yes" };
  return k.edited ? { act: "Approve as edited", question: "Run the edited call? It was asked about", yes: "Yes, run the edit" } : { act: "Approve", question: "Run exactly this?", yes: "Yes, run it" };
}

/** Returns one id for each decision. A decision that is sent again unchanged keeps its id, so it counts once. */
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

/** What the call changes is no longer what the question showed. */
function Under({ d }: { d: Description }) {
  return (
    <Note tone="wait" icon="warn">
      <b>What this changes is different from what the question shows.</b> It changed after the question was asked. It is checked again when it runs.
      {d.notes.map((n, i) => <p key={i}><Text most={500}>{n}</Text></p>)}
    </Note>
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
