import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useParams, useSearchParams } from "wouter";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Question, useInbox } from "../../api/inbox.ts";
import { tryNow } from "../../api/live.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Marks } from "../../parts/effects.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { Banner, Empty, Skeleton, Tag } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time, span, useNow } from "../../parts/Time.tsx";
import { useFirstRun } from "../first/run.ts";
import { Notify } from "./Notify.tsx";
import { Pane } from "./Pane.tsx";
import { claimOf, expiry, groupOf, type Group, groups, icon, inOrder, kindOf, marks, matches, mayAnswer, mostTogether, outcome, second, title } from "./model.ts";
import "./inbox.css";

const First = lazy(() => import("../first/First.tsx"));
const Together = lazy(() => import("./Together.tsx").then((m) => ({ default: m.Together })));

/** A row of the list. It does not change while the list is held. */
interface Place {
  id: string;
  group: Group;
  /** The result of `kindOf`. */
  kind?: string;
}

const minute = 60_000;
/** Number of rows that are rendered first, and that the button "more" adds. */
const portion = 80;

export function Inbox() {
  const inbox = useInbox();
  const { id } = useParams<{ id?: string }>();
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const text = search.get("q") ?? "", mine = search.get("show") === "mine";
  const [paused, pause] = useState(false);
  const [picked, pick] = useState<ReadonlySet<string>>(new Set());
  const list = useRef<HTMLElement>(null);
  const { me } = useSession();
  const subject = me.principal?.subject ?? "";
  const now = useNow(minute);

  const wanted = useMemo(() => [...inbox.questions.values()].filter((q) => !q.settled && (!mine || mayAnswer(q)) && matches(q, text)).sort(inOrder), [inbox.questions, mine, text]);
  const held = useCallback(() => {
    const l = list.current;
    return paused || picked.size > 0 || !!id || !!l && (l.scrollTop > 0 || l.matches(":hover") || l.contains(document.activeElement));
  }, [paused, picked, id]);
  const { places, fresh, showNew, drop } = usePlaces(inbox.questions, wanted, held, `${mine} ${text}`, inbox.complete, now);
  const shown = places.map((p) => inbox.questions.get(p.id)).filter((q) => !!q);
  const at = shown.findIndex((q) => q.id === id);
  const lost = inbox.live.state !== "live" && inbox.complete;

  const open = useCallback((to: string | undefined, replace = true) => go(`/inbox${to ? `/${to}` : ""}${location.search}`, { replace }), [go]);
  const row = (to: string) => document.getElementById(`q-${to}`);
  const move = (step: number) => {
    const to = at < 0 ? shown[0] : shown[at + step];
    if (!to) return;
    if (id && inbox.questions.get(id)?.settled && !list.current?.matches(":hover")) drop(id);
    open(to.id);
    requestAnimationFrame(() => row(to.id)?.focus({ preventScroll: false }));
  };
  const toggle = (q: Question | undefined) => {
    const kind = q && kindOf(q);
    if (!q || !kind) return;
    const next = new Set([...picked].filter((p) => p !== q.id && inbox.questions.has(p) && kindOf(inbox.questions.get(p)!) === kind));
    if (!picked.has(q.id) && next.size < mostTogether) next.add(q.id);
    pick(next);
  };
  const together = (ids: string[]) => go(`/inbox/together?${new URLSearchParams([...search.entries()].filter(([k]) => k !== "ids").concat([["ids", ids.join(",")]]))}`);

  useKeys({
    j: () => move(1),
    k: () => move(-1),
    enter: () => (picked.size > 1 ? together([...picked]) : document.querySelector<HTMLElement>(".pane.show h1")?.focus()),
    x: () => toggle(at >= 0 ? shown[at] : undefined),
    ".": showNew,
    p: () => pause(!paused),
  });
  const back = () => (picked.size > 0 ? pick(new Set<string>()) : open(undefined));
  useKeys({ escape: back });

  const set = (key: string, value: string) =>
    setSearch((old) => {
      const next = new URLSearchParams(old);
      if (value) next.set(key, value);
      else next.delete(key);
      return next;
    }, { replace: true });

  const waiting = [...inbox.questions.values()].filter((q) => !q.settled);
  const first = useFirstRun(inbox.complete && inbox.questions.size === 0 && !id);
  const since = Math.min(...waiting.map((q) => (q.call.suspension?.createdAt ? timestampMs(q.call.suspension.createdAt) : Infinity)));
  return (
    <div className={`inbox ${id ? "open" : ""}`}>
      <header className="bar top">
        <h1>Inbox</h1>
        {paused ? <button className="btn sm" onClick={() => pause(false)}>Paused: go on <kbd>p</kbd></button> : <span className="t3 wide">{summary(waiting.length, inbox.more, since, now)}</span>}
        <div className="right rowx">
          <label className="search wide">
            <Icon name="search" small />
            <span className="sr">Search</span>
            <input placeholder="Tool, run, text" size={18} value={text} onChange={(e) => set("q", e.target.value)} />
            <kbd>/</kbd>
          </label>
          <div className="seg" role="group" aria-label="Which questions">
            <button aria-pressed={mine} onClick={() => set("show", "mine")}>Mine</button>
            <button aria-pressed={!mine} onClick={() => set("show", "")}>All</button>
          </div>
          <Notify />
        </div>
      </header>
      {lost && <Lost />}
      {first ? (
        <div className="body">
          <Suspense fallback={<Skeleton />}>
            <First heard={!lost} />
          </Suspense>
        </div>
      ) : (
      <div className="split">
        <section className="pane list" aria-label="Waiting calls" ref={list} tabIndex={-1}>
          {fresh > 0 && (
            <button className="newbar" onClick={showNew}>
              {fresh} new <kbd>.</kbd>
            </button>
          )}
          {inbox.complete ? <Rows {...{ places, questions: inbox.questions, id, picked, subject, toggle, together, selected: at }} /> : <Skeleton rows={8} />}
          {inbox.complete && shown.length === 0 && <Nothing filtered={waiting.length > 0} />}
          {inbox.more && <p className="listfoot">More questions wait than are shown here. The others come when these are answered.</p>}
          {shown.length > 0 && (
            <p className="listfoot">
              <kbd>j</kbd> <kbd>k</kbd> choose · <kbd>enter</kbd> open · <kbd>x</kbd> select
            </p>
          )}
          {picked.size > 0 && (
            <div className="alike picked">
              <span className="grow nowrap">{picked.size} selected</span>
              <button className="btn sm" onClick={() => pick(new Set())}>None</button>
              <button className="btn sm go" disabled={picked.size < 2} onClick={() => together([...picked])}>Review together <kbd className="wide">enter</kbd></button>
            </div>
          )}
        </section>
        <section className="pane show" aria-label="Ticket">
          <Suspense fallback={<Skeleton />}>
            {id === "together" ? (
              <Together ids={(search.get("ids") ?? "").split(",").filter(Boolean)} lost={lost} back={back} />
            ) : id ? (
              <Pane key={id} id={id} lost={lost} place={at < 0 ? "" : `${at + 1} of ${shown.length}`} move={move} back={back} together={together} />
            ) : (
              <Empty title={shown.length ? "Choose what to decide" : "Nothing is open"}>{shown.length > 0 && <>With <kbd>j</kbd> you open the first one.</>}</Empty>
            )}
          </Suspense>
        </section>
      </div>
      )}
    </div>
  );
}

