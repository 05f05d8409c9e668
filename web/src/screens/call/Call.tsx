/** The page of one call: its current state, its output, its events, and its facts. */
import { useQuery } from "@tanstack/react-query";
import { Code, ConnectError } from "@connectrpc/connect";
import { useCallback, useEffect, useReducer, useRef, useState, type FormEvent } from "react";
import { Link, useLocation, useParams } from "wouter";
import { CallStatus, Executed, type Call as Record } from "../../../gen/toold/v1/call_pb.ts";
import type { CallEvent, CallQueued } from "../../../gen/toold/v1/event_pb.ts";
import { ErrorCode } from "../../../gen/toold/v1/result_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { calls } from "../../api/clients.ts";
import { toFailure } from "../../api/errors.ts";
import { tryNow, type Live } from "../../api/live.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow, say, toast } from "../../parts/say.ts";
import { setLive } from "../../parts/Shell.tsx";
import { Banner, Empty, Failure, Note, Skeleton } from "../../parts/small.tsx";
import { shown, Status } from "../../parts/Status.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { clock, span, useNow } from "../../parts/Time.tsx";
import { Activities } from "./activity.ts";
import { command, forms } from "./command.ts";
import { Facts } from "./Facts.tsx";
import { useLog } from "./log.ts";
import { filesOf, Output } from "./Output.tsx";
import { Stream } from "./stream.ts";
import { ms, TimeBar, Timeline, waits } from "./Timeline.tsx";
import "./call.css";

const terminal = (c: Record) => c.status === CallStatus.SUCCEEDED || c.status === CallStatus.FAILED || c.status === CallStatus.CANCELLED;

export default function Call() {
  const { id = "" } = useParams<{ id: string }>();
  return <Page key={id} id={id} />;
}

function Page({ id }: { id: string }) {
  const { data: call, error, refetch } = useQuery({
    queryKey: ["call", id],
    queryFn: async () => (await calls.getCall({ callId: id })).call!,
    retry: (n, e) => n < 3 && !(e instanceof ConnectError && e.code === Code.NotFound),
    refetchOnWindowFocus: false,
  });
  const name = useOutputName();
  const streams = useRef(new Map<string, Stream>());
  const [, changed] = useReducer((n: number) => n + 1, 0);
  const stream = useCallback((n: string) => {
    let s = streams.current.get(n);
    if (!s) {
      s = new Stream(id, n);
      streams.current.set(n, s);
      changed();
    }
    return s;
  }, [id]);
  const onOutput = (e: CallEvent) => {
    if (e.event.case !== "output") return;
    const { stream: n, offset, data, length } = e.event.value;
    stream(n).take(Number(offset), data, Number(length));
  };
  const onLostTail = () => streams.current.forEach((s) => s.again());
  const { log, live, earlier, more } = useLog(id, call?.lastSequence, onOutput, onLostTail);
  // Reads the output that is older than the events on the page.
  useEffect(() => {
    if (name && !(call && filesOf(call).some((a) => a.name === name))) stream(name);
    for (const a of call ? filesOf(call) : []) if (["stdout", "stderr", "pty"].includes(a.name)) stream(a.name);
  }, [name, call?.result]);
  useEffect(() => {
    setLive(live.state !== "lost");
    if (live.state === "live") streams.current.forEach((s) => s.error && s.again());
  }, [live.state]);
  useEffect(() => () => setLive(true), []);
  const word = call && shown(call).word;
  const before = useRef(word);
  useEffect(() => {
    if (before.current && word && before.current !== word) say(`The call is now: ${word}`);
    before.current = word;
    if (call) document.title = `${oneLine(call.tool, 40)}: ${word} · toold`;
  }, [word]);

  if (!call) {
    if (!error) return <Skeleton rows={10} />;
    if (error instanceof ConnectError && error.code === Code.NotFound) return <Unknown id={id} />;
    return <Failure error={error} what="The call was not read. Nothing was changed." again={() => void refetch()} />;
  }
  return (
    <>
      <Header call={call} live={live} />
      <Lost call={call} live={live} error={error} />
      <div className="body" tabIndex={-1}>
        <div className="two">
          <div className="main">
            <Now call={call} events={log.events} />
            <Spent call={call} log={log} />
            <Output call={call} streams={streams.current} name={name} live={!terminal(call)} />
            <Timeline call={call} log={log} earlier={() => void earlier().then(changed)} more={more} />
            <Arguments call={call} />
          </div>
          <Facts call={call} />
        </div>
      </div>
    </>
  );
}

/**
 * Returns the name of the stream or artifact in the address. It does not use the router: the router decodes some escapes, and a second decoding fails
 * for a name such as `100%`.
 */
