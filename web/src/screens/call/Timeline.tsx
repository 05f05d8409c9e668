/** The events of a call in order: as steps, event by event, or as JSON. */
import { toJsonString } from "@bufbuild/protobuf";
import { timestampMs, type Timestamp } from "@bufbuild/protobuf/wkt";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Fragment, useEffect, useRef, useState, type ReactNode } from "react";
import { AttemptEnd, CallSchema, Executed, CallStatus, VerdictAction, type Call, type Verdict } from "../../../gen/toold/v1/call_pb.ts";
import { CallEventSchema, GapReason, QueueReason, type CallEvent, type CallQueued, type Gap } from "../../../gen/toold/v1/event_pb.ts";
import { DecisionAction, type Decision } from "../../../gen/toold/v1/suspension_pb.ts";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { Copy } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { shown } from "../../parts/Status.tsx";
import { exact, span } from "../../parts/Time.tsx";
import type { Log } from "./log.ts";

export const ms = (t?: Timestamp) => (t ? timestampMs(t) : 0);
const number = (n: number | bigint) => n.toLocaleString("en");

/** Maximum number of steps that are shown. When there are more, the newest are shown. */
const mostSteps = 100;

interface Step {
  key: string;
  at: number;
  icon: IconName;
  tone?: string;
  text: ReactNode;
  seq?: bigint;
  /** True for a line about missing events or about the end of a daemon. */
  break?: boolean;
}

interface Props {
  call: Call;
  log: Log;
  earlier: () => void;
  more: "" | "busy" | "failed";
}

export function Timeline({ call, log, earlier, more }: Props) {
  const [view, setView] = useState<"steps" | "events" | "json">("steps");
  const begin = ms(call.createdAt);
  const button = (v: typeof view, text: ReactNode) => <button aria-pressed={view === v} onClick={() => setView(v)}>{text}</button>;
  const linked = useHash(), newest = log.events.at(-1)?.sequence ?? 0n; // the record is not read again for each event
  const steps = view === "steps" ? stepsOf(call, log) : [];
  useEffect(() => {
    if (linked && view === "steps" && log.caughtUp && !steps.some((s) => s.seq === linked)) setView("events"); // the linked event is not a step
  }, [linked, log.caughtUp]);
  const hidden = (log.events[0]?.sequence ?? 1n) > 1n && !log.gaps.has(log.events[0]!.sequence);
  return (
    <section className="sec" aria-labelledby="timeline-h">
      <header>
        <h2 id="timeline-h">Timeline</h2>
        <span className="seg right" role="group" aria-label="Detail">
          {button("steps", "Steps")}
          {button("events", <>Every event <span className="t3">{number(newest > call.lastSequence ? newest : call.lastSequence)}</span></>)}
          {button("json", "JSON")}
        </span>
      </header>
      {view !== "json" && hidden && (
        <p className="t3">
          Events 1 to {number(log.events[0]!.sequence - 1n)} are kept. <button className="btn sm" disabled={more === "busy"} onClick={earlier}>Read earlier events</button>
          {more === "failed" && " They could not be read; try again."}
        </p>
      )}
      {view === "steps" && (
        <ol className="tl">
          {steps.length > mostSteps && <li className="break"><span /><Icon name="more" small /><span className="txt">{number(steps.length - mostSteps)} earlier steps: see every event</span></li>}
          {steps.slice(-mostSteps).map((s) => (
            <li key={s.key} className={s.break ? "break" : linked !== undefined && s.seq === linked ? "at" : ""}>
              <span className="off num" title={s.at ? exact(new Date(s.at)) : ""}>{s.at ? offset(s.at - begin) : ""}</span>
              <Icon name={s.icon} small className={s.tone ?? ""} />
              <span className="txt">{s.text}</span>
              <Sequence n={s.seq} at={s.seq !== undefined && s.seq === linked} />
            </li>
          ))}
        </ol>
      )}
      {view === "events" && <Events log={log} begin={begin} linked={linked} />}
      {view === "json" && <Json call={call} />}
    </section>
  );
}

/** Returns the sequence after # in the address. */
function useHash(): bigint | undefined {
  const read = () => (/^#[0-9]{1,15}$/.test(location.hash) ? BigInt(location.hash.slice(1)) : undefined);
  const [at, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return at;
}

function Sequence({ n, at }: { n?: bigint; at: boolean }) {
  const ref = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (at) ref.current?.scrollIntoView({ block: "center" });
  }, [at]);
  if (n === undefined) return <span className="seq" />;
  return <span className="seq num"><a ref={ref} href={`#${n}`}>#{number(n)}</a></span>;
}

