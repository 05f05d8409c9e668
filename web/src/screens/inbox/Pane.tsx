/** The open question: its ticket, who looks at it, and how it was settled. */
import { create } from "@bufbuild/protobuf";
import { useQuery } from "@tanstack/react-query";
import { lazy, useEffect, useRef, useState, type FormEvent } from "react";
import { Link } from "wouter";
import { CallStatus, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { type SettledQuestion, SettledQuestionSchema, Settlement } from "../../../gen/toold/v1/call_service_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { type Decision, DecisionAction, RightSchema, TicketRightsSchema, type TicketRights } from "../../../gen/toold/v1/suspension_pb.ts";
import { calls } from "../../api/clients.ts";
import { hasReason, toFailure } from "../../api/errors.ts";
import { type Question, useInbox } from "../../api/inbox.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow, toast } from "../../parts/say.ts";
import { Empty, Failure, Note, Skeleton } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time, useNow } from "../../parts/Time.tsx";
import { ConnectError } from "@connectrpc/connect";
import { claimOf, kindOf, mostTogether } from "./model.ts";

const Ticket = lazy(() => import("../ticket/Ticket.tsx").then((m) => ({ default: m.Ticket })));

interface Props {
  /** Id of the suspension. */
  id: string;
  lost: boolean;
  /** The position in the list, such as `4 of 9`. Empty when the question is not in the list. */
  place: string;
  move: (step: number) => void;
  back: () => void;
  together: (ids: string[]) => void;
}

export function Pane({ id, lost, place, move, back, together }: Props) {
  const { questions, complete } = useInbox();
  const q = questions.get(id);
  const { me } = useSession();
  const subject = me.principal?.subject ?? "";
  const { data, error, refetch } = useQuery({
    queryKey: ["question", id, q?.settled ? "settled" : q?.call.revision.toString()],
    queryFn: () => load(id, q?.call.callId),
    enabled: complete,
    placeholderData: (old) => old,
    retry: (n, e) => n < 2 && !hasReason(e, "CALL_NOT_FOUND"),
  });
  // A settled question keeps its ticket, with everything that the viewer typed.
  const asked = useRef<Call>(undefined);
  if (data?.call.suspension?.suspensionId === id) asked.current = data.call;
  const settled = q?.settled ?? (data && data.call.suspension?.suspensionId !== id ? become(id, data.call) : undefined);
  const mine = settled?.decision?.decidedBy?.subject === subject;
  const voted = [...(asked.current?.suspension?.votes ?? []), ...(q?.call.suspension?.votes ?? [])].some((v) => v.voter?.subject === subject);
  useEffect(() => {
    if (settled && !mine) alertNow(`${verdict(settled)}.${voted ? "" : " Your answer was not sent."}`);
  }, [settled, mine, voted]);

  const kind = q && kindOf(q), alike = kind ? [id, ...[...questions.values()].filter((x) => x.id !== id && kindOf(x) === kind).map((x) => x.id)].slice(0, mostTogether) : [];
  const bar = (
    <div className="bar pbar">
      <button className="btn bare icon pback" aria-label="Back to the list" onClick={back}>
        <Icon name="left" />
      </button>
      <b className="nowrap">{place}</b>
      <button className="btn bare icon" aria-label="Previous" onClick={() => move(-1)}>
        <Icon name="left" small />
      </button>
      <button className="btn bare icon" aria-label="Next" onClick={() => move(1)}>
        <Icon name="right" small />
      </button>
      {alike.length > 1 && <button className="btn bare sm" onClick={() => together(alike)}>Review {alike.length} alike</button>}
      {q && !settled && <Claimed {...{ q, subject, lost }} />}
    </div>
  );
  if (error && !data) return <>{bar}{gone(error) ? <Empty title="You have no such question">It belongs to another namespace, it was removed, or you have no right to see it.</Empty> : <Failure error={error} what="The question could not be read. Nothing was answered." again={() => void refetch()} />}</>;
  if (!data) return <>{bar}<Skeleton /></>;
  const call = asked.current;
  return (
    <>
      {bar}
      {settled && <Became settled={settled} mine={mine} voted={voted} looked={!!call} approval={call?.suspension?.action === "approval"} next={() => move(1)} />}
      {call && <Ticket call={call} settled={settled} rights={settled ? none(id, "ALREADY_DECIDED", "This question no longer waits.") : lost ? none(id, "UNAVAILABLE", "There is no connection to the daemon.") : (q?.rights ?? data.rights)} onDecided={() => toast("Your answer is stored.")} />}
    </>
  );
}

