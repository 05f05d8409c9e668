/** The list of calls. */
import "./calls.css";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState, useSyncExternalStore, type FormEvent } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { tryNow, useWatch, type Live } from "../../api/live.ts";
import { type Counts, useCounts } from "../../api/counts.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { say, toast } from "../../parts/say.ts";
import { setLive } from "../../parts/Shell.tsx";
import { Banner, Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { Status } from "../../parts/Status.tsx";
import { visible } from "../../parts/Text.tsx";
import { clock, exact, span, useNow } from "../../parts/Time.tsx";
import { address, narrowed, parse, read, request, spanName, words, type Filter } from "./filter.ts";
import { CallList } from "./list.ts";
import { waited, type Row } from "./row.ts";

export default function Calls() {
  const search = useSearch();
  const filter = useMemo(() => read(search), [search]);
  const [, go] = useLocation();
  const set = (change: Partial<Filter>) => go(address({ ...filter, ...change }), { replace: true });
  const list = useList(search, filter);
  const { live, polls } = useUpdates(list);
  const pause = () => list.pause(!list.paused);
  useKeys({ p: pause });
  useEffect(() => void (document.title = "Calls · toold"), []);
  return (
    <>
      <header className="bar top">
        <h1>Calls</h1>
        <span className="t3 wide">{spanName(filter.since)}</span>
        <div className="right rowx callsbar">
          <Search filter={filter} set={set} />
          <button className="btn" aria-pressed={list.paused} onClick={pause}>
            <Icon name="pause" small />
            <span>{list.paused ? "Paused" : "Pause"}</span> <kbd>p</kbd>
          </button>
        </div>
      </header>
      <Filters filter={filter} set={set} list={list} />
      <State list={list} live={live} polls={polls} />
      {list.state === "loading" && <Skeleton rows={12} />}
      {list.state === "failed" && <Failure error={list.error} what="The list could not be read. Nothing was changed." again={() => void list.load()} />}
      {list.state === "ready" && <Table key={search} list={list} filter={filter} set={set} />}
    </>
  );
}

/** The list of a filter. It is read again when the filter changes. */
function useList(search: string, filter: Filter): CallList {
  const list = useMemo(() => new CallList(request(filter, Date.now())), [search]);
  useEffect(() => list.open(), [list]);
  useSyncExternalStore(list.subscribe, list.snapshot);
  return list;
}

/** Keeps a list up to date: with the watch of the namespace, or every 2 s for those who may not watch it. */
function useUpdates(list: CallList): { live: Live; polls: boolean } {
  const { has } = useSession();
  const watches = has(Role.VIEWER, Role.OPERATOR);
  const live = useWatch(watches ? { selector: { case: "namespace", value: true }, follow: true } : undefined, true, (f) => list.take(f));
  const polls = !watches || live.state === "ended";
  useEffect(() => {
    if (!polls) return;
    const timer = setInterval(() => document.hidden || void list.refresh(), 2000);
    return () => clearInterval(timer);
  }, [list, polls]);
  // A shared watch begins with the next frame, so what happened before it became live is read again.
  useEffect(() => {
    if (live.state === "live") void list.refresh();
  }, [list, live.state]);
  const lost = live.state === "lost" || list.failures > 2;
  useEffect(() => {
    setLive(!lost);
    return () => setLive(true);
  }, [lost]);
  return { live, polls };
}

const ticking = (ms: number) => span(Math.max(1000, Math.floor(ms / 1000) * 1000));

function State({ list, live, polls }: { list: CallList; live: Live; polls: boolean }) {
  const now = useNow(1000);
  if (live.state === "lost") {
    return (
      <Banner tone="wait" action="Try now" onAction={tryNow}>
        Connection lost at {clock(new Date(live.since))}. What you see is as it was then. Trying again in {ticking(live.again - now)}.
      </Banner>
    );
  }
  if (list.state !== "ready" || list.failures < 3) return null;
  return (
    <Banner tone="wait" action="Read again" onAction={() => void list.refresh()}>
      This page is {ticking(now - list.readAt)} old: {polls && "you may not watch the whole namespace, so it is read again every 2 s, and "}the last {list.failures} reads failed.
    </Banner>
  );
}

function Search({ filter, set }: { filter: Filter; set: (f: Filter) => void }) {
  const known = words(filter);
  const [typed, type] = useState(known);
  const [wrong, refuse] = useState("");
  useEffect(() => type(known), [known]);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    try {
      set(parse(typed, filter));
      refuse("");
    } catch (e) {
      refuse(e instanceof Error ? e.message : String(e));
    }
  };
  return (
    <form className="searchform" role="search" onSubmit={submit}>
      <label className="search">
        <Icon name="search" small />
        <span className="sr">Search calls</span>
        <input id="calls-search" placeholder="tool: run: thread: label: who:" size={28} maxLength={1000} value={typed} aria-invalid={wrong !== ""} aria-describedby="calls-wrong" onChange={(e) => type(e.target.value)} />
        <kbd>/</kbd>
      </label>
      <span id="calls-wrong" className="wrong" role="alert">
        {wrong && visible(wrong.slice(0, 300))}
      </span>
    </form>
  );
}