const offset = (d: number) => (d <= 0 ? "0 s" : "+" + span(d));

function stepsOf(call: Call, log: Log): Step[] {
  const steps: Step[] = [];
  const events = log.events;
  const gap = (before: bigint) => {
    const g = log.gaps.get(before);
    if (g) steps.push({ key: `gap${before}`, at: 0, icon: "warn", break: true, text: gapText(g) });
  };
  events.forEach((e, i) => {
    gap(e.sequence);
    if (e.event.case === "output") return;
    const next = events[i + 1]?.event.case;
    // When only output separates progress events, the last of these is shown.
    if (e.event.case === "progress" && (next === "progress" || (next === "output" && events[i + 2]?.event.case === "progress"))) return;
    if (e.event.case === "accepted") {
      steps.push(stepOf(e, call));
      for (const v of call.verdicts) {
        if (v.action === VerdictAction.ALLOW && !v.answered && call.decisions.length === 0) steps.push({ key: `v${v.gate}`, at: ms(v.time) + took(v), icon: "ok", tone: "ok", text: <><b><Text most={64}>{v.gate}</Text></b> allows</> });
      }
      return;
    }
    if (e.event.case === "attemptStarted") {
      const n = e.event.value.attempt, a = call.attempts[n - 1], before = call.attempts[n - 2];
      if (before?.end === AttemptEnd.LOST)
        steps.push({
          key: `lost${n}`, at: 0, icon: "x", break: true,
          text: a && before.epoch !== a.epoch ? `The daemon ended while attempt ${n - 1} ran; epoch ${number(a.epoch)} began. How far that attempt got is not known.` : `The end of attempt ${n - 1} was not observed. The tool may run again, so it does.`,
        });
    }
    steps.push(stepOf(e, call));
  });
  for (const g of log.gaps.values()) if (!events.some((e) => e.sequence === g.firstKept)) steps.push({ key: `gap${g.firstKept}`, at: 0, icon: "warn", break: true, text: gapText(g) });
  return steps;
}

export const took = (v: Verdict) => Number(v.duration?.seconds ?? 0n) * 1000 + (v.duration?.nanos ?? 0) / 1e6;

export function gapText(g: Gap): string {
  switch (g.reason) {
    case GapReason.TRIMMED:
      return g.firstKept > 1n ? `Events before ${number(g.firstKept)} are no longer kept (TRIMMED).` : "The events are no longer kept (TRIMMED).";
    case GapReason.LOST_TAIL:
      return `Events from ${number(g.firstKept)} on were lost in a crash before they were stored (LOST_TAIL). The log continues at ${number(g.firstKept)} in epoch ${number(g.epoch)}.`;
    case GapReason.CORRUPT:
      return `Events before ${number(g.firstKept)} are damaged and cannot be read (CORRUPT).`;
  }
  return "Events are missing here.";
}

