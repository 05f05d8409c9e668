/** Output streams and artifacts of a call. */
import { useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type KeyboardEvent, type ReactNode } from "react";
import { useLocation, useSearch } from "wouter";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import type { ArtifactMatch } from "../../../gen/toold/v1/artifact_pb.ts";
import { calls } from "../../api/clients.ts";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { say } from "../../parts/say.ts";
import { Failure, Note } from "../../parts/small.tsx";
import { oneLine, Text, visible } from "../../parts/Text.tsx";
import { type Line, Stream } from "./stream.ts";

/** Image types that a browser only draws. SVG is not one of them, because it may contain scripts. */
const images = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** Reports whether an artifact is shown as text. HTML and Markdown are shown as text, too. */
const readable = (mimeType: string) => /^(|text\/.*|application\/(.*\+)?(json|xml|yaml|x-ndjson))(;.*)?$/.test(mimeType);
/** Maximum size of a shown image, in bytes. Larger images can only be saved. */
const maxImage = 8 << 20;

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const unit = n < 999_500 ? "KB" : n < 999_500_000 ? "MB" : "GB";
  const v = n / (unit === "KB" ? 1e3 : unit === "MB" ? 1e6 : 1e9);
  return `${v < 10 ? v.toFixed(1) : Math.round(v)} ${unit}`;
}

/** Returns the artifacts of a result, and the artifacts that its content refers to. The record does not contain the sizes of artifacts in the content, so these sizes are 0. */
export function filesOf(call: Call): { name: string; mimeType: string; size: number }[] {
  const listed = (call.result?.artifacts ?? []).map((a) => ({ name: a.name, mimeType: a.mimeType, size: Number(a.size) }));
  const more = (call.result?.content ?? []).filter((c) => c.artifact && !listed.some((a) => a.name === c.artifact)).map((c) => ({ name: c.artifact, mimeType: c.mimeType, size: 0 }));
  return [...new Map([...listed, ...more].map((f) => [f.name, f])).values()].slice(0, 50);
}

interface Props {
  call: Call;
  streams: Map<string, Stream>;
  /** The name in the address. Empty means the first stream. */
  name: string;
  live: boolean;
}

export function Output({ call, streams, name, live }: Props) {
  const [, go] = useLocation();
  const artifacts = filesOf(call).filter((a) => !streams.has(a.name));
  const all = [...streams.keys()];
  const shown = name || all[0] || artifacts[0]?.name || "";
  const at = `/calls/${encodeURIComponent(call.callId)}`;
  const file = artifacts.find((a) => a.name === shown);
  const stream = useMemo(() => (file && readable(file.mimeType) ? new Stream(call.callId, shown) : undefined), [call.callId, shown, file?.mimeType]) ?? streams.get(shown);
  if (!shown) return null;
  const tab = (n: string, size: ReactNode) => (
    <button key={n} role="tab" aria-selected={n === shown} tabIndex={n === shown ? 0 : -1} onClick={() => go(`${at}/output/${encodeURIComponent(n)}`, { replace: true })}>
      {oneLine(n, 40)} <span className="t3">{size}</span>
    </button>
  );
  return (
    <section className="sec" aria-labelledby="output-h">
      <header>
        <h2 id="output-h">Output</h2>
        <span className="seg" role="tablist" aria-label="Streams and artifacts" onKeyDown={moveTab}>
          {all.map((n) => tab(n, <Size of={streams.get(n)!} />))}
          {artifacts.map((a) => tab(a.name, a.size > 0 && bytes(a.size)))}
        </span>
      </header>
      {file && images.has(file.mimeType) ? (
        <Picture key={shown} call={call.callId} name={shown} mimeType={file.mimeType} size={file.size} />
      ) : file && !stream ? (
        <Note>
          A file of the type <Text most={80}>{file.mimeType}</Text>{file.size > 0 && `, ${bytes(file.size)},`} is not shown. <a href={save(call.callId, shown)} download>Save it</a>.
        </Note>
      ) : stream ? (
        <Lines key={shown} stream={stream} live={live && !file} />
      ) : (
        <Note>There is no output {oneLine(shown, 40)}.</Note>
      )}
    </section>
  );
}

function moveTab(e: KeyboardEvent<HTMLElement>) {
  const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
  if (!step) return;
  const tabs = [...e.currentTarget.querySelectorAll<HTMLElement>("[role=tab]")];
  const next = tabs[(tabs.indexOf(document.activeElement as HTMLElement) + step + tabs.length) % tabs.length];
  next?.focus();
  next?.click();
}

function Size({ of }: { of: Stream }) {
  useSyncExternalStore(of.subscribe, of.snapshot);
  return bytes(of.size);
}

const save = (call: string, name: string) => `/v1/calls/${encodeURIComponent(call)}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}`;