/** A value of the filter `status`, its name, its icon, and its number in the counts. */
const chips: [string, string, IconName, Exclude<keyof Counts, "atLeast">?][] = [
  ["running", "Running", "run", "running"],
  ["new", "New", "new", "new"],
  ["waiting", "Waiting", "wait", "waiting"],
  ["succeeded", "Succeeded", "ok"],
  ["failed", "Failed", "fail"],
  ["cancelled", "Cancelled", "cancel"],
  ["doubt", "In doubt", "doubt", "doubt"],
];
const spans = ["15m", "1h", "24h", "7d", "30d", "all"];

function Filters({ filter, set, list }: { filter: Filter; set: (f: Partial<Filter>) => void; list: CallList }) {
  const counts = useCounts();
  // The counts are of the whole namespace, so beside another filter they would mislead.
  const whole = !narrowed({ ...filter, status: [] });
  const add = (key: string) => {
    const field = document.querySelector<HTMLInputElement>("#calls-search");
    if (!field) return;
    field.focus();
    // React hears of the change as of typing.
    document.execCommand("insertText", false, (field.value && !field.value.endsWith(" ") ? " " : "") + key + ":");
  };
  const copy = () => void navigator.clipboard.writeText(location.href).then(() => toast("Link copied."));
  return (
    <div className="filters" role="group" aria-label="Filters">
      <button className="chip" aria-pressed={filter.status.length === 0} onClick={() => set({ status: [] })}>
        All {filter.status.length === 0 && list.state === "ready" && <span className="num">{list.shown.length.toLocaleString("en") + (list.end === "all" ? "" : "+")}</span>}
      </button>
      {chips.map(([status, name, icon, count]) => (
        <button key={status} className="chip" aria-pressed={filter.status.includes(status)} onClick={() => set({ status: filter.status.length === 1 && filter.status[0] === status ? [] : [status] })}>
          <Icon name={icon} small />
          {name} {whole && counts && count && counts[count] > 0 && <span className="num">{counts[count].toLocaleString("en") + (counts.atLeast ? "+" : "")}</span>}
        </button>
      ))}
      <span className="right rowx">
        {["Tool", "Run", "Label"].map((name) => (
          <button key={name} className="btn bare sm wide" onClick={() => add(name.toLowerCase())}>
            {name === "Tool" && <Icon name="filter" small />} {name}
          </button>
        ))}
        <label className="since">
          <Icon name="clock" small />
          <select aria-label="Accepted" value={filter.since} onChange={(e) => set({ since: e.target.value })}>
            {(spans.includes(filter.since) ? spans : [filter.since, ...spans]).map((s) => (
              <option key={s} value={s}>
                {spanName(s)}
              </option>
            ))}
          </select>
        </label>
        <button className="btn bare sm icon wide" aria-label="Copy the link to this view" onClick={copy}>
          <Icon name="audit" small />
        </button>
      </span>
    </div>
  );
}