function stepOf(e: CallEvent, call: Call): Step {
  const step = (icon: IconName, text: ReactNode, tone = ""): Step => ({ key: `e${e.sequence}`, at: ms(e.time), icon, tone, text, seq: e.sequence });
  const d = (text: ReactNode) => <span className="d"> {text}</span>;
  const { event } = e;
  switch (event.case) {
    case "accepted":
      return step("new", <>Accepted{call.rewrittenBy.length > 0 && d(<>rewritten by <b><Text most={200}>{call.rewrittenBy.join(", ")}</Text></b></>)}</>);
    case "queued":
      return step("clock", <>Queued{d(waits(event.value))}</>);
    case "attemptStarted": {
      const a = call.attempts[event.value.attempt - 1];
      return step("run", <><b>Attempt {event.value.attempt}</b> started{a && d(<>epoch {number(a.epoch)}</>)}</>, a && !a.endedAt && call.status === CallStatus.RUNNING ? "run" : "");
    }
    case "statusChanged":
      return step("resume", <>{shown({ status: event.value.status, executed: Executed.UNSPECIFIED }).word}</>);
    case "gateDecided":
      return verdictStep(event.value.verdict!, step, d);
    case "progress": {
      const p = event.value;
      return step("status", <>{p.fraction > 0 && <b className="num">{Math.round(Math.min(p.fraction, 1) * 100)} % </b>}<Text most={300}>{p.message}</Text></>);
    }
    case "activitySnapshot":
      return step("edit", <>Activity <b><Text most={64}>{event.value.activityId}</Text></b>{d(<Text most={64}>{event.value.activityType}</Text>)}</>);
    case "activityDelta":
      return step("edit", <>Activity <b><Text most={64}>{event.value.activityId}</Text></b>{d("changed")}</>);
    case "suspended":
      return step("wait", <>Waits for an answer{d(<><Text most={300}>{event.value.suspension?.message ?? ""}</Text></>)}</>, "wait");
    case "voteRecorded":
      return step("user", <><b><Text most={128}>{event.value.vote?.voter?.subject ?? ""}</Text></b> voted{d(`${event.value.votes} of ${event.value.needed}`)}</>);
    case "claimed":
      return step("eye", event.value.claim ? <><b><Text most={128}>{event.value.claim.claimedBy?.subject ?? ""}</Text></b> looks at it</> : "The claim was released");
    case "resumed":
      return step("user", <DecisionText decision={event.value.decision!} />);
    case "cancelRequested": {
      const r = event.value.request;
      return step("stop", <>Cancel requested{r?.requestedBy && <> by <b><Text most={128}>{r.requestedBy.subject}</Text></b></>}{d(<Text most={300}>{r?.reason || r?.cause || ""}</Text>)}</>, "fail");
    }
    case "documentChanged":
      return step("file", <>Document <b><Text most={128}>{event.value.key}</Text></b>{d(`revision ${number(event.value.revision)}`)}</>);
    case "stateConflict":
      return step("warn", <>A change of the document <b><Text most={128}>{event.value.key}</Text></b> was dropped</>, "wait");
    case "finished": {
      const { icon, tone, word } = shown(event.value);
      return step(icon, <b>{word}</b>, tone === "none" ? "" : tone);
    }
    case "output":
      return step("calls", <>{number(event.value.length)} bytes on <Text most={64}>{event.value.stream}</Text>{d(`at ${number(event.value.offset)}`)}</>);
  }
  return step("unknown", "An event that this page does not know");
}

function verdictStep(v: Verdict, step: (i: IconName, t: ReactNode, tone?: string) => Step, d: (t: ReactNode) => ReactNode): Step {
  const says: Partial<Record<VerdictAction, [IconName, string, string]>> = {
    [VerdictAction.ALLOW]: ["ok", "allows", "ok"], [VerdictAction.BLOCK]: ["deny", "blocks the run", "fail"], [VerdictAction.DENY]: ["deny", "denies", "fail"],
    [VerdictAction.SUSPEND]: ["wait", "asks", "wait"], [VerdictAction.SET_RESULT]: ["edit", "gives the result", ""], [VerdictAction.FAILED]: ["warn", "failed", "fail"],
  };
  const [icon, text, tone] = says[v.action] ?? ["unknown", "decided", ""];
  return step(icon, <><b><Text most={64}>{v.gate}</Text></b> {text}{v.rule && <>: rule “<Text most={128}>{v.rule}</Text>”</>}{v.overruled && ", overruled"}{v.reason && d(<Text most={500}>{v.reason}</Text>)}</>, tone);
}

export function DecisionText({ decision }: { decision: Decision }) {
  const kept = decision.remember ? ", kept" : "";
  const what = decision.resultInstead ? "gave the result in the tool’s place" : decision.action === DecisionAction.CANCEL ? "declined" : decision.arguments ? "approved edited arguments" : decision.result ? "answered" : "approved";
  return (
    <>
      <b><Text most={128}>{decision.decidedBy?.subject ?? "the daemon"}</Text></b> {what}{kept}
      {decision.reason && <span className="d"> <Text most={500}>{decision.reason}</Text></span>}
      {decision.expectedDigest && <span className="d"> digest <code title={decision.expectedDigest}>{decision.expectedDigest.slice(0, 8)}…</code></span>}
    </>
  );
}

export function waits(q: CallQueued): string {
  const ahead = q.ahead > 0 ? `, ${number(q.ahead)} ahead` : "";
  switch (q.reason) {
    case QueueReason.THREAD:
      return `behind earlier calls of its thread${ahead}`;
    case QueueReason.DAEMON:
      return `all ${number(q.limit)} places of the daemon are taken${ahead}`;
    case QueueReason.NAMESPACE:
      return `all ${number(q.limit)} places of the namespace are taken${ahead}`;
    case QueueReason.PRINCIPAL:
      return `all ${number(q.limit)} places of the caller are taken${ahead}`;
    case QueueReason.TOOL:
      return `all ${number(q.limit)} places of the tool are taken${ahead}`;
    case QueueReason.HOLD:
      return "until the work of an earlier daemon has surely ended";
  }
  return "";
}

