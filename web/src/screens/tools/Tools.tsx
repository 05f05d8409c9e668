/** The tools: the catalogue by source, and the page of one tool. */
import { useMemo, useRef } from "react";
import { Link, useLocation, useParams, useSearchParams } from "wouter";
import type { QuarantinedTool } from "../../../gen/toold/v1/admin_service_pb.ts";
import type { Source } from "../../../gen/toold/v1/source_pb.ts";
import type { Descriptor } from "../../../gen/toold/v1/tool_service_pb.ts";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { Banner, Empty, Failure, Skeleton, Tag } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { Export } from "./Export.tsx";
import { Held } from "./Held.tsx";
import { effectsOf, sourceState, useCatalogue, useSources } from "./model.ts";
import { useQuarantine } from "./quarantine.ts";
import { ToolPage } from "./ToolPage.tsx";
import "./tools.css";

/** A row of the catalogue: a tool, or a tool in quarantine. */
interface Row {
  to: string;
  group: string;
  tool?: Descriptor;
  held?: QuarantinedTool;
}

const heldPath = (q: QuarantinedTool) => `/tools/${encodeURIComponent(q.waiting?.id ?? "")}?source=${encodeURIComponent(q.waiting?.source ?? "")}`;
const groupOf = (q: QuarantinedTool) => (q.refusedAt ? "Refused" : "Held back");