/** The height of a row in pixels: the styles give it in rem. */
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).fontSize) * (matchMedia("(max-width: 44rem)").matches ? 2.5 : 1.875);

function Table({ list, filter, set }: { list: CallList; filter: Filter; set: (f: Partial<Filter>) => void }) {
  const [, go] = useLocation();
  const body = useRef<HTMLDivElement>(null);
  const [selected, select] = useState<string>();
  const [top, setTop] = useState(true);
  const [held, hold] = useState(false);
  const { shown } = list;
  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => body.current, estimateSize: rowHeight, overscan: 10 });
  useEffect(() => {
    const narrow = matchMedia("(max-width: 44rem)");
    const measure = () => rows.measure();
    narrow.addEventListener("change", measure);
    return () => narrow.removeEventListener("change", measure);
  }, [rows]);

  const follows = top && !held && selected === undefined;
  useEffect(() => list.follow(follows), [list, follows]);
  const fresh = list.fresh;
  useEffect(() => {
    if (fresh > 0) say(`${fresh} new calls`);
  }, [fresh]);

  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const near = last >= shown.length - 30;
  useEffect(() => {
    if (near && list.end === "more") void list.more();
  }, [list, near, list.end]);

  const show = () => {
    select(undefined);
    list.show();
    body.current?.scrollTo({ top: 0 });
  };
  const move = (by: number) => {
    if (shown.length === 0) return;
    const at = selected === undefined ? -1 : shown.indexOf(selected);
    const to = at < 0 ? (items.find((i) => i.start >= (body.current?.scrollTop ?? 0))?.index ?? 0) : Math.max(0, Math.min(shown.length - 1, at + by));
    select(shown[to]);
    rows.scrollToIndex(to);
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    enter: () => selected !== undefined && go(`/calls/${encodeURIComponent(selected)}`),
    ".": () => fresh > 0 && show(),
    escape: () => {
      select(undefined);
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    },
  });

  if (shown.length === 0 && list.end === "all" && fresh === 0) return <Nothing filter={filter} set={set} />;
  const above = items[0]?.start ?? 0, below = rows.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <div className="body callsbody" ref={body} onScroll={(e) => setTop(e.currentTarget.scrollTop === 0)}>
      {fresh > 0 && (
        <div className="newslot">
          <button className="newbar" onClick={show}>
            {fresh.toLocaleString("en")} new{list.paused ? " while paused" : ""} <kbd>.</kbd>
          </button>
        </div>
      )}
      <table className="t calls" aria-rowcount={list.end === "all" ? shown.length + 1 : -1}>
        <thead>
          <tr aria-rowindex={1}>
            <th className="fit">Status</th>
            <th>Call</th>
            <th className="m0 w1">Why</th>
            <th className="m0 w2">Run, caller</th>
            <th className="r m0 w3">Waited</th>
            <th className="r w3">Ran</th>
            <th className="r m0 w4" aria-sort="descending">
              Accepted
            </th>
          </tr>
        </thead>
        <tbody onPointerEnter={(e) => e.pointerType === "mouse" && hold(true)} onPointerLeave={() => hold(false)}>
          <Space height={above} />
          {items.map((item) => {
            const row = list.row(shown[item.index]!);
            return row && <CallRow key={row.id} row={row} index={item.index} selected={row.id === selected} select={select} />;
          })}
          <Space height={below} />
        </tbody>
      </table>
      <End list={list} filter={filter} set={set} />
    </div>
  );
}

const Space = ({ height }: { height: number }) => (
  <tr className="space" aria-hidden="true">
    <td style={{ height: `${height}px` }} />
  </tr>
);

