/** The trusted and refused definitions of a tool, and what each definition changed. */
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import type { JudgedDefinition } from "../../../gen/toold/v1/admin_service_pb.ts";
import { Diff } from "../../parts/Diff.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { Failure } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { exact } from "../../parts/Time.tsx";
import { differences, short, useDefinitions } from "./model.ts";

/** Returns the definition that was trusted before the judgement with this index. */
const before = (all: JudgedDefinition[], i: number) => all.slice(i + 1).find((d) => !d.refused)?.definition;

function Judgement({ d, first }: { d: JudgedDefinition; first: boolean }) {
  const who = <b><Text most={64}>{d.by}</Text></b>;
  return <><code title={d.definition?.digest}>{short(d.definition?.digest ?? "")}</code> {d.refused ? <>refused by {who}</> : d.by ? <>accepted by {who}</> : first ? "trusted when first seen" : "accepted; by whom is not recorded"}</>;
}

function Day({ d }: { d: JudgedDefinition }) {
  const at = d.time && timestampDate(d.time);
  if (!at) return null;
  const thisYear = at.getFullYear() === new Date().getFullYear();
  return <time dateTime={at.toISOString()} title={exact(at)}>{at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(thisYear ? {} : { year: "numeric" }) })}</time>;
}

/** Shows the list with short descriptions of the changes. With `full`, it shows each difference. */
export function History({ tool, source = "", full = false }: { tool: string; source?: string; full?: boolean }) {
  const { data, error, refetch } = useDefinitions(tool);
  if (error) return <Failure error={error} what="The history of the definition was not read." again={() => void refetch()} />;
  if (!data) return null;
  const { all, more } = data;
  const shown = full ? all : all.slice(0, 5);
  return (
    <section className="sec" aria-label="Definitions">
      <header>
        <h2>Definition</h2>
        {!full && all.length > 1 && <Link className="right" href={`/tools/${encodeURIComponent(tool)}/definitions${source && `?source=${encodeURIComponent(source)}`}`}>Compare {more ? "them" : `all ${all.length}`}</Link>}
      </header>
      {all.length === 0 && <p className="t3">The daemon trusts this source, so it keeps no earlier definitions.</p>}
      <ol className={`tl narrow ${full ? "stack tight" : ""}`}>
        {shown.map((d, i) => {
          const oldest = i === all.length - 1 && !more;
          const parts = oldest ? [] : differences(before(all, i), d.definition);
          return (
            <li key={i}>
              <span className="off"><Day d={d} /></span>
              <Icon name={d.refused ? "fail" : "ok"} small className={d.refused ? "fail" : d.by ? "ok" : ""} />
              <span>
                <Judgement d={d} first={oldest} /> {parts.length > 0 && !full && <span className="d">{parts.map((p) => p.title).join(", ")} changed</span>}
                {full && parts.length > 0 && <Diff name={tool} note="compared with the definition that was trusted before" parts={parts} />}
              </span>
              <span />
            </li>
          );
        })}
      </ol>
      {more && full && <p className="t3">The newest {all.length} are shown. <code>toold tools definitions {tool}</code> lists all.</p>}
    </section>
  );
}
