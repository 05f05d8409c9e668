/** Charts of the load in the last hour. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@tanstack/react-query";
import type { GetInfoResponse } from "../../../gen/toold/v1/admin_service_pb.ts";
import type { LoadSample } from "../../../gen/toold/v1/status_pb.ts";
import { admin } from "../../api/clients.ts";
import { Failure } from "../../parts/small.tsx";
import { bytes, count } from "./units.ts";
import Chart from "./Chart.tsx";

const perMinute = (n: number) => Math.round(n * 60);
const most = (values: number[]) => values.reduce((a, b) => Math.max(a, b), 0);

export function Load({ info }: { info: GetInfoResponse }) {
  const { data, error, refetch } = useQuery({ queryKey: ["load"], queryFn: () => admin.getLoad({}), refetchInterval: 10_000 });
  if (error && !data) return <Failure error={error} what="The load was not read." again={() => void refetch()} />;
  const samples = data?.samples ?? [];
  const times = samples.map((s) => Math.round(timestampMs(s.time!) / 1000));
  const of = (f: (s: LoadSample) => number) => samples.map(f);
  const last = samples.at(-1);
  const ended = of((s) => s.endedPerSecond * 60), failed = of((s) => s.failedPerSecond * 60), running = of((s) => s.running), queued = of((s) => s.queued);
  const memory = of((s) => Number(s.memory)), cpu = of((s) => s.cpu), waiting = of((s) => Number(s.suspended));
  const limit = info.limits?.runningCalls ?? 0;
  return (
    <section className="charts" aria-label="Load, latest hour">
      <Chart title="Calls ended" now={last ? count(perMinute(last.endedPerSecond)) : "?"} unit={last ? `a minute, ${count(perMinute(last.failedPerSecond))} not succeeded` : "a minute"} times={times} lines={[{ values: ended }, { values: failed, tone: "fail" }]} foot={`most ${count(Math.round(most(ended)))}`} />
      <Chart title="Running" now={last ? count(last.running) : "?"} unit={`of ${count(limit)} slots${last ? `, ${count(last.queued)} queued` : ""}`} times={times} lines={[{ values: running }, { values: queued, tone: "fail" }]} limit={limit} foot={`limit ${count(limit)}`} />
      <Chart title="Waiting for a person" now={last && last.suspended >= 0n ? count(Number(last.suspended)) : "?"} unit="calls" times={times} lines={[{ values: waiting.map((n) => (n < 0 ? null : n)) }]} foot={`most ${count(most(waiting))}`} />
      <Chart title="Memory" now={last ? bytes(last.memory) : "?"} unit={last ? `${last.cpu.toFixed(2)} processors` : ""} times={times} lines={[{ values: memory }]} foot={`most ${bytes(BigInt(most(memory)))}, ${most(cpu).toFixed(1)} processors`} />
    </section>
  );
}
