/** The calls of a run and of the runs below it on one time axis. */
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { CallStatus, type Call } from "../../../gen/toold/v1/call_pb.ts";
import { Icon } from "../../parts/Icon.tsx";
import { shown } from "../../parts/Status.tsx";
import { oneLine } from "../../parts/Text.tsx";
import { clock, exact, span, useNow } from "../../parts/Time.tsx";
import { title, took } from "./Conversation.tsx";
import { ended, runsOf, scale, segments, total, type Scale, type Segment, type Tree } from "./model.ts";
import { runPath } from "./parts.tsx";

interface Row {
  key: string;
  depth: number;
  call?: Call;
  child?: Tree;
  parts: Segment[];
}

/** Returns one row for each call. The calls of each child run follow a row for that run. */
function rowsOf(tree: Tree, now: number, depth = 0): Row[] {
  return tree.calls.flatMap((call) => [
    { key: call.callId, depth, call, parts: segments(call, now) },
    ...tree.children.filter((c) => c.run.parentCallId === call.callId).flatMap((child) => [{ key: `run ${child.run.runId}`, depth: depth + 1, child, parts: [] }, ...rowsOf(child, now, depth + 1)]),
  ]);
}

export function Waterfall({ tree, selected, select, paused, pause }: { tree: Tree; selected: string; select: (id: string) => void; paused: boolean; pause: () => void }) {
  const [fold, setFold] = useState(true);
  const [stopped, stop] = useState(0);
  const running = useNow(1000);
  const now = paused ? stopped : running;
  const rows = useMemo(() => rowsOf(tree, now), [tree, now]);
  const all = rows.flatMap((r) => r.parts);
  const s = useMemo(() => (all.length > 0 ? scale(all, fold) : undefined), [rows, fold]);
  const runs = runsOf(tree);
  const count = runs.reduce((sum, r) => sum + total(r.run.calls), 0);
  const press = () => {
    stop(running);
    pause();
  };
  return (
    <>
      <div className="filters">
        <h2>
          {count} {count === 1 ? "call" : "calls"}, {runs.length} {runs.length === 1 ? "run" : "runs"}
        </h2>
        {s && <span className="t3 num">{span(s.end - s.start)}</span>}
        <span className="right rowx">
          <span className="seg" role="group" aria-label="Waits">
            <button aria-pressed={fold} onClick={() => setFold(true)}>Waits folded</button>
            <button aria-pressed={!fold} onClick={() => setFold(false)}>True scale</button>
          </span>
          <button className="btn sm" aria-pressed={paused} onClick={press}>
            <span>{paused ? "Paused" : "Live"}</span> <kbd>p</kbd>
          </button>
        </span>
      </div>
      {s && (
        <div className="wfx" tabIndex={0} role="region" aria-label="Calls over time">
          <div className="wf">
            <Axis scale={s} />
            {rows.map((r) => (r.call ? <CallRow key={r.key} row={r} call={r.call} scale={s} now={now} selected={selected === r.key} select={select} /> : <RunRow key={r.key} row={r} scale={s} now={now} />))}
          </div>
        </div>
      )}
      <div className="pad legend">
        {[["ok", "ran"], ["a2", "runs"], ["w", "waits for a person"], ["q", "queued, gates"], ["x", "failed or lost"], ["f", "folded time"]].map(([cls, word]) => (
          <span key={cls}>
            <i className={`lg-${cls}`} />
            {word}
          </span>
        ))}
      </div>
    </>
  );
}

/** Returns the marks of the axis: the start, then both sides of each fold or, without folds, the quarters. */
function marks(s: Scale): { at: number; text: string; title: string }[] {
  const mark = (time: number, text: string) => ({ at: s.at(time), text, title: exact(new Date(time)) });
  const length = s.end - s.start;
  if (s.folds.length === 0) return [mark(s.start, clock(new Date(s.start))), ...[1, 2, 3].map((q) => mark(s.start + (length * q) / 4, `+${span((length * q) / 4)}`))];
  return [
    ...(s.folds[0]!.from > s.start ? [mark(s.start, clock(new Date(s.start)))] : []),
    ...s.folds.flatMap((f) => [mark(f.from, span(f.to - f.from)), ...(f.to < s.end ? [mark(f.to, clock(new Date(f.to)))] : [])]),
  ];
}

function Axis({ scale: s }: { scale: Scale }) {
  // When two marks are too close, the text of the second is left out. Its tick stays.
  const texts = marks(s).filter((m, i, all) => i === 0 || m.at - all[i - 1]!.at >= 8);
  return (
    <div className="ax">
      <span className="nm">Call</span>
      <span className="ticks">
        {texts.map((m) => (
          <span key={m.at} title={m.title} style={{ left: `${m.at}%` }}>{m.text}</span>
        ))}
      </span>
      <span className="du">Took</span>
    </div>
  );
}

function Track({ scale: s, children }: { scale: Scale; children: React.ReactNode }) {
  return (
    <span className="tr">
      {marks(s).map((m) => (
        <i key={m.at} className="tick" style={{ "--s": m.at } as React.CSSProperties} />
      ))}
      {s.folds.map((f) => (
        <i key={f.from} className="fold" style={{ left: `${s.at(f.from)}%`, width: `${s.at(f.to) - s.at(f.from)}%` }} />
      ))}
      {children}
    </span>
  );
}

const bar = (s: Scale, from: number, to: number) => ({ "--s": Math.min(99.5, s.at(from)), "--w": Math.max(0, s.at(to) - s.at(from)) }) as React.CSSProperties;

function CallRow({ row, call: c, scale: s, now, selected, select }: { row: Row; call: Call; scale: Scale; now: number; selected: boolean; select: (id: string) => void }) {
  const { tone, icon, word } = shown(c);
  return (
    <Link className="wr" href={`/calls/${encodeURIComponent(c.callId)}`} aria-current={selected || undefined} onPointerEnter={() => select(c.callId)} onFocus={() => select(c.callId)}>
      <span className="nm" style={{ "--in": row.depth } as React.CSSProperties}>
        <Icon name={icon} small className={`${tone}${c.status === CallStatus.RUNNING ? " spin" : ""}`} label={word} />
        <span className="cut">
          <code>{oneLine(c.tool, 64)}</code> {oneLine(title(c), 120)}
        </span>
      </span>
      <Track scale={s}>
        {row.parts.map((p, i) => (
          <i key={i} className={`b ${p.kind === "ok" ? "" : p.kind}`} style={bar(s, p.from, p.to)} title={`${oneLine(p.says, 120)}: ${span(p.to - p.from)}`} />
        ))}
      </Track>
      <span className="du num">{ended(c) && row.parts.length > 0 ? span(row.parts.at(-1)!.to - row.parts[0]!.from) : took(c, now)}</span>
    </Link>
  );
}

function RunRow({ row, scale: s, now }: { row: Row; scale: Scale; now: number }) {
  const t = row.child!;
  const parts = t.calls.flatMap((c) => segments(c, now));
  return (
    <div className="wr">
      <span className="nm" style={{ "--in": row.depth } as React.CSSProperties}>
        <Icon name="fork" small className="t3" />
        <Link className="cut t2" href={runPath(t.run.runId)}>
          run {oneLine(t.run.runId, 60)} {t.run.agentId && `· ${oneLine(t.run.agentId, 60)}`}
        </Link>
      </span>
      <Track scale={s}>{parts.length > 0 && <i className="b sub" style={bar(s, Math.min(...parts.map((p) => p.from)), Math.max(...parts.map((p) => p.to)))} />}</Track>
      <span className="du num">{total(t.run.calls)} calls</span>
    </div>
  );
}
