/** Sources, workers, hooks, isolation and the daemon itself. */
import { durationMs, timestampDate } from "@bufbuild/protobuf/wkt";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { GetInfoResponse } from "../../../gen/toold/v1/admin_service_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { type Source, SourceState } from "../../../gen/toold/v1/source_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { Icon, type IconName } from "../../parts/Icon.tsx";
import { Failure, Skeleton } from "../../parts/small.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { clock, exact, span, Time } from "../../parts/Time.tsx";
import { useRetry } from "./Problems.tsx";
import { bytes, count } from "./units.ts";

function State({ tone, icon, children }: { tone: string; icon: IconName; children: ReactNode }) {
  return (
    <span className={`st ${tone}`}>
      <Icon name={icon} small />
      {children}
    </span>
  );
}

const states: Record<SourceState, { tone: string; icon: IconName; word: string }> = {
  [SourceState.UNSPECIFIED]: { tone: "none", icon: "unknown", word: "Unknown" },
  [SourceState.CONNECTING]: { tone: "run", icon: "resume", word: "Connecting" },
  [SourceState.READY]: { tone: "ok", icon: "ok", word: "Ready" },
  [SourceState.DOWN]: { tone: "fail", icon: "deny", word: "Down" },
};

export function Sources() {
  const { has } = useSession();
  const retry = useRetry();
  // The screen of the tools has the same key, so both must keep the same value.
  const { data, error, refetch } = useQuery({ queryKey: ["sources"], queryFn: async () => (await admin.listSources({})).sources, refetchInterval: 10_000 });
  if (!data) return error ? <Failure error={error} what="The sources were not read." again={() => void refetch()} /> : <Skeleton rows={4} />;
  const where = (s: Source) => (s.error ? s.error : [s.address, s.server, s.protocol].filter(Boolean).join(" · ")) || (s.since ? "" : "comes with the daemon");
  const again = (s: Source) => s.state === SourceState.DOWN && s.name.startsWith("mcp:") && has(Role.OPERATOR, Role.ADMIN);
  return (
    <section className="sec">
      <header>
        <h2>Sources of tools</h2>
        <span className="t3">{data.length}</span>
      </header>
      <div className="box">
        <table className="t">
          <thead>
            <tr>
              <th className="src">Source</th>
              <th className="fit">State</th>
              <th className="fit r">Tools</th>
              <th className="fit m0">Trust</th>
              <th className="fit r m0">Since</th>
              <th className="m0">Where, or what is wrong</th>
            </tr>
          </thead>
          <tbody>
            {data.map((s) => (
              <tr key={s.name}>
                <td>
                  <code title={oneLine(s.name)}>
                    <Text most={100}>{s.name}</Text>
                  </code>
                </td>
                <td className="fit">
                  <State {...states[s.state]}>{states[s.state].word}</State>{" "}
                  {again(s) && (
                    <button className="btn sm bare" disabled={retry.isPending} aria-label={`Try now: ${oneLine(s.name, 60)}`} onClick={() => retry.mutate(s.name)}>
                      Try now
                    </button>
                  )}
                </td>
                <td className="fit r num">
                  {count(s.tools)}
                  {s.refused.length > 0 && `, ${count(s.refused.length)} refused`}
                </td>
                <td className="fit t2 m0">{s.trust || "none"}</td>
                <td className="fit r num t3 m0">{s.since && <Time at={s.since} />}</td>
                <td className="t2 m0" title={oneLine(where(s), 500)}>
                  <Text most={120}>{oneLine(where(s), 500)}</Text>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function Workers() {
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: ["workers"],
    queryFn: ({ pageParam }) => admin.listWorkers({ pageSize: 50, pageToken: pageParam }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    refetchInterval: 10_000,
  });
  if (!data) return error ? <Failure error={error} what="The workers were not read." again={() => void refetch()} /> : <Skeleton rows={2} />;
  const all = data.pages.flatMap((p) => p.workers);
  return (
    <section className="sec">
      <header>
        <h2>Workers</h2>
        <span className="t3">{hasNextPage ? `the first ${all.length}` : all.length}</span>
      </header>
      {all.length === 0 ? (
        <p className="t3">No worker is connected.</p>
      ) : (
        <div className="box">
          <table className="t">
            <thead>
              <tr>
                <th>Worker</th>
                <th className="fit">State</th>
                <th className="fit r">Runs</th>
                <th className="fit m0">By</th>
                <th className="fit r m0">Since</th>
                <th className="fit r">Heard</th>
              </tr>
            </thead>
            <tbody>
              {all.map((w) => (
                <tr key={w.workerId}>
                  <td title={oneLine(`${w.source} ${w.name} ${w.version}: ${w.tools.join(", ")}`, 500)}>
                    <Text most={80}>{w.name || w.pool}</Text>{" "}
                    <span className="t3">
                      <Text most={120}>{oneLine(`${w.pool} ${w.version} ${w.tools.join(", ")}`, 120)}</Text>
                    </span>
                  </td>
                  <td className="fit">{w.draining ? <State tone="run" icon="resume">Draining</State> : <State tone="ok" icon="ok">Ready</State>}</td>
                  <td className="fit r num">
                    {w.callIds.length > 0 ? <Link href={`/calls/${encodeURIComponent(w.callIds[0]!)}`}>{`${w.running} of ${w.maxCalls}`}</Link> : `${w.running} of ${w.maxCalls}`}
                  </td>
                  <td className="fit t2 m0">
                    <Text most={60}>{w.principal}</Text>
                  </td>
                  <td className="fit r num t3 m0">
                    <Time at={w.connectedAt} />
                  </td>
                  <td className="fit r num t3">
                    <Time at={w.heardAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {hasNextPage && <button className="btn sm" onClick={() => void fetchNextPage()}>Show more workers</button>}
    </section>
  );
}

export function Isolation({ info }: { info: GetInfoResponse }) {
  return (
    <section className="sec">
      <header>
        <h2>Isolation on this machine</h2>
        <span className="t3">as tested at the last start or reload</span>
      </header>
      <ul className="held">
        {info.isolationFacts.map((f) => (
          <li key={f.name}>
            <Icon name={f.held ? "ok" : "deny"} small className={f.held ? "ok" : "fail"} />
            <span>
              <code>{f.name}</code> <span className="sr">{f.held ? "holds" : "does not hold"}</span>
            </span>
            <span className="t3">
              <Text most={200}>{[f.mechanism, f.detail].filter(Boolean).join("; ")}</Text>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Hooks({ info }: { info: GetInfoResponse }) {
  if (info.hooks.length === 0) return null;
  return (
    <section className="sec">
      <h2>External hooks</h2>
      <ul className="held">
        {info.hooks.map((h) => (
          <li key={h.name}>
            <Icon name={h.failing ? "warn" : h.asked ? "ok" : "new"} small className={h.failing ? "fail" : "ok"} />
            <span title={oneLine(h.place, 300)}>
              <Text most={80}>{h.name}</Text> <span className="t3">{h.kinds.join(", ")}</span>
              {h.lastError && h.failing && (
                <code className="detail t2">
                  <Text most={300}>{h.lastError}</Text>
                </code>
              )}
            </span>
            <span className="t3 num">{h.asked ? `${count(h.asked)} asked, ${count(h.failed)} failed` : "not asked yet"}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Daemon({ info }: { info: GetInfoResponse }) {
  const l = info.limits;
  const at = info.startedAt && timestampDate(info.startedAt);
  const days = (d?: Parameters<typeof durationMs>[0]) => (d ? span(durationMs(d)) : "for ever");
  return (
    <section className="sec">
      <h2>This daemon</h2>
      <dl className="facts">
        <dt>Version</dt>
        <dd>
          {info.version} {info.commit && <span className="t3">commit {info.commit.slice(0, 12)}</span>}
        </dd>
        <dt>Store</dt>
        <dd>
          {info.store}, epoch {String(info.epoch)}, id <code>{info.storeId.slice(0, 8)}…</code>
        </dd>
        <dt>Serves since</dt>
        <dd>{at && <time dateTime={at.toISOString()} title={exact(at)}>{Date.now() - at.getTime() < 86_400_000 ? clock(at) : exact(at).slice(0, 16)}</time>}</dd>
        <dt>Listens on</dt>
        <dd>{info.addresses.map((a) => `${a.network} ${a.address}${a.tls ? " (TLS)" : ""}`).join("; ")}</dd>
        <dt>Kept</dt>
        <dd>
          ended calls {days(l?.retention)}; tickets at most {days(l?.suspension)}
        </dd>
        <dt>Limits</dt>
        <dd>
          arguments {bytes(l?.arguments ?? 0n)}; result {bytes(l?.result ?? 0n)}; {count(l?.runningCalls ?? 0)} calls run, {count(l?.queuedCalls ?? 0)} queued
        </dd>
      </dl>
    </section>
  );
}