function useOutputName(): string {
  useLocation();
  const part = /^\/calls\/[^/]*\/output\/(.+)$/.exec(location.pathname)?.[1] ?? "";
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function Unknown({ id }: { id: string }) {
  return (
    <Empty title="There is no such call">
      No call {oneLine(id, 64)} is in your namespace, or you may not see it. The daemon keeps calls for some days; a read-only call of the last moment before a crash may be lost. <Link href="/calls">All calls</Link>
    </Empty>
  );
}

function Spent({ call, log }: { call: Record; log: Parameters<typeof TimeBar>[0]["log"] }) {
  const now = useNow(1000);
  return <TimeBar call={call} log={log} now={Math.max(now, Date.now() - 1000)} />;
}

function Lost({ call, live, error }: { call: Record; live: Live; error: unknown }) {
  useNow(1000);
  if (live.state === "lost")
    return (
      <Banner tone="wait" action="Try now" onAction={tryNow}>
        Connection lost at {clock(new Date(live.since))}. What you see is as it was then. Trying again{live.again > Date.now() && ` in ${span(Math.ceil((live.again - Date.now()) / 1000) * 1000)}`}.
      </Banner>
    );
  if (live.state === "ended" && live.code === Code.NotFound)
    return <Banner tone="fail">The daemon does not know this call any more. A crash lost it before it was stored, or its retention ended. What you see is the last that was known.</Banner>;
  if (live.state === "ended" && live.message && !terminal(call)) return <Banner tone="fail">The daemon does not send this call’s events: <Text most={300}>{live.message}</Text></Banner>;
  if (error) return <Banner tone="wait">The record was not read again. What you see may be old.</Banner>;
  return null;
}

type Asking = "" | "cancel" | "retry";

function Header({ call, live }: { call: Record; live: Live }) {
  const [, go] = useLocation();
  const { me, has } = useSession();
  const [asking, ask] = useState<Asking>("");
  const own = call.caller?.subject === me.principal?.subject;
  const ended = terminal(call), lost = live.state === "lost" || me.readOnly;
  const mayCancel = !ended && !lost && (has(Role.OPERATOR) || (own && has(Role.CALLER, Role.DELEGATE)));
  const failed = call.status === CallStatus.FAILED || call.status === CallStatus.CANCELLED;
  const mayRetry = failed && !lost && own && has(Role.CALLER, Role.DELEGATE) && !call.purge && !call.leftOut.includes("requested_arguments");
  const why = !ended ? "The call has not ended" : !failed ? "Only a call that failed or was cancelled" : !own ? "Only its caller" : !mayRetry ? "Not now" : "";
  useKeys({
    "shift+c": () => mayCancel && ask("cancel"),
    r: () => call.run?.runId && go(`/runs/${encodeURIComponent(call.run.runId)}`),
    escape: () => (asking ? ask("") : go("/calls")),
  });
  useEffect(() => {
    if (asking === "cancel" && !mayCancel) ask("");
  }, [mayCancel]);
  const title = call.description?.title;
  const attempts = call.attempts.length;
  return (
    <>
      <header className="bar callbar">
        <Link className="btn bare icon" href="/calls" aria-label="Back to calls">
          <Icon name="left" />
        </Link>
        <h1 className="cut">
          <code className="b"><Text most={64}>{call.tool}</Text></code> {title && title !== call.tool && <span className="t2"><Text most={200}>{oneLine(title, 200)}</Text></span>}
        </h1>
        <span className="nowrap"><Status call={call} />{attempts > 1 && <span className="t3"> attempt {attempts}</span>}</span>
        <div className="right rowx">
          <CopyAs call={call} />
          <button className="btn bare icon wide" aria-label="Copy the link" onClick={() => void navigator.clipboard.writeText(location.href).then(() => toast("Link copied."))}>
            <Icon name="copy" small />
          </button>
          {ended ? (
            <button className="btn" aria-disabled={!mayRetry} title={why} onClick={() => mayRetry && ask("retry")}>
              <Icon name="again" small /> Retry
            </button>
          ) : (
            <button className="btn bad" aria-disabled={!mayCancel} title={mayCancel ? "" : "Only its caller and operators"} onClick={() => mayCancel && ask("cancel")}>
              <Icon name="stop" small /> Cancel <kbd>C</kbd>
            </button>
          )}
        </div>
      </header>
      {asking === "cancel" && <Cancel call={call} close={() => ask("")} />}
      {asking === "retry" && <Retry call={call} close={() => ask("")} />}
    </>
  );
}

function CopyAs({ call }: { call: Record }) {
  const copy = async (form: (typeof forms)[number]) => {
    const c = command(call, form, location.origin);
    if ("none" in c) return toast(`Not copied: ${c.none}`);
    await navigator.clipboard.writeText(c.text);
    toast(`Copied as ${form}.`);
  };
  return (
    <>
      <span className="t3 wide">Copy as</span>
      <span className="seg wide" role="group" aria-label="Copy as">
        {forms.map((f) => <button key={f} onClick={() => void copy(f)}>{f}</button>)}
      </span>
    </>
  );
}

function Cancel({ call, close }: { call: Record; close: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const send = async (e: FormEvent) => {
    e.preventDefault();
    setBusy(true);
    try {
      await calls.cancelCall({ callId: call.callId, reason: field.current!.value });
      close();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return (
    <form className="askbar no" aria-label="Cancel the call" onSubmit={(e) => void send(e)} onKeyDown={(e) => e.key === "Escape" && (e.stopPropagation(), close())}>
      <label className="grow rowx">
        <span>Cancel this call{call.status === CallStatus.RUNNING && ", and stop its processes"}?</span>
        <input ref={field} className="inp grow" maxLength={1000} placeholder="Reason, for the record" aria-label="Reason" />
      </label>
      {error !== undefined && <span role="alert">Not cancelled: {oneLine(reasonOf(error), 200)}</span>}
      <button type="submit" className="btn bad" disabled={busy}>Cancel the call</button>
      <button type="button" className="btn" onClick={close}>Keep it <kbd>esc</kbd></button>
    </form>
  );
}

const reasonOf = (e: unknown) => (e instanceof ConnectError ? toFailure(e).message : String(e));

function Retry({ call, close }: { call: Record; close: () => void }) {
  const [, go] = useLocation();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const id = useRef(crypto.randomUUID()); // a second try uses the same id, so that nothing runs twice
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  const send = async () => {
    setBusy(true);
    try {
      await calls.callTool({ spec: { callId: id.current, tool: call.tool, arguments: call.requestedArguments, run: call.run, modelCallId: call.modelCallId, timeouts: call.timeouts, retryOf: call.callId }, wait: { seconds: 0n, nanos: 1 } });
      go(`/calls/${id.current}`);
    } catch (err) {
      setError(err);
      alertNow(`The new call was not accepted: ${reasonOf(err)}`);
      setBusy(false);
    }
  };
  return (
    <div className="askbar arm" role="group" aria-label="Retry the call" onKeyDown={(e) => e.key === "Escape" && close()}>
      <span className="grow">
        A new call with the same arguments asks every gate again.{call.executed !== Executed.NOT_STARTED && <b> This one may have had effects already.</b>}
        {error !== undefined && <span className="fail"> Not accepted: {oneLine(reasonOf(error), 200)}</span>}
      </span>
      <button ref={button} className="btn go" disabled={busy} onClick={() => void send()}>Make the new call</button>
      <button className="btn" onClick={close}>Not now</button>
    </div>
  );
}

/** Shows what the call does now, or how it ended. */
function Now({ call, events }: { call: Record; events: CallEvent[] }) {
  const progress = events.findLast((e) => e.event.case === "progress")?.event;
  if (terminal(call)) return <Result call={call} />;
  if (call.status === CallStatus.SUSPENDED && call.suspension)
    return (
      <Note tone="wait" icon="wait">
        <b>Waits for an answer.</b> <Text most={500}>{call.suspension.message}</Text> <Link href={`/inbox/${encodeURIComponent(call.suspension.suspensionId)}`}>Open the ticket</Link>
      </Note>
    );
  const p = progress?.case === "progress" ? progress.value : undefined;
  const queued = call.status === CallStatus.NEW || call.status === CallStatus.RESUMING ? events.findLast((e) => e.event.case === "queued") : undefined;
  const part = p ? Math.min(1, p.fraction || (p.total > 0n ? Number(p.loaded) / Number(p.total) : 0)) : 0;
  return (
    <section className="stack tight" aria-label="Progress">
      <div className="rowx">
        <Status call={call} />
        {p && <span className="t2"><Text most={300}>{p.message}</Text></span>}
        {part > 0 && <span className="right num b">{Math.round(part * 100)} %</span>}
      </div>
      {part > 0 && (
        <div className="prog" role="progressbar" aria-valuenow={Math.round(part * 100)} aria-valuemin={0} aria-valuemax={100} aria-label="Progress">
          <i style={{ width: `${part * 100}%` }} />
        </div>
      )}
      {queued?.event.case === "queued" && <Queued since={ms(queued.time)} value={queued.event.value} />}
      <Shown events={events} />
    </section>
  );
}

/** Shows why a call has not started. Its place is from the time when it was queued. It has no current place, because free slots go to namespaces and callers in turn. */
function Queued({ since, value }: { since: number; value: CallQueued }) {
  const now = useNow(1000);
  return (
    <Note icon="clock">
      <b>Queued for {span(Math.max(0, now - since))}</b>: {waits(value)}{value.ahead > 0 && " when it was queued"}.
    </Note>
  );
}

/** The newest activities, as text. */
function Shown({ events }: { events: CallEvent[] }) {
  const activities = useRef(new Activities());
  return activities.current.read(events).slice(-5).map((a) => (
    <details key={a.id}>
      <summary>
        Activity <Text most={64}>{a.id}</Text> <span className="t3"><Text most={64}>{a.type}</Text>{a.changes > 0 && ` changed ${a.changes === 1 ? "once" : `${a.changes.toLocaleString("en")} times`}`}</span>
      </summary>
      {a.missing && <p className="t2">Changes are missing here: <Text most={300}>{a.missing}</Text>.</p>}
      {a.text && <div className="code"><pre><Text>{a.text}</Text></pre></div>}
    </details>
  ));
}

function Result({ call }: { call: Record }) {
  const [data, setData] = useState(false);
  const r = call.result;
  const doubt = shown(call).tone === "doubt";
  const text = r?.modelText || r?.message || r?.data || "";
  const killed = r?.processes?.killed.length ?? 0;
  return (
    <section className="sec" aria-label="Result">
      <header>
        <span className="b"><Status call={call} /></span>
        <span className="t2">{call.createdAt && call.endedAt && `after ${span(ms(call.endedAt) - ms(call.createdAt))}`}{call.attempts.length > 1 && `, on attempt ${call.attempts.length}`}</span>
        {r && r.data && r.data !== text && (
          <span className="seg right" role="group" aria-label="Form">
            <button aria-pressed={!data} onClick={() => setData(false)}>What the model read</button>
            <button aria-pressed={data} onClick={() => setData(true)}>Data</button>
          </span>
        )}
      </header>
      {doubt && (
        <Note tone="doubt" icon="doubt">
          <b>It is not known whether this ran.</b> Nobody saw the end of its last attempt, so it may have had its effects, wholly or in part. toold does not run it again by itself. Look at what it would have changed before you retry it.
        </Note>
      )}
      {call.purge ? (
        <Note icon="trash">The content of this call was erased by <Text most={128}>{call.purge.purgedBy?.subject ?? ""}</Text>.</Note>
      ) : (
        <>
          {r?.error && (
            <p className="t2">
              <code>{ErrorCode[r.error.code]}</code> {r.error.reason && <code><Text most={100}>{r.error.reason}</Text></code>} {r.error.retryable && "A retry may succeed."}
            </p>
          )}
          {text && <div className="code"><pre tabIndex={0} aria-label="Result"><Text most={8000}>{data ? pretty(r!.data) : text}</Text></pre></div>}
          {r?.truncated && <p className="t3">The result was cut. All of it is under Output.</p>}
        </>
      )}
      {r?.processes?.killUnverified ? (
        <Note tone="doubt" icon="warn">A process of the call may still run: its end was not observed.</Note>
      ) : (
        killed > 0 && <p className="t3">{killed} {killed === 1 ? "process was" : "processes were"} killed. No process of the call is alive.</p>
      )}
    </section>
  );
}

/** Indents JSON. It does not use `JSON.parse`, which would change large numbers. */
function pretty(json: string): string {
  if (json.length > 200_000) return json;
  let out = "", depth = 0, inText = false;
  const line = () => "\n" + "  ".repeat(Math.min(depth, 64));
  for (let i = 0; i < json.length; i++) {
    const c = json[i]!;
    if (inText) {
      out += c;
      if (c === "\\") out += json[++i] ?? "";
      else if (c === '"') inText = false;
    } else if (c === '"') {
      inText = true;
      out += c;
    } else if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      if (json[i + 1] === close) out += c + json[++i];
      else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

function Arguments({ call }: { call: Record }) {
  const differ = call.rewrittenBy.length > 0 || call.decisions.some((d) => d.arguments);
  const [requested, setRequested] = useState(false);
  const text = requested || !call.effectiveArguments ? call.requestedArguments : call.effectiveArguments;
  if (call.purge) return null;
  const left = call.leftOut.some((f) => f.endsWith("_arguments"));
  return (
    <section className="sec" aria-label="Arguments">
      <header>
        <h2>Arguments</h2>
        {call.rewrittenBy.length > 0 && <span className="t3">changed by <Text most={200}>{call.rewrittenBy.join(", ")}</Text></span>}
        {differ && (
          <span className="seg right" role="group" aria-label="Form of the arguments">
            <button aria-pressed={requested} onClick={() => setRequested(true)}>Requested</button>
            <button aria-pressed={!requested} onClick={() => setRequested(false)}>Effective</button>
          </span>
        )}
      </header>
      {left ? <Note>The arguments are too large for this page. <code>toold calls get</code> shows them.</Note> : <div className="code"><pre tabIndex={0} aria-label="Arguments"><Text most={8000}>{pretty(text || "{}")}</Text></pre></div>}
    </section>
  );
}