const CallRow = memo(function CallRow({ row, index, selected, select }: { row: Row; index: number; selected: boolean; select: (id: string) => void }) {
  const ref = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (selected) ref.current?.focus({ preventScroll: true });
  }, [selected]);
  const date = new Date(row.created);
  return (
    <tr ref={ref} tabIndex={-1} aria-selected={selected} aria-rowindex={index + 2} onClick={() => select(row.id)}>
      <td className="fit">
        <Status call={row} />
      </td>
      <td>
        <Link href={`/calls/${encodeURIComponent(row.id)}`}>
          <code>{visible(row.tool)}</code> <bdi className="t2">{visible(row.title)}</bdi>
        </Link>
      </td>
      <td className="m0 w1">
        <bdi className="t2">{visible(row.why)}</bdi>
      </td>
      <td className="m0 w2">
        {row.run && (
          <Link href={`/runs/${encodeURIComponent(row.run)}`}>
            <bdi>{visible(row.run)}</bdi>
          </Link>
        )}{" "}
        <bdi className="t3">{visible(row.caller)}</bdi>
      </td>
      <td className="r num t2 m0 w3">
        <Waited row={row} />
      </td>
      <td className="r num w3">
        <Ran row={row} />
      </td>
      <td className="r num t3 m0 w4">
        <time dateTime={date.toISOString()} title={exact(date)}>
          {date.toDateString() === new Date().toDateString() ? clock(date) : `${day.format(date)} ${clock(date).slice(0, 5)}`}
        </time>
      </td>
    </tr>
  );
});

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

function Waited({ row }: { row: Row }) {
  const now = useNow(row.ended === undefined ? 1000 : Infinity);
  const ms = waited(row, row.ended ?? now);
  return ms === undefined ? null : ticking(ms);
}

function Ran({ row }: { row: Row }) {
  const now = useNow(row.running === undefined ? Infinity : 1000);
  if (row.running !== undefined) return ticking(now - row.running);
  return row.attempts > 0 && (row.ended !== undefined || row.ran > 0) ? span(row.ran) : null;
}

function End({ list, filter, set }: { list: CallList; filter: Filter; set: (f: Partial<Filter>) => void }) {
  const again = (
    <button className="btn sm" onClick={() => void list.more()}>
      {list.end === "far" ? "Search further" : "Try again"}
    </button>
  );
  return (
    <div className="listend">
      {list.end === "reading" && <span>Reading older calls</span>}
      {list.end === "far" && <span>No older call matched in the records that were searched. {again}</span>}
      {list.end === "failed" && <span>Older calls could not be read. {again}</span>}
      {list.end === "all" && (
        <span>
          These are all, {spanName(filter.since)}. {filter.since !== "all" && <button className="btn sm bare" onClick={() => set({ since: "all" })}>Show all times</button>}
        </span>
      )}
      {list.broken.length > 0 && <span>{list.broken.length} calls are left out, because their records are damaged: {list.broken.slice(0, 3).join(", ")}</span>}
    </div>
  );
}

function Nothing({ filter, set }: { filter: Filter; set: (f: Partial<Filter>) => void }) {
  const [, go] = useLocation();
  if (narrowed(filter)) {
    return (
      <Empty title="No call matches">
        <p>No call of this filter was accepted: {spanName(filter.since)}.</p>
        <p className="rowx">
          <button className="btn" onClick={() => go("/calls", { replace: true })}>Clear the filter</button>
          {filter.since !== "all" && <button className="btn" onClick={() => set({ since: "all" })}>Search all times</button>}
        </p>
      </Empty>
    );
  }
  return (
    <Empty title={filter.since === "all" ? "No calls yet" : `No calls, ${spanName(filter.since)}`}>
      <p>
        A call appears here when a program or a person starts one. To see one, run <code>toold call glob pattern='*'</code> beside the daemon.
      </p>
      {filter.since !== "all" && (
        <p>
          <button className="btn" onClick={() => set({ since: "all" })}>Show all times</button>
        </p>
      )}
    </Empty>
  );
}
