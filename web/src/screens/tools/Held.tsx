/** A tool in quarantine: what changed, what is suspicious, and the operator's answer. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { QuarantinedTool } from "../../../gen/toold/v1/admin_service_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { ErrorCode } from "../../../gen/toold/v1/result_pb.ts";
import { admin, calls } from "../../api/clients.ts";
import { hasReason } from "../../api/errors.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Diff } from "../../parts/Diff.tsx";
import { alertNow, toast } from "../../parts/say.ts";
import { Failure, Note, Tag } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { History } from "./History.tsx";
import { differences, suspicionOf } from "./model.ts";

/** Maximum number to which calls of the quarantined tool are counted. */
const mostMet = 50;

interface Props {
  held: QuarantinedTool;
  /** Ids of the tools that the viewer sees. */
  ids: string[];
  tab?: string;
  /** True while the daemon does not answer. Nothing can then be sent. */
  lost: boolean;
}

export function Held({ held: q, ids, tab, lost }: Props) {
  const d = q.waiting!;
  const { has } = useSession();
  const parts = differences(q.trusted, q.waiting);
  const { milder, names, unseen } = suspicionOf(q, ids);
  const met = useQuery({
    queryKey: ["met", d.id, d.digest],
    enabled: has(Role.CALLER, Role.DELEGATE, Role.APPROVER, Role.VIEWER, Role.OPERATOR),
    queryFn: async () => {
      const page = await calls.listCalls({ tool: d.id, errorCodes: [ErrorCode.NOT_FOUND], createdAfter: q.since, pageSize: mostMet, readMask: { paths: ["call_id"] } });
      return `${page.calls.length}${page.nextPageToken ? "+" : ""}`;
    },
  });
  const version = d.version !== q.trusted?.version && q.trusted?.version ? <>{d.version || "no version"}, was {q.trusted.version}</> : d.version;
  const since = q.since ? timestampDate(q.since).toISOString() : "";
  return (
    <article className="ticket" aria-label={d.id}>
      <div className="in">
        <header className="th">
          <h1 tabIndex={-1}><code className="b20"><Text most={64}>{d.id}</Text></code></h1>
          <p className="due"><b>{q.refusedAt ? "Refused" : "Held back"}</b><span><Time at={q.refusedAt ?? q.since} /></span></p>
          <p className="sub"><Tag tone={q.refusedAt ? "fail" : "doubt"} icon="eye">{q.refusedAt ? "Refused" : "Changed"}</Tag><span><Text most={100}>{d.source}</Text>{version && <> · version <Text most={64}>{String(d.version || "none")}</Text>{q.trusted?.version && q.trusted.version !== d.version && <>, was <Text most={64}>{q.trusted.version}</Text></>}</>}</span></p>
        </header>
        <Note tone="doubt" icon="eye">
          The source has another definition than the one that is trusted. The tool is in no list, and its calls end with NOT_FOUND until {q.refusedAt ? "the source sends the trusted definition again, or an operator accepts this one" : "an operator accepts the new one"}.
          {q.refusedAt && <> <b><Text most={64}>{q.refusedBy}</Text></b> refused it <Time at={q.refusedAt} />; you are not asked again.</>}
          {met.data && <> {met.data === "0" ? "No call has met that since." : met.data === "1" ? "1 call met that since." : `${met.data} calls met that since.`}</>}
        </Note>
        {(milder.length > 0 || names.length > 0 || unseen > 0) && (
          <Note tone="fail" icon="warn">
            {milder.length > 0 && <p><b>It says that it is milder than before:</b> {milder.join("; ")}.</p>}
            {names.length > 0 && <p><b>The new text names {names.length === 1 ? "another tool" : "other tools"}:</b> {names.map((n, i) => <span key={n}>{i > 0 && ", "}<code>{n}</code></span>)}.</p>}
            {unseen > 0 && <p><b>It has {unseen} more {unseen === 1 ? "character" : "characters"} that cannot be seen.</b> They are marked below with their code points.</p>}
            <p>Texts are for models to read, so read them as orders.</p>
          </Note>
        )}
        <section className="sec" aria-label="What changed">
          {parts.length > 0 ? <Diff name={d.id} note="the definition, as the source sends it" parts={parts} /> : <Note icon="info">The digests differ, and no text does: the trusted definition cannot be read, or only its metadata differs.</Note>}
        </section>
        <dl className="facts">
          <dt>Trusted</dt><dd><code>{q.trusted?.digest}</code></dd>
          <dt>Waiting</dt><dd><code>{d.digest}</code></dd>
        </dl>
        <History tool={d.id} source={d.source} full={tab === "definitions"} />
      </div>
      <Answer q={q} lost={lost} calls={`/calls?${new URLSearchParams({ tool: d.id, error: "not_found", since })}`} met={met.data} />
    </article>
  );
}