const gone = (e: unknown) => e instanceof ConnectError && toFailure(e).code.endsWith("NOT_FOUND");

/** Reads the call of a question, and the rights of the viewer. For questions of the list, `callId` is known. */
async function load(id: string, callId?: string): Promise<{ call: Call; rights: TicketRights }> {
  const { tickets } = await calls.whoAmI({ suspensionIds: [id] });
  const rights = tickets[0]!;
  const { call } = await calls.getCall({ callId: callId || rights.callId || "no-such-question" });
  return { call: call!, rights };
}

/** Returns how a question was settled according to its call. */
function become(id: string, call: Call): SettledQuestion {
  const decision = call.decisions.find((d) => d.suspensionId === id);
  return create(SettledQuestionSchema, { suspensionId: id, callId: call.callId, status: call.status, decision, settlement: decision ? Settlement.DECIDED : Settlement.CANCELLED });
}

const none = (id: string, reason: string, message: string) => {
  const right = create(RightSchema, { allowed: false, reason, message });
  return create(TicketRightsSchema, { suspensionId: id, approve: right, decline: right, edit: right, resultInstead: right, remember: right });
};

function verdict(s: SettledQuestion) {
  if (s.settlement === Settlement.EXPIRED) return "Nobody answered in time";
  if (s.settlement === Settlement.CANCELLED) return "The call was cancelled";
  if (s.settlement !== Settlement.DECIDED) return "This question no longer waits";
  const by = s.decision?.decidedBy?.subject ?? "somebody";
  return `${s.decision?.action === DecisionAction.CANCEL ? "Declined" : "Decided"} by ${by} while you looked`;
}

const did: Partial<Record<CallStatus, string>> = { [CallStatus.SUCCEEDED]: "succeeded", [CallStatus.FAILED]: "failed", [CallStatus.CANCELLED]: "was cancelled", [CallStatus.SUSPENDED]: "asks again" };

function Became({ settled, mine, voted, looked, approval, next }: { settled: SettledQuestion; mine: boolean; voted: boolean; looked: boolean; approval: boolean; next: () => void }) {
  const { callId, suspensionId } = settled;
  const { data } = useQuery({
    queryKey: ["became", callId, suspensionId],
    queryFn: async () => (await calls.getCall({ callId, readMask: { paths: ["status", "decisions", "suspension.suspension_id"] } })).call!,
    refetchInterval: (q) => (q.state.data && did[q.state.data.status] ? false : 2000),
  });
  const d = data?.decisions.find((x) => x.suspensionId === suspensionId) ?? settled.decision;
  const text = mine ? `You ${d?.action === DecisionAction.CANCEL ? "declined it" : !approval ? "answered it" : d?.arguments ? "approved it with your changes" : "approved it"}` : looked ? verdict(settled) : verdict(settled).replace(" while you looked", "");
  return (
    <div className="pad became">
      <Note tone={mine ? "ok" : "run"} icon={mine ? "ok" : "info"}>
        <div className="rowx">
          <span className="grow">
            <b><Text most={120}>{text}</Text></b>
            {d?.time && <>, <Time at={d.time} /></>}. {!mine && looked && (voted ? "You had voted. " : "Your answer was not sent. ")}
            The call <Link href={data?.suspension ? `/inbox/${data.suspension.suspensionId}` : `/calls/${callId}`}>{(data && did[data.status]) ?? "continues"}</Link>.
          </span>
          <button className="btn sm" onClick={next}>Next <kbd>j</kbd></button>
        </div>
        {d && <What d={d} />}
      </Note>
    </div>
  );
}

