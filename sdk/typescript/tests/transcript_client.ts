/** The client of sdk/testdata/client.jsonl. It prints what it sees, one line of JSON per step. */
import { clone } from "@bufbuild/protobuf";
import { BatchStrategy } from "../gen/toold/v1/batch_pb.js";
import { CallSchema } from "../gen/toold/v1/call_pb.js";
import type { CallEvent, Frame } from "../gen/toold/v1/event_pb.js";
import { Client, DigestMismatch } from "../src/index.js";

const client = new Client(process.argv[2], { token: process.env.TOOLD_TEST_TOKEN });
const tell = (what: unknown) => process.stdout.write(JSON.stringify(what) + "\n");
async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of items) out.push(item);
  return out;
}
const kinds = async (events: AsyncIterable<CallEvent>) =>
  (await all(events)).map((e) => e.event.case!.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())).join(" ");

tell({ step: "call", message: (await client.call("greet", { name: "Ada" })).result?.message });
tell({ step: "execute", events: await kinds(client.execute("tells", {}, { runId: "r1" })) });
const asked = await client.call("asks");
const forged = clone(CallSchema, asked);
forged.effectiveArguments = '{"file":"other"}';
try {
  client.verify(forged);
} catch (e) {
  if (e instanceof DigestMismatch) tell({ step: "verify", forged: "refused" });
}
tell({ step: "waiting", ids: (await all(client.waiting())).map((c) => c.callId).join() === asked.callId });
const { principal, tickets } = await client.whoAmI([asked]), right = tickets[0];
tell({ step: "whoami", subject: principal?.subject, approve: right.approve?.allowed, remember: right.remember?.reason });
tell({ step: "claim", by: (await client.claim(asked, { forMs: 60_000 }))?.claimedBy?.subject, released: (await client.claim(asked, { release: true })) === undefined });
const resumed = await kinds(await client.resume(asked, "red"));
tell({ step: "resume", events: resumed, message: (await client.get(asked.callId)).result?.message });
tell({ step: "decline", status: await kinds(await client.decline(await client.call("asks"), "no")) });
const frames: Frame[] = await all(client.batch(["a", "b"].map((name) => client.spec("greet", { name })), { strategy: BatchStrategy.PARALLEL }));
const last = frames.at(-1)!.control;
tell({ step: "batch", messages: last.case === "batchFinished" && last.value.results.map((r) => r.result?.message) });
// The test kills the daemon during this watch, and the next daemon delivers the remaining events.
const waits = await client.call("asks", {}, { callId: "watched-over-a-kill" });
const sequences: number[] = [];
let told = false;
for await (const frame of client.watch({ selector: { case: "callId", value: waits.callId }, afterSequence: 0n })) {
  sequences.push(...frame.events.map((e) => Number(e.sequence)));
  if (sequences.length === 3 && !told) {
    told = true;
    tell({ step: "watching" });
  }
}
tell({ step: "watch", sequences });
process.exit(0);
