/** A run as a conversation: the texts of the model, and its calls. */
import { Link } from "wouter";
import { CallStatus, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { Icon } from "../../parts/Icon.tsx";
import { shown } from "../../parts/Status.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { clock, exact, span, useNow } from "../../parts/Time.tsx";
import { answerers, ended, ms, total, type Tree } from "./model.ts";
import { runPath, State } from "./parts.tsx";

/** The calls of one turn: all calls of a batch, or one call without a batch. */
interface Turn {
  key: string;
  calls: Call[];
}

function turns(calls: Call[]): Turn[] {
  const out: Turn[] = [];
  const batches = new Map<string, Turn>();
  for (const c of calls) {
    let turn = c.batchId ? batches.get(c.batchId) : undefined;
    if (!turn) {
      out.push((turn = { key: c.callId, calls: [] }));
      if (c.batchId) batches.set(c.batchId, turn);
    }
    turn.calls.push(c);
  }
  return out;
}

export function Conversation({ tree, selected, select }: { tree: Tree; selected: string; select: (id: string) => void }) {
  const agent = tree.run.agentId;
  return turns(tree.calls).map((t) => (
    <div className="stack tight" key={t.key}>
      {t.calls.map((c) => (
        <div className="stack tight" key={c.callId}>
          {c.modelReason && <Said agent={agent} call={c} />}
          <Card call={c} selectedId={selected} select={select} children={tree.children.filter((r) => r.run.parentCallId === c.callId)} />
        </div>
      ))}
    </div>
  ));
}

function Said({ agent, call }: { agent: string; call: Call }) {
  const at = new Date(ms(call.createdAt));
  return (
    <div className="msg out">
      <span className="who">
        <Icon name="runs" small />
        {oneLine(agent, 60) || "The model"} ·{" "}
        <time dateTime={at.toISOString()} title={exact(at)}>
          {clock(at)}
        </time>
      </span>
      <div className="said pre"><Text most={1200}>{call.modelReason}</Text></div>
    </div>
  );
}

function Card({ call: c, selectedId, select, children }: { call: Call; selectedId: string; select: (id: string) => void; children: Tree[] }) {
  const { tone, icon, word } = shown(c);
  return (
    <>
      <Link className="ccard" href={`/calls/${encodeURIComponent(c.callId)}`} aria-current={selectedId === c.callId || undefined} onPointerEnter={() => select(c.callId)} onFocus={() => select(c.callId)}>
        <Icon name={icon} small className={`${tone}${c.status === CallStatus.RUNNING ? " spin" : ""}`} label={word} />
        <span className="cut">
          <code>{oneLine(c.tool, 64)}</code> {oneLine(title(c), 160)}
        </span>
        <Took call={c} />
        <Detail call={c} />
      </Link>
      {children.map((r) => (
        <div key={r.run.runId} className="msg sub stack tight">
          <span className="who">
            <Icon name="fork" small />
            <Link href={runPath(r.run.runId)}>run {oneLine(r.run.runId, 60)}</Link> {oneLine(r.run.agentId, 60)} · {total(r.run.calls)} calls · <State run={r.run} />
          </span>
          <Conversation tree={r} selected={selectedId} select={select} />
        </div>
      ))}
    </>
  );
}

/** Returns the title without the tool's name, because the page shows the name before it. */
export const title = (c: Call) => {
  const t = c.description?.title ?? "";
  return t === c.tool ? "" : t.startsWith(c.tool + " ") ? t.slice(c.tool.length + 1) : t;
};

function Took({ call: c }: { call: Call }) {
  const now = useNow(1000);
  return <span className="num t3">{took(c, now)}</span>;
}

/** Says how long a call took, or has taken so far. */
export function took(c: Call, now: number): string {
  const from = c.status === CallStatus.SUSPENDED ? ms(c.suspension?.createdAt) : ms(c.attempts.at(-1)?.startedAt) || ms(c.createdAt);
  const to = ended(c) ? ms(c.endedAt) : now;
  return span(Math.max(0, ended(c) ? to - from : Math.floor((to - from) / 1000) * 1000));
}

function Detail({ call: c }: { call: Call }) {
  const d = c.decisions.at(-1);
  const text = c.suspension
    ? `waits for ${answerers(c.suspension)}`
    : c.result?.error
      ? c.result.error.message
      : d
        ? `${d.decidedBy?.subject ?? "somebody"} decided`
        : "";
  return text ? <span className="d cut">{oneLine(text, 200)}</span> : null;
}