function rowsOf(all: Descriptor[], quarantine: QuarantinedTool[], find: string): Row[] {
  const wanted = find.toLowerCase();
  const matches = (d: Descriptor | undefined) => !!d && [d.id, d.displayName, d.description, d.source, d.category, ...d.aliases].some((text) => text.toLowerCase().includes(wanted));
  const held = quarantine.filter((q) => matches(q.waiting)).map((q) => ({ to: heldPath(q), group: groupOf(q), held: q }));
  const bySource = all.filter(matches).map((tool) => ({ to: `/tools/${encodeURIComponent(tool.id)}`, group: tool.source, tool }));
  // Sorting is stable, so the tools of a source stay ordered by id.
  bySource.sort((a, b) => Number(b.group === "builtin") - Number(a.group === "builtin") || (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
  return [...held.filter((r) => r.group === "Held back"), ...held.filter((r) => r.group === "Refused"), ...bySource];
}

export default function Tools() {
  const { id, tab } = useParams<{ id?: string; tab?: string }>();
  const [search, setSearch] = useSearchParams();
  const [, go] = useLocation();
  const find = search.get("q") ?? "", source = search.get("source") ?? "";
  const catalogue = useCatalogue(), quarantine = useQuarantine(), sources = useSources();
  const list = useRef<HTMLElement>(null);
  const all = catalogue.data?.tools ?? [], waiting = quarantine.data ?? [];
  const rows = useMemo(() => rowsOf(all, waiting, find), [all, waiting, find]);
  const held = waiting.find((q) => q.waiting?.id === id && (!source || q.waiting?.source === source));
  const tool = all.find((t) => t.id === id || t.aliases.includes(id ?? ""));
  const with_q = (to: string) => (find ? `${to}${to.includes("?") ? "&" : "?"}q=${encodeURIComponent(find)}` : to);
  const at = rows.findIndex((r) => (r.held ? r.held === held && (!tool || !!source) : r.tool === tool && (!held || !source)));
  const move = (step: number) => {
    const to = rows[at < 0 ? 0 : at + step];
    if (!to) return;
    go(with_q(to.to), { replace: true });
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>('[aria-current="true"]')?.focus());
  };
  useKeys({ j: () => move(1), k: () => move(-1), enter: () => document.querySelector<HTMLElement>(".pane.show h1")?.focus(), escape: (e) => !(e.target as HTMLElement).closest("form") && (id ? go(with_q("/tools")) : find && setFind("")) });
  const setFind = (text: string) => setSearch((old) => {
    const next = new URLSearchParams(old);
    if (text) next.set("q", text);
    else next.delete("q");
    return next;
  }, { replace: true });

  const lost = !!catalogue.data && (catalogue.failureCount > 0 || !!catalogue.error);
  const count = new Set(all.map((t) => t.source)).size;
  return (
    <div className={`tools ${id ? "open" : ""}`}>
      <header className="bar top">
        <h1>Tools</h1>
        {catalogue.data && <span className="t3 wide">{all.length} {all.length === 1 ? "tool" : "tools"} from {count} {count === 1 ? "source" : "sources"}, as you may see them</span>}
        <div className="right rowx"><Export /></div>
      </header>
      {lost && <Banner tone="wait" action="Try now" onAction={() => void catalogue.refetch()}>The daemon does not answer. What you see may be old, and nothing can be sent.</Banner>}
      <div className="split">
        <section className="pane list" aria-label="Tools" ref={list}>
          <div className="find">
            <label className="search">
              <Icon name="search" small />
              <span className="sr">Find a tool</span>
              <input placeholder={`Find one of ${all.length + waiting.length}`} value={find} onChange={(e) => setFind(e.target.value)} onKeyDown={(e) => e.key === "Enter" && rows[0] && go(with_q(rows[0].to), { replace: true })} />
              <kbd>/</kbd>
            </label>
          </div>
          {catalogue.error && !catalogue.data && <Failure error={catalogue.error} what="The tools were not read." again={() => void catalogue.refetch()} />}
          {quarantine.error && !lost && <Failure error={quarantine.error} what="The tools that are held back were not read." again={() => void quarantine.refetch()} />}
          {!catalogue.data && !catalogue.error && <Skeleton rows={8} />}
          <Rows rows={rows} current={at} sources={sources.data ?? []} to={with_q} />
          {catalogue.data && rows.length === 0 && (find ? <Empty title="No tool matches"><button className="btn sm" onClick={() => setFind("")}>Show all</button></Empty> : <Empty title="There are no tools that you may see">The daemon’s own tools, MCP servers and workers would be here. See <code>toold tools sources</code>.</Empty>)}
        </section>
        <section className="pane show" aria-label="Tool">
          {id && <div className="mtop"><button className="btn sm" onClick={() => go(with_q("/tools"))}><Icon name="left" small /> Tools</button></div>}
          {!id ? <Empty title="Choose a tool">{rows.length > 0 && <>With <kbd>j</kbd> you open the first one.</>}</Empty>
            : held && (source || !tool) ? <Held key={held.waiting?.id + " " + held.waiting?.source} held={held} ids={all.map((t) => t.id)} tab={tab} lost={lost} />
            : tool ? <ToolPage key={tool.id} tool={tool} tab={tab} source={sources.data?.find((s) => s.name === tool.source)} lost={lost} />
            : catalogue.isLoading || quarantine.isLoading ? <Skeleton />
            : <Empty title="There is no such tool">No tool that you may see has the id <code><Text most={64}>{id}</Text></code>. It may have been removed, or an operator has to accept its new definition.</Empty>}
        </section>
      </div>
    </div>
  );
}

function Rows({ rows, current, sources, to }: { rows: Row[]; current: number; sources: Source[]; to: (path: string) => string }) {
  return rows.map((r, i) => {
    const first = i === 0 || rows[i - 1]!.group !== r.group;
    const state = sourceState(sources.find((s) => s.name === r.group));
    const d = r.tool ?? r.held?.waiting;
    return (
      <div key={r.to}>
        {first && (
          <div className="grp">
            <h2>{oneLine(r.group, 80)}</h2>
            <span className="num t3">{rows.filter((o) => o.group === r.group).length}</span>
            {state && <span className={`right st ${state.tone}`}><Icon name={state.icon!} small />{state.word}</span>}
          </div>
        )}
        <Link className="tool" href={to(r.to)} aria-current={i === current ? "true" : undefined}>
          <code className="b cut">{oneLine(d?.id ?? "", 64)}</code>
          <span className="rowx">
            {r.held ? <Tag tone={r.held.refusedAt ? "fail" : "doubt"} icon="eye">{r.held.refusedAt ? "Refused" : "Changed"}</Tag> : d && effectsOf(d).map((e) => <Tag key={e.word} tone={e.tone} icon={e.icon}>{e.word}</Tag>)}
          </span>
          <span className="d cut">{r.held ? <>Its definition changed <Time at={r.held.since} /></> : oneLine(d?.description.trim().split("\n")[0] ?? "", 120)}</span>
        </Link>
      </div>
    );
  });
}
