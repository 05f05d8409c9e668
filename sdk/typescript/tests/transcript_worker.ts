/** The worker of sdk/testdata/worker.jsonl. Its tools leave a line in a file for each run, and run until there is a file beside it. */
import { appendFileSync, existsSync } from "node:fs";
import { Fail, Question, Worker, type Call } from "../src/index.js";

const worker = new Worker({ pool: "tests", address: process.argv[2], token: process.env.TOOLD_TEST_TOKEN, maxCalls: 4 });
const file = { type: "object", properties: { file: { type: "string" } }, additionalProperties: false };

async function held(call: Call, { file }: { file: string }) {
  appendFileSync(file, `${call.info.attempt} ${call.info.idempotencyKey}\n`);
  while (!existsSync(file + ".go")) await call.sleep(5);
  return `held on attempt ${call.info.attempt}`;
}

worker.tool({ id: "held", parameters: file, observe: true }, held);
worker.tool({ id: "held_idempotent", parameters: file, observe: true, idempotent: true }, held);
worker.tool({ id: "held_read", parameters: file, observe: true, readOnly: true }, held);
worker.tool({ id: "held_known", parameters: file, observe: true, reconcile: () => "it happened" }, held);
worker.tool({
  id: "greet", observe: true, readOnly: true, concurrencySafe: true,
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false },
}, (_, { name }: { name: string }) => `Hello, ${name}!`);
worker.tool({ id: "tells", observe: true }, async (call) => {
  call.progress(0.5, "half");
  call.activity("plan", "todo", ["one"]);
  call.activityDelta("plan", [{ op: "add", path: "/-", value: "two" }]);
  call.output("printed\n");
  await call.saveCheckpoint(new TextEncoder().encode("kept"));
  return { caller: call.info.caller?.subject, run: call.info.run?.runId, key: call.info.idempotencyKey.length };
});
worker.tool({ id: "asks", observe: true }, (call) => {
  if (call.resumed) return "painted " + call.answer;
  throw new Question("Which colour?", { type: "string" });
});
worker.tool({ id: "fails", observe: true }, () => { throw new Fail("there is no paint", "NO_PAINT"); });
worker.tool({ id: "panics", observe: true }, () => { throw new Error("oh no"); });
worker.tool({ id: "huge", observe: true }, () => "x".repeat(5 << 20));
worker.tool({ id: "odd", observe: true }, (call) => {
  call.progress(0.5, "half of \ud83d");
  return "cut \ud83d";
});
worker.tool({ id: "leaves", observe: true }, () => { throw undefined; });

process.on("SIGTERM", () => worker.stop());
await worker.run();
process.exit(0); // the transport would keep its connection for a while