/** Shows what was decided. */
function What({ d }: { d: Decision }) {
  const no = d.action === DecisionAction.CANCEL, r = d.resultInstead, votes = d.votes.map((v) => v.voter?.subject ?? "").join(", ");
  return (
    <dl className="facts">
      <dt>Answer</dt><dd>{no ? "no" : r ? (r.error ? "an error in the tool's place" : "a result in the tool's place") : d.arguments ? "yes, to other arguments" : d.result ? <code><Text most={2000}>{d.result}</Text></code> : "yes, as it was asked"}</dd>
      {d.reason && <><dt>Reason</dt><dd>“<Text most={1000}>{d.reason}</Text>”</dd></>}
      {d.arguments && <><dt>Arguments</dt><dd><code><Text most={2000}>{d.arguments}</Text></code></dd></>}
      {r?.message && <><dt>Message</dt><dd><Text most={2000}>{r.message}</Text></dd></>}
      {r?.data && <><dt>Data</dt><dd><code><Text most={2000}>{r.data}</Text></code></dd></>}
      {d.remember && <><dt>Kept</dt><dd><code><Text most={300}>{d.remember.option}</Text></code>{d.remember.until && <>, until <Time at={d.remember.until} /></>}</dd></>}
      {votes && <><dt>Votes</dt><dd><Text most={1000}>{votes}</Text></dd></>}
    </dl>
  );
}

/** Shows who looks at the question. A claim does not prevent a decision; it only informs others. */
function Claimed({ q, subject, lost }: { q: Question; subject: string; lost: boolean }) {
  const now = useNow(10_000);
  const claim = claimOf(q, now), ours = claim?.claimedBy?.subject === subject, { has } = useSession();
  const [handing, hand] = useState(false);
  const may = !lost && !!(q.rights.approve?.allowed || q.rights.decline?.allowed);
  const send = async (request: Parameters<typeof calls.claimSuspension>[0], done: string) => {
    try {
      await calls.claimSuspension({ ...request, suspensionId: q.id });
      toast(done);
      hand(false);
    } catch (e) {
      toast(e instanceof ConnectError ? toFailure(e).message : String(e));
    }
  };
  const operator = has(Role.OPERATOR);
  const takeOver = !!claim && !ours;
  const change = () => (ours ? void send({ release: true }, "You no longer look at it.") : void send({ takeOver }, "Others see that you look at it."));
  useKeys({ c: change, h: () => hand(true) }, may && !handing);
  useKeys({ escape: () => hand(false) }, handing);
  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const to = String(new FormData(e.currentTarget).get("to")).trim();
    if (to) void send({ handOverTo: to, takeOver }, `Handed over to ${to}.`);
  };
  if (handing)
    return (
      <form className="right rowx" onSubmit={submit}>
        <label className="rowx">
          Hand over to <input className="inp auto" name="to" required maxLength={256} autoFocus placeholder="name of a person" autoComplete="off" />
        </label>
        <button className="btn sm" type="button" onClick={() => hand(false)}>Back <kbd>esc</kbd></button>
        <button className="btn sm go">Hand over <kbd>enter</kbd></button>
      </form>
    );
  return (
    <div className="right rowx">
      {claim && (
        <span className="t2 cut">
          {ours ? "You look at it" : <><Text most={60}>{claim.claimedBy?.subject ?? ""}</Text> looks at it</>}
          {claim.handedOverBy && <>, handed over by {claim.handedOverBy.subject === subject ? "you" : <Text most={60}>{claim.handedOverBy.subject}</Text>}</>}; the claim ends <Time at={claim.until} />
        </span>
      )}
      {may && (!takeOver || operator) && (
        <>
          <button className="btn bare sm" onClick={change}>{ours ? "Release" : takeOver ? "Take over" : "Claim"} <kbd>c</kbd></button>
          <button className="btn bare sm" onClick={() => hand(true)}>Hand over <kbd>h</kbd></button>
        </>
      )}
    </div>
  );
}