function Lines({ stream, live }: { stream: Stream; live: boolean }) {
  useSyncExternalStore(stream.subscribe, stream.snapshot);
  const wanted = Number(new URLSearchParams(useSearch()).get("line")) || 0;
  const [follow, setFollow] = useState(!wanted);
  const [pattern, setPattern] = useState("");
  const [at, setAt] = useState(0);
  const box = useRef<HTMLOListElement>(null);
  const jump = useRef(wanted);
  const first = stream.lines[0]?.no ?? 1;
  const key = useCallback((i: number) => stream.lines[i]?.no ?? i, [stream, first]); // keyed by number, so that a line keeps its height when lines are added before it
  const rows = useVirtualizer({ count: stream.lines.length, getScrollElement: () => box.current, getItemKey: key, estimateSize: () => 19, overscan: 12 });
  useEffect(() => {
    if (wanted) void stream.toLine(wanted);
    jump.current = wanted;
  }, [stream, wanted]);

  const { data: matches } = useQuery({
    queryKey: ["search", stream.call, stream.name, pattern, live ? 0 : stream.size],
    queryFn: ({ signal }) => find(stream, pattern, signal),
    enabled: pattern !== "",
    placeholderData: (old) => old,
  });
  const go = (step: number) => {
    if (!matches?.length) return;
    const next = (at + step + matches.length) % matches.length;
    setAt(next);
    show(Number(matches[next]!.line));
  };
  const show = (line: number) => {
    setFollow(false);
    jump.current = line;
    if (line < first || line > (stream.lines.at(-1)?.no ?? 0)) void stream.toLine(line);
    else scroll();
  };
  const scroll = () => {
    const i = stream.lines.findIndex((l) => l.no === jump.current);
    if (i < 0 && (stream.loading || stream.lines.length === 0)) return;
    rows.scrollToIndex(i < 0 ? stream.lines.length - 1 : i, { align: "center" }); // for a line after the end, the last line
    jump.current = 0;
  };
  useLayoutEffect(() => {
    if (jump.current) scroll();
    else if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [stream.version, follow, rows.getTotalSize()]);
  useEffect(() => {
    if (follow && !jump.current && !stream.atEnd && !stream.loading && !stream.error) void stream.toEnd();
  }, [stream.version, follow]);
  useEffect(() => {
    setAt(0);
    if (pattern && matches) say(matches.length ? `${matches.length} lines match` : "No line matches");
    if (pattern && matches?.length) show(Number(matches[0]!.line));
  }, [pattern, matches?.length === 0 || matches?.[0]?.line]);

  const toggle = () => {
    jump.current = 0;
    setFollow(!follow);
  };
  useKeys({ f: toggle });

  const onSearchKey = (e: KeyboardEvent<HTMLInputElement>) => {
    if (e.key === "Enter") go(e.shiftKey ? -1 : 1);
    if (e.key !== "Escape") return;
    e.stopPropagation(); // the key ends the search, and must not also leave the page
    setPattern("");
    e.currentTarget.blur();
  };

  const top = useRef(0);
  const onScroll = () => {
    const b = box.current!, up = b.scrollTop < top.current, bottom = b.scrollHeight - b.scrollTop - b.clientHeight < 24;
    top.current = b.scrollTop;
    if (follow && up && !bottom) setFollow(false);
    if (b.scrollTop < 40 && first > 1 && !follow) {
      const before = stream.lines.length;
      void stream.before().then(() => stream.lines.length > before && rows.scrollToIndex(stream.lines.length - before, { align: "start" }));
    }
    if (bottom && !stream.atEnd && !follow) void stream.after();
  };
  if (stream.error && stream.lines.length === 0) return <Failure error={stream.error} what="The output was not read." again={() => void stream.toEnd()} />;
  return (
    <>
      <div className="rowx outbar">
        <label className="search">
          <Icon name="search" small />
          <span className="sr">Search the output</span>
          <input size={14} maxLength={200} placeholder="Search" value={pattern} onChange={(e) => setPattern(e.target.value)} onKeyDown={onSearchKey} />
          <kbd>/</kbd>
        </label>
        {pattern && matches && <span className="t3 num">{matches.length ? `${at + 1} of ${matches.length}${matches.length === 1000 ? "+" : ""}` : "no match"}</span>}
        <span className="right rowx">
          <button className="btn sm" aria-pressed={follow} onClick={toggle}>
            <Icon name="down" small /> {live ? "Follow" : "To the end"} <kbd>f</kbd>
          </button>
          <a className="btn bare sm icon" aria-label="Save all of it" title="Save all of it" href={save(stream.call, stream.name)} download>
            <Icon name="dl" small />
          </a>
        </span>
      </div>
      <div className="term" data-testid="output">
        {first > 1 && <p className="outgap">Lines 1 to {(first - 1).toLocaleString("en")} are kept; shown as you scroll.</p>}
        {first < 1 && <p className="outgap">Only the last {bytes(512 << 10)} of {bytes(stream.size)} are shown: a line is too long for line numbers. Save it to read all.</p>}
        {stream.lines.length === 0 ? (
          <p className="outgap">{stream.loading ? "…" : `Nothing on ${oneLine(stream.name, 40)} ${live ? "so far" : "was kept"}.`}</p>
        ) : (
          <ol ref={box} tabIndex={0} aria-label={`${oneLine(stream.name, 40)}, from line ${first}`} className="outlines" onScroll={onScroll}>
            <li className="spacer" aria-hidden="true" style={{ height: rows.getTotalSize() }} />
            {rows.getVirtualItems().map((v) => {
              const line = stream.lines[v.index]!;
              return (
                <li key={v.key} ref={rows.measureElement} data-index={v.index} className={line.no === wanted && wanted ? "at" : ""} style={{ transform: `translateY(${v.start}px)` }}>
                  <span className="no">{line.no > 0 && <LineNumber stream={stream} no={line.no} />}</span>
                  <span>
                    <Pieces line={line} mark={pattern} />
                  </span>
                </li>
              );
            })}
          </ol>
        )}
      </div>
      {live && <p className="t3">Colours are the program’s. Other escapes are not followed but shown.</p>}
    </>
  );
}

function LineNumber({ stream, no }: { stream: Stream; no: number }) {
  return <a href={`/calls/${encodeURIComponent(stream.call)}/output/${encodeURIComponent(stream.name)}?line=${no}`} tabIndex={-1}>{no.toLocaleString("en")}</a>;
}

function Pieces({ line, mark }: { line: Line; mark: string }) {
  return (
    <>
      {line.pieces.map((p, i) => <bdi key={i} className={p.style}>{marked(p.text, mark)}</bdi>)}
      {line.rest > 0 && <span className="t3"> … {line.rest.toLocaleString("en")} more bytes in this line</span>}
    </>
  );
}

/** Returns a text in which the matches of the search are marked, at most 20. */
function marked(text: string, mark: string): ReactNode {
  if (!mark) return visible(text);
  const low = text.toLowerCase(), find = mark.toLowerCase();
  if (low.length !== text.length) return visible(text); // the lower case of a letter is longer, so positions would differ
  const out: ReactNode[] = [];
  let from = 0;
  for (let i = low.indexOf(find); i >= 0 && out.length < 40; i = low.indexOf(find, from)) {
    out.push(<span key={`t${i}`}>{visible(text.slice(from, i))}</span>, <mark key={i}>{visible(text.slice(i, i + find.length))}</mark>);
    from = i + find.length;
  }
  return out.length ? [...out, <span key="end">{visible(text.slice(from))}</span>] : visible(text);
}

/** Returns at most 1,000 matches. */
async function find(stream: Stream, pattern: string, signal: AbortSignal): Promise<ArtifactMatch[]> {
  const found: ArtifactMatch[] = [];
  for (let offset = 0n; found.length < 1000; ) {
    const r = await calls.readArtifact({ callId: stream.call, name: stream.name, offset, search: { pattern, ignoreCase: true, limit: 1000 - found.length } }, { signal });
    found.push(...r.matches);
    if (r.nextOffset <= offset || r.nextOffset >= r.totalSize) break;
    offset = r.nextOffset;
  }
  return found;
}

/** Shows an image from bytes that the page has read itself. Its type is one of `images`. */
function Picture({ call, name, mimeType, size }: { call: string; name: string; mimeType: string; size: number }) {
  const [shown, show] = useState(size > 0 && size <= 256 << 10);
  const { data, error, refetch } = useQuery({
    queryKey: ["image", call, name],
    queryFn: async () => {
      const parts: Uint8Array<ArrayBuffer>[] = [];
      for (let offset = 0n; ; ) {
        const r = await calls.readArtifact({ callId: call, name, offset, limit: BigInt(512 << 10) });
        if (r.data.length === 0 || r.totalSize > maxImage) break;
        parts.push(r.data as Uint8Array<ArrayBuffer>);
        offset = r.nextOffset;
      }
      return new Blob(parts, { type: mimeType });
    },
    enabled: shown && size <= maxImage,
    staleTime: Infinity,
  });
  const url = useMemo(() => data && URL.createObjectURL(data), [data]);
  useEffect(() => () => void (url && URL.revokeObjectURL(url)), [url]);
  const [broken, setBroken] = useState(false);
  if (error) return <Failure error={error} what="The image was not read." again={() => void refetch()} />;
  return (
    <>
      <div className="rowx outbar">
        <span className="t2">
          <Text most={80}>{mimeType}</Text>{size > 0 && `, ${bytes(size)}`}
        </span>
        <a className="btn bare sm icon right" aria-label="Save it" href={save(call, name)} download>
          <Icon name="dl" small />
        </a>
      </div>
      {size > maxImage ? (
        <Note>Images above {bytes(maxImage)} are not shown. Save it to see it.</Note>
      ) : broken ? (
        <Note tone="fail">These bytes are not an image of the type {mimeType}, or more than {bytes(maxImage)}.</Note>
      ) : url ? (
        <img className="outimg" src={url} alt={`Image ${oneLine(name, 80)}, from the tool`} onError={() => setBroken(true)} />
      ) : (
        <p>
          <button className="btn" onClick={() => show(true)}>Show the image{size > 0 && `, ${bytes(size)}`}</button>
        </p>
      )}
    </>
  );
}