type Step = "rest" | "accept" | "refuse" | "sent";

function Answer({ q, lost, calls: link, met }: { q: QuarantinedTool; lost: boolean; calls: string; met?: string }) {
  const { has } = useSession();
  const client = useQueryClient();
  const [step, setStep] = useState<Step>("rest");
  const [error, setError] = useState<unknown>();
  const digest = q.waiting!.digest, tool = q.waiting!.id;
  const [armed, setArmed] = useState(digest); // the digest of the definition that was shown when the bar was armed
  // Tools of workers belong to one namespace. Other tools serve all namespaces, so only an admin may answer.
  const role = has(Role.ADMIN) || (has(Role.OPERATOR) && q.waiting!.source.startsWith("worker:")), may = role && !lost;
  const arm = (to: Step) => {
    setArmed(digest);
    setError(undefined);
    setStep(to);
  };
  const other = step !== "rest" && armed !== digest;
  useEffect(() => {
    if (!other) return;
    alertNow("The definition changed again. Nothing was sent.");
    setStep("rest");
  }, [other]);
  const send = async (what: "accept" | "refuse") => {
    setStep("sent");
    try {
      if (what === "accept") await admin.acceptTool({ tool, digest: armed });
      else await admin.refuseTool({ tool, digest: armed });
      toast(what === "accept" ? `${tool} is trusted now.` : `This definition of ${tool} is refused.`);
    } catch (e) {
      setError(e);
      alertNow(hasReason(e, "DIGEST_MISMATCH") ? "The definition changed again. Nothing was accepted." : hasReason(e, "TOOL_NOT_QUARANTINED") ? "Somebody has answered already." : "Your answer was not taken.");
    }
    setStep("rest");
    await Promise.all([client.invalidateQueries({ queryKey: ["quarantine"] }), client.invalidateQueries({ queryKey: ["tools"] }), client.invalidateQueries({ queryKey: ["definitions", tool] })]);
  };
  useKeys({ a: () => may && arm("accept"), d: () => may && !q.refusedAt && arm("refuse") }, step === "rest");
  useKeys({ y: () => may && (step === "accept" || step === "refuse") && void send(step), escape: () => setStep("rest") }, step === "accept" || step === "refuse");
  return (
    <div className="act">
      {error !== undefined && <Failure error={error} what={hasReason(error, "DIGEST_MISMATCH") ? "The definition changed again while you looked. Nothing was sent to models; look at the new difference." : "Your answer was not taken."} />}
      {step === "rest" || step === "sent" ? (
        <div className="bar2">
          <button className="btn lg" disabled={!may || step === "sent"} onClick={() => arm("accept")}>Accept this definition <kbd>a</kbd></button>
          {!q.refusedAt && <button className="btn lg bad" disabled={!may || step === "sent"} onClick={() => arm("refuse")}>Refuse it <kbd>d</kbd></button>}
          {met !== undefined && met !== "0" && <Link className="btn lg" href={link}>The {met} {met === "1" ? "call" : "calls"}</Link>}
          <span className="right t3 wide">{role ? (lost ? "Answers wait until the daemon is back." : "The answer is written into the audit chain.") : "Only an admin may answer: this source serves every namespace."}</span>
        </div>
      ) : (
        <div className={`bar2 ${step === "accept" ? "arm" : "no"}`} role="group" aria-label={step === "accept" ? "Accept" : "Refuse"}>
          <span className="grow digest">
            {step === "accept" ? <>Models will read this definition, and calls of <code>{tool}</code> run again. Digest <code>{armed}</code></> : <><code>{tool}</code> stays away until its source sends the trusted definition again. Digest <code>{armed}</code></>}
          </span>
          <span className="pair">
            <button className="btn lg" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
            <button className={`btn lg ${step === "accept" ? "go" : "bad"}`} autoFocus disabled={lost} onClick={() => void send(step)}>{step === "accept" ? "Accept" : "Refuse"} it <kbd>y</kbd></button>
          </span>
        </div>
      )}
    </div>
  );
}
