/** The audit chain: who did what, newest first, and its verification. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { memo, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import type { AuditRecord } from "../../../gen/toold/v1/admin_service_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { say, toast } from "../../parts/say.ts";
import { Empty, Failure, Skeleton } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { clock, exact } from "../../parts/Time.tsx";
import { count } from "../status/units.ts";
import { exported, request } from "./exported.ts";
import { hex, parse, read, type Filter, type Said } from "./record.ts";
import { Verify } from "./Verify.tsx";
import "./audit.css";

export default function Audit() {
  const { has, info } = useSession();
  const [params, setParams] = useSearchParams();
  const search = params.get("q") ?? "";
  const filter = useMemo(() => parse(search), [search]);
  if (!has(Role.OPERATOR)) {
    return (
      <>
        <header className="bar top">
          <h1>Audit</h1>
        </header>
        <Empty title="You may not read the audit">It needs the role operator. An operator of this namespace can give you a token with it.</Empty>
      </>
    );
  }
  const set = (q: string) => setParams(q ? { q } : {}, { replace: true });
  return (
    <>
      <header className="bar top">
        <h1>Audit</h1>
        <div className="right rowx">
          <Search value={search} set={set} />
          <Export filter={filter} namespace={info.namespace} />
        </div>
      </header>
      {filter.wrong ? <Empty title="The search cannot be read">{filter.wrong}</Empty> : <Chain key={search} search={search} filter={filter} start={params.get("after") ?? ""} />}
    </>
  );
}

function Search({ value, set }: { value: string; set: (q: string) => void }) {
  const [text, type] = useState(value);
  useEffect(() => type(value), [value]);
  return (
    <form
      role="search"
      onSubmit={(e) => {
        e.preventDefault();
        set(text.trim());
      }}
    >
      <label className="search">
        <Icon name="search" small />
        <span className="sr">Search: who, call, kind, since or until, each with a colon</span>
        <input placeholder="who: call: kind: since:" size={22} maxLength={400} value={text} onChange={(e) => type(e.target.value)} onBlur={() => set(text.trim())} />
        <kbd className="wide">/</kbd>
      </label>
    </form>
  );
}

function Export({ filter, namespace }: { filter: Filter; namespace: string }) {
  const [read, progress] = useState<number>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const save = async () => {
    stop.current = new AbortController();
    progress(0);
    try {
      const file = await exported(namespace, filter, stop.current.signal, progress);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file);
      link.download = `audit-${namespace}-${new Date().toISOString().slice(0, 10)}.jsonl`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch {
      if (!stop.current.signal.aborted) toast("The export failed. Nothing was saved.");
    }
    progress(undefined);
  };
  if (read !== undefined) {
    return (
      <button className="btn" onClick={() => stop.current?.abort()}>
        <Icon name="stop" small /> {count(read)} records; stop
      </button>
    );
  }
  return (
    <button className="btn" aria-label="Export" disabled={filter.wrong !== ""} onClick={() => void save()}>
      <Icon name="dl" small /> <span className="wide">Export</span>
    </button>
  );
}

const pageSize = 200;

function Chain({ search, filter, start }: { search: string; filter: Filter; start: string }) {
  const { info } = useSession();
  const queries = useQueryClient();
  const begin = /^\d{1,18}$/.test(start) ? BigInt(start) + 1n : 0n;
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ["audit", search, start],
    queryFn: ({ pageParam }) => admin.readAudit({ ...request(filter), newestFirst: true, before: pageParam, pageSize }),
    initialPageParam: begin,
    getNextPageParam: (last) => last.nextPosition || undefined,
    structuralSharing: false,
    staleTime: Infinity, // no automatic refresh: rows must not move under the pointer, so new records wait behind the bar
  });
  const pages = data?.pages;
  const rows = useMemo(() => (pages ?? []).flatMap((p) => p.records), [pages]);
  const first = useMemo(() => {
    const of = new Map<string, Said>();
    for (const r of rows) {
      const said = read(r);
      if (said.tool) of.set(said.call, said);
    }
    return of;
  }, [rows]);
  const box = useRef<HTMLDivElement>(null);
  const newest = rows[0]?.position ?? 0n;
  const fresh = useFresh(search, filter, newest, begin === 0n && data !== undefined);
  const showNew = () => {
    box.current?.scrollTo({ top: 0 });
    void queries.resetQueries({ queryKey: ["audit", search, start] });
  };
  useEffect(() => {
    if (fresh && (box.current?.scrollTop ?? 0) < 8 && !box.current?.contains(document.activeElement)) showNew();
  }, [fresh]);
  useKeys({ ".": showNew }, fresh !== "");
  return (
    <div className="body" ref={box} tabIndex={0} role="region" aria-label="The chain">
      <Verify on={info.features.includes("audit")} />
      {fresh && (
        <button className="newbar" onClick={showNew}>
          {fresh} new <kbd>.</kbd>
        </button>
      )}
      {!data && error ? (
        <Failure error={error} what="The records were not read." again={() => void refetch()} />
      ) : !data ? (
        <Skeleton rows={10} />
      ) : rows.length === 0 && !hasNextPage ? (
        <Empty title={search ? "No record matches" : "There is no record yet"}>{search ? "Remove a word of the search." : info.features.includes("audit") ? "Each call and each change by an operator adds records here." : "The audit is off."}</Empty>
      ) : (
        <Table rows={rows} first={first} box={box} more={hasNextPage} loading={isFetchingNextPage} load={() => void fetchNextPage()} />
      )}
    </div>
  );
}

/** Looks for newer records every 10 seconds while the tab is visible. It returns their number, such as `3` or `200+`. */
function useFresh(search: string, filter: Filter, newest: bigint, on: boolean): string {
  const { data } = useQuery({
    queryKey: ["audit-new", search, String(newest)],
    queryFn: () => admin.readAudit({ ...request(filter), after: newest, pageSize }),
    refetchInterval: 10_000, initialData: undefined, enabled: on,
  });
  const n = data?.records.length ?? 0;
  const text = n === 0 ? "" : data?.nextPosition ? `${n}+` : String(n);
  useEffect(() => {
    if (text) say(`${text} new audit records.`);
  }, [text]);
  return text;
}

