/** The list of calls. */
import "./calls.css";
import { memo, useEffect, useMemo, useRef, useState, useSyncExternalStore, type FormEvent, type MouseEvent, type RefObject } from "react";
import { useLocation, useSearch } from "wouter";
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
  const none = list.shown.length === 0 && list.end === "all" && list.fresh === 0;
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
      {list.state === "ready" && (none ? <Nothing filter={filter} set={set} /> : <Table key={search} list={list} filter={filter} set={set} />)}
    </>
  );
}

/** Returns the list of a filter. When the filter changes, the list is read again. */
function useList(search: string, filter: Filter): CallList {
  const list = useMemo(() => new CallList(request(filter, Date.now())), [search]);
  useEffect(() => list.open(), [list]);
  useSyncExternalStore(list.subscribe, list.snapshot);
  return list;
}

/** Keeps a list up to date with the watch of the namespace. For a viewer that may not watch the namespace, it reads the list every 2 s. */
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
  // A shared watch begins with the next frame, so earlier changes are read.
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

/** For each chip: a value of the filter `status`, its name, its icon, and the count that it shows. */
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
  // The counts are those of the whole namespace, so they would be misleading together with another filter.
  const whole = !narrowed({ ...filter, status: [] });
  const add = (key: string) => {
    const field = document.querySelector<HTMLInputElement>("#calls-search");
    if (!field) return;
    field.focus();
    // Unlike an assignment, this makes React handle the change like typed text.
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

/** The height of a row in pixels. The styles define it in rem. */
const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).fontSize) * (matchMedia("(max-width: 44rem)").matches ? 2.5 : 1.875);

/** How many rows are rendered above and below the visible rows. */
const beyond = 8;

/** Returns the height of a row, and which of `count` rows to render: from `first` up to, but not including, `end`. */
function useRows(body: RefObject<HTMLDivElement | null>, count: number) {
  const [at, set] = useState({ height: rowHeight(), top: 0, rows: 40 });
  useEffect(() => {
    const el = body.current!;
    const look = () => {
      const height = rowHeight();
      // Rounded to four rows, so that fast scrolling renders only once for every four rows.
      const top = Math.floor(el.scrollTop / height / 4) * 4, rows = Math.min(80, Math.ceil(el.clientHeight / height) + 4);
      set((old) => (old.height === height && old.top === top && old.rows === rows ? old : { height, top, rows }));
    };
    const size = new ResizeObserver(look);
    size.observe(el);
    el.addEventListener("scroll", look, { passive: true });
    return () => {
      size.disconnect();
      el.removeEventListener("scroll", look);
    };
  }, [body]);
  const first = Math.max(0, Math.min(at.top, count) - beyond), end = Math.min(count, at.top + at.rows + beyond);
  return { height: at.height, first, end };
}

function Table({ list, filter, set }: { list: CallList; filter: Filter; set: (f: Partial<Filter>) => void }) {
  const [, go] = useLocation();
  const body = useRef<HTMLDivElement>(null);
  const [selected, select] = useState<string>();
  const [top, setTop] = useState(true);
  const [held, hold] = useState(false);
  const { shown } = list;
  const { height, first, end } = useRows(body, shown.length);

  const follows = top && !held && selected === undefined;
  useEffect(() => list.follow(follows), [list, follows]);
  const fresh = list.fresh;
  useEffect(() => {
    if (fresh > 0) say(`${fresh} new calls`);
  }, [fresh]);

  const near = end >= shown.length - 30;
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
    const el = body.current!, seen = el.clientHeight - 2 * height; // without the header of the table
    const to = Math.max(0, Math.min(shown.length - 1, at < 0 ? Math.ceil(el.scrollTop / height) : at + by));
    select(shown[to]);
    if (to * height < el.scrollTop) el.scrollTop = to * height;
    else if (to * height > el.scrollTop + seen) el.scrollTop = to * height - seen;
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

  // One handler follows the links of all rows, so that a row needs no link component.
  const follow = (e: MouseEvent) => {
    const href = e.target instanceof Element && e.target.closest("a")?.getAttribute("href");
    if (!href || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(href);
  };
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
        <tbody onClick={follow} onPointerEnter={(e) => e.pointerType === "mouse" && hold(true)} onPointerLeave={() => hold(false)}>
          <Space height={first * height} />
          {shown.slice(first, end).map((id, i) => (
            <CallRow key={id} row={list.row(id)!} index={first + i} selected={id === selected} select={select} />
          ))}
          <Space height={(shown.length - end) * height} />
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
        <a href={`/calls/${encodeURIComponent(row.id)}`}>
          <code>{visible(row.tool)}</code> {row.title !== row.tool && <bdi className="t2">{visible(row.title)}</bdi>}
        </a>
      </td>
      <td className="m0 w1">
        <bdi className="t2">{visible(row.why)}</bdi>
      </td>
      <td className="m0 w2">
        {row.run && (
          <a href={`/runs/${encodeURIComponent(row.run)}`}>
            <bdi>{visible(row.run)}</bdi>
          </a>
        )}{" "}
        <bdi className="t3">{visible(row.caller)}</bdi>
      </td>
      <td className="r num t2 m0 w3">
        {row.ended === undefined ? <Waited row={row} /> : waitedText(row, row.ended)}
      </td>
      <td className="r num w3">
        {row.running === undefined ? row.attempts > 0 && (row.ended !== undefined || row.ran > 0) && span(row.ran) : <Ran since={row.running} />}
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

function waitedText(row: Row, now: number) {
  const ms = waited(row, now);
  return ms === undefined ? null : ticking(ms);
}

const Waited = ({ row }: { row: Row }) => waitedText(row, useNow(1000));
const Ran = ({ since }: { since: number }) => ticking(useNow(1000) - since);

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