function summary(count: number, more: boolean, since: number, now: number) {
  if (count === 0) return "nothing waits";
  const age = now - since;
  return `${count}${more ? "+" : ""} ${count === 1 ? "waits" : "wait"}${age >= minute ? ` · oldest ${span(age)}` : ""}`;
}

/**
 * Returns the rows of the list. While the list is held, no row moves, appears or disappears: new questions are only counted, and settled questions stay.
 * `filter` names the filter; for another filter, the list begins again.
 */
function usePlaces(questions: ReadonlyMap<string, Question>, wanted: Question[], held: () => boolean, filter: string, complete: boolean, now: number) {
  const [places, setPlaces] = useState<Place[]>([]);
  const made = useRef("");
  const arrange = useCallback(
    (keep: (q: Question) => boolean) =>
      setPlaces((old) => {
        const kept = old.map((p) => questions.get(p.id)).filter((q) => q?.settled && keep(q)) as Question[];
        const order = groups.map((g) => g.group);
        return [...wanted, ...kept]
          .sort(inOrder)
          .map((q) => ({ id: q.id, group: groupOf(q, now), kind: kindOf(q) }))
          .sort((a, b) => order.indexOf(a.group) - order.indexOf(b.group));
      }),
    [questions, wanted, now],
  );
  useEffect(() => {
    if (!complete) return;
    const first = made.current !== filter;
    if (!first && held()) return;
    made.current = filter;
    arrange(() => !first);
  }, [arrange, complete, filter]);
  const ids = new Set(places.map((p) => p.id));
  return {
    places,
    fresh: complete && made.current === filter ? wanted.filter((q) => !ids.has(q.id)).length : 0,
    showNew: () => arrange((q) => location.pathname.endsWith(q.id)),
    drop: (id: string) => setPlaces((old) => old.filter((p) => p.id !== id)),
  };
}

interface RowsProps {
  places: Place[];
  questions: ReadonlyMap<string, Question>;
  id?: string;
  picked: ReadonlySet<string>;
  subject: string;
  toggle: (q: Question) => void;
  together: (ids: string[]) => void;
  /** The index of the open question. */
  selected: number;
}