const narrow = matchMedia("(max-width: 64rem)");

/** Reports whether rows wrap. Wrapped rows have different heights and must be measured. Rows of one height are not measured, because that would be slow. */
function useWraps() {
  return useSyncExternalStore(
    (changed) => {
      narrow.addEventListener("change", changed);
      return () => narrow.removeEventListener("change", changed);
    },
    () => narrow.matches,
  );
}

function Table({ rows, first, box, more, loading, load }: { rows: AuditRecord[]; first: Map<string, Said>; box: React.RefObject<HTMLDivElement | null>; more: boolean; loading: boolean; load: () => void }) {
  const [, go] = useLocation();
  const [at, select] = useState(-1);
  const table = useRef<HTMLTableElement>(null);
  const wraps = useWraps();
  const virtual = useVirtualizer({
    count: rows.length, getScrollElement: () => box.current, estimateSize: () => 30, overscan: 6, scrollMargin: table.current?.offsetTop ?? 0,
    getItemKey: (i) => String(rows[i]!.position),
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && !loading && last >= rows.length - 20) load();
  }, [more, loading, last, rows.length]);
  const move = (to: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    select(next);
    virtual.scrollToIndex(next, { align: "auto" });
  };
  useKeys({
    j: () => move(at + 1),
    k: () => move(at - 1),
    enter: () => {
      const call = rows[at] && read(rows[at]).call;
      if (call) go(`/calls/${encodeURIComponent(call)}`);
    },
    escape: () => select(-1),
  });
  const margin = virtual.options.scrollMargin;
  const above = (items[0]?.start ?? margin) - margin;
  const below = virtual.getTotalSize() - ((items.at(-1)?.end ?? margin) - margin);
  return (
    <>
      <table className="t aud" ref={table} aria-rowcount={more ? -1 : rows.length + 1}>
        <thead>
          <tr>
            <th className="c1">When</th>
            <th>What</th>
            <th className="m0 c3">Who</th>
            <th className="m0 c4">Call</th>
            <th className="c5">Link</th>
          </tr>
        </thead>
        <tbody>
          {above > 0 && (
            <tr className="space" aria-hidden="true">
              <td style={{ height: above }} />
            </tr>
          )}
          {items.map(({ index, key }) => (
            <tr key={key} data-index={index} ref={wraps ? virtual.measureElement : undefined} aria-rowindex={index + 2} aria-selected={index === at} onClick={() => select(index)}>
              <One record={rows[index]!} before={rows[index - 1]} first={first.get(read(rows[index]!).call)} />
            </tr>
          ))}
          {below > 0 && (
            <tr className="space" aria-hidden="true">
              <td style={{ height: below }} />
            </tr>
          )}
        </tbody>
      </table>
      <p className="listfoot" role="status">{loading ? "Reading older records …" : more ? "" : `${count(rows.length)} ${rows.length === 1 ? "record" : "records"}. This is the beginning of what is kept.`}</p>
    </>
  );
}

/** `first` contains the tool and the caller, which only the first record of the call names. */
const One = memo(function One({ record, before, first }: { record: AuditRecord; before?: AuditRecord; first?: Said }) {
  const r = read(record);
  const tool = r.tool || first?.tool, caller = r.caller || first?.caller;
  const date = timestampDate(record.time!);
  const link = hex(record.link);
  const day = date.toDateString();
  const newDay = day !== new Date().toDateString() && (!before || timestampDate(before.time!).toDateString() !== day);
  const copy = () => void navigator.clipboard.writeText(link).then(() => toast("The link of the record is copied."));
  return (
    <>
      <td className="c1 num t2">
        <time dateTime={date.toISOString()} title={exact(date)}>
          {newDay && <span className="day">{date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} </span>}
          {clock(date)}
        </time>
      </td>
      <td title={oneLine(`${r.what} ${tool ?? ""}`, 500)}>
        <span className={r.tone}>
          <Text most={200}>{r.what}</Text>
        </span>{" "}
        {tool && (
          <code className="t2">
            <Text most={64}>{tool}</Text>
          </code>
        )}
        {r.by && <span className="by t3" aria-hidden="true"> {oneLine(r.by, 40)}</span>}
      </td>
      <td className="m0 c3">
        <Text most={80}>{r.by}</Text>
      </td>
      <td className="t2 m0 c4">
        {r.call && (
          <Link href={`/calls/${encodeURIComponent(r.call)}`} title={oneLine(r.call)}>
            {caller && caller !== r.by ? <Text most={80}>{`of ${caller}`}</Text> : <code>{oneLine(r.call, 60).slice(0, 13)}…</code>}
          </Link>
        )}
      </td>
      <td className="c5">
        <button className="lnk" title={`Record ${record.position}, link ${link}`} aria-label={`${link.slice(0, 4)}: copy the link of record ${record.position}`} onClick={copy}>
          <code className="t3">{link.slice(0, 4)}</code>
        </button>
      </td>
    </>
  );
});