function Events({ log, begin, linked }: { log: Log; begin: number; linked?: bigint }) {
  const box = useRef<HTMLOListElement>(null);
  const [open, setOpen] = useState<bigint>();
  const rows = useVirtualizer({ count: log.events.length, getScrollElement: () => box.current, estimateSize: () => 22, overscan: 10 });
  useEffect(() => {
    const i = log.events.findIndex((e) => e.sequence === linked);
    if (i >= 0) rows.scrollToIndex(i, { align: "center" });
  }, [linked, log.caughtUp]);
  return (
    <ol className="events" ref={box} tabIndex={0} aria-label="Events">
      <li className="spacer" aria-hidden="true" style={{ height: rows.getTotalSize() }} />
      {rows.getVirtualItems().map((v) => {
        const e = log.events[v.index]!;
        const g = log.gaps.get(e.sequence);
        return (
          <li key={v.key} ref={rows.measureElement} data-index={v.index} className={e.sequence === linked ? "at" : ""} style={{ transform: `translateY(${v.start}px)` }}>
            {g && <p className="d">{gapText(g)}</p>}
            <span className="seq num"><a href={`#${e.sequence}`}>#{number(e.sequence)}</a></span>
            <span className="off num" title={e.time ? exact(new Date(ms(e.time))) : ""}>{offset(ms(e.time) - begin)}</span>
            <button className="btn bare sm" aria-expanded={open === e.sequence} onClick={() => setOpen(open === e.sequence ? undefined : e.sequence)}>{e.event.case ?? "unknown"}</button>
            {open === e.sequence && <pre className="code"><Text>{toJsonString(CallEventSchema, e, { prettySpaces: 2 })}</Text></pre>}
          </li>
        );
      })}
    </ol>
  );
}

function Json({ call }: { call: Call }) {
  const text = toJsonString(CallSchema, call, { prettySpaces: 2 });
  return (
    <>
      <div><Copy text={text} label="Copy the record" /></div>
      <div className="code"><pre tabIndex={0} aria-label={`Record of the call ${oneLine(call.callId, 64)}`}><Text most={20_000}>{text}</Text></pre></div>
    </>
  );
}

/** Shows how the time of a call was spent. */
export function TimeBar({ call, log, now }: { call: Call; log: Log; now: number }) {
  const parts = spent(call, log, now);
  const all = parts.reduce((sum, p) => sum + p.ms, 0);
  if (all <= 0) return null;
  return (
    <section className="sec" aria-labelledby="time-h">
      <header>
        <h2 id="time-h">Where the time went</h2>
        <span className="t3 num">{span(all)}</span>
      </header>
      <div className="where" role="img" aria-label={`Of ${span(all)}: ${parts.map((p) => `${span(p.ms)} ${p.word}`).join(", ")}`}>
        {parts.map((p, i) => <i key={i} className={p.kind} style={{ flexGrow: p.ms }} title={`${p.word}, ${span(p.ms)}`} />)}
      </div>
      <p className="legend">
        {parts.filter((p) => p.ms >= all / 100 || parts.length < 6).map((p, i) => <Fragment key={i}><span><i className={p.kind} />{p.word} {span(p.ms)}</span></Fragment>)}
      </p>
    </section>
  );
}

/** Splits the time of a call at the points at which its activity changed. */
function spent(call: Call, log: Log, now: number): { kind: string; word: string; ms: number }[] {
  const end = call.endedAt ? ms(call.endedAt) : now;
  type Point = { at: number; kind: string; word: string };
  const points: Point[] = [{ at: ms(call.createdAt), kind: "pre", word: "checked" }];
  for (const e of log.events) {
    if (e.event.case === "suspended") points.push({ at: ms(e.time), kind: "person", word: "waited for a person" });
    if (e.event.case === "resumed") points.push({ at: ms(e.time), kind: "pre", word: "resumed" });
    if (e.event.case === "queued") points.push({ at: ms(e.time), kind: "queue", word: "queued" });
  }
  for (const a of call.attempts) {
    points.push({ at: ms(a.startedAt), kind: a.end === AttemptEnd.LOST ? "lost" : "work", word: `attempt ${a.attempt}${a.end === AttemptEnd.LOST ? ", lost" : ""}` });
    if (a.endedAt && a.end !== AttemptEnd.SUSPENDED) points.push({ at: ms(a.endedAt), kind: "pre", word: "finished" });
  }
  points.sort((a, b) => a.at - b.at);
  const parts: { kind: string; word: string; ms: number }[] = [];
  points.forEach((p, i) => {
    const length = Math.min(points[i + 1]?.at ?? end, end) - p.at;
    if (length > 0) parts.push({ kind: p.kind, word: p.word, ms: length });
  });
  return parts;
}