function Rows({ places, questions, selected, ...row }: RowsProps) {
  const [most, show] = useState(portion);
  const until = Math.max(most, selected + 10);
  // Only the first question of a kind shows how many questions are alike.
  const alike = useMemo(() => {
    const kinds = new Map<string, string[]>();
    for (const { id, kind } of places) if (kind) kinds.set(kind, [...(kinds.get(kind) ?? []), id]);
    return new Map([...kinds.values()].filter((ids) => ids.length > 1).map((ids) => [ids[0]!, ids]));
  }, [places]);
  const from = Math.max(0, until - 100); // at most 100 rows are rendered
  return (
    <>
      {from > 0 && <button className="btn bare sm more" onClick={() => show(portion)}>Show the first {portion}</button>}
      {groups.map(({ group, title }) => {
        const all = places.filter((p) => p.group === group && questions.has(p.id));
        const part = places.slice(from, until).filter((p) => p.group === group && questions.has(p.id));
        if (part.length === 0) return null;
        return (
          <section key={group} aria-label={title}>
            <div className="grp">
              <h2>{title}</h2>
              <span className="num t3">{all.filter((p) => !questions.get(p.id)!.settled).length}</span>
            </div>
            {part.map(({ id }) => {
              const q = questions.get(id)!;
              const same = alike.get(id);
              return (
                <div key={id}>
                  {same && <Alike q={q} all={same.map((id) => questions.get(id)).filter((x) => !!x)} together={row.together} />}
                  <Row q={q} {...row} />
                </div>
              );
            })}
          </section>
        );
      })}
      {places.length > until && (
        <button className="btn bare sm more" onClick={() => show(until + portion)}>
          {places.length - until} more
        </button>
      )}
    </>
  );
}

/** The bar above questions that are alike. After they are answered, it says so and stays, so that no row moves. */
function Alike({ q, all, together }: { q: Question; all: Question[]; together: (ids: string[]) => void }) {
  const open = all.filter((x) => kindOf(x)).slice(0, mostTogether), n = open.length;
  return (
    <div className="alike">
      <Icon name={icon(q)} small />
      <span className="grow">
        <span className="cut">{n > 1 ? n : all.length} calls of <code><Text most={60}>{q.call.tool}</Text></code></span>
        <span className="cut t3">{n > 1 ? "alike and of low risk" : n === 1 ? "one still waits" : "none waits any more"}</span>
      </span>
      {n > 1 && <button className="btn sm" onClick={() => together(open.map((x) => x.id))}>Review together</button>}
    </div>
  );
}

function Row({ q, id, picked, subject, toggle }: { q: Question } & Omit<RowsProps, "places" | "questions" | "selected" | "together">) {
  const now = useNow(expiry(q) - Date.now() < 90_000 ? 1000 : minute);
  const { call, settled } = q;
  const claim = claimOf(q, now), soon = expiry(q) - now < 60 * minute, can = kindOf(q) !== undefined;
  const name = settled ? outcome(settled, subject, (call.suspension?.action ?? "approval") === "approval") : "";
  return (
    <div className="tkrow" data-picked={picked.has(q.id) || undefined}>
      {can && picked.size > 0 && <input type="checkbox" aria-label={`Select ${call.tool}`} checked={picked.has(q.id)} onChange={() => toggle(q)} />}
      <Link id={`q-${q.id}`} className={`tk ${settled ? "done" : ""}`} href={`/inbox/${q.id}${location.search}`} aria-current={q.id === id ? "true" : undefined}>
        <Icon name={icon(q)} className={icon(q) === "doubt" ? "doubt" : ""} />
        <span className="ti cut">
          <Text most={160}>{title(q)}</Text>
        </span>
        <span className={`ex ${soon && !settled ? "soon" : ""}`}>{settled ? <Text most={40}>{name}</Text> : <Time at={call.suspension?.expiresAt} />}</span>
        <span className="l2">
          <span className="cut">
            <Text most={120}>{second(q)}</Text>
          </span>
          <span className="risk">
            {settled ? <Tag tone={settled.decision ? "ok" : "line"} icon={settled.decision ? "ok" : undefined}>{settled.decision ? "Decided" : "Over"}</Tag> : <Beside q={q} claim={claim?.claimedBy?.subject} subject={subject} />}
          </span>
        </span>
      </Link>
    </div>
  );
}

function Beside({ q, claim, subject }: { q: Question; claim?: string; subject: string }) {
  return (
    <>
      {claim && <Tag tone="line" icon="user">{claim === subject ? "You look at it" : <Text most={30}>{claim}</Text>}</Tag>}
      {!claim && !mayAnswer(q) && groupOf(q, 0) !== "others" && <Tag tone="line">Not yours</Tag>}
      <Marks of={marks(q)} />
    </>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="Nothing matches">Other questions wait. Show all, or search for less.</Empty>;
  return (
    <Empty title="Nothing waits for you">
      A call that needs an answer appears here by itself. See what runs in <Link href="/calls">Calls</Link>.
    </Empty>
  );
}

function Lost() {
  const { live } = useInbox();
  const now = useNow(1000);
  if (live.state === "ended") return <Banner tone="fail" action="Load again" onAction={() => location.reload()}>The inbox is not live: {live.message}</Banner>;
  const since = live.state === "lost" ? live.since : now;
  return (
    <Banner tone="wait" action="Try now" onAction={tryNow}>
      No connection to the daemon for {span(Math.max(1000, now - since))}. <span className="wide">What you see may be old, and answers wait.</span>
    </Banner>
  );
}
