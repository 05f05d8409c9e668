/** The worker of sdk/testdata/worker.jsonl. The tool `held` appends a line to a file for each run, and runs until FILE.go exists. */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Continue, Fail, NoOperation, Question, Worker, type Call } from "../src/index.js";

const text = process.env.TOOLD_TEST_TOKEN ?? ""; // or @ and the path of a file
const token = text.startsWith("@") ? () => readFileSync(text.slice(1), "utf8") : text;
const worker = new Worker({ pool: "tests", address: process.argv[2], token, maxCalls: 4 });
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
  await call.flushed();
  await call.saveCheckpoint(new TextEncoder().encode("kept"));
  return { caller: call.info.caller?.subject, run: call.info.run?.runId, key: call.info.idempotencyKey.length };
});
worker.tool({ id: "steps", observe: true }, (call) => {
  call.progress(0, "queued", { status: "pending" });
  call.progress(0.25, "", { loaded: 1, total: 4 });
  call.progress(1, "", { status: "done", loaded: 4, total: 4 });
  call.progress(0, "no paint", { status: "failed" });
  call.progress(0, "", { status: "cancelled" });
  for (const wrong of [() => call.progress(2), () => call.progress(NaN), () => call.progress(0, "", { loaded: -1 })]) {
    try { wrong(); } catch (e) { if (e instanceof RangeError) continue; }
    throw new Fail("a wrong progress was accepted");
  }
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
const asked = new Map<string, number>();
worker.tool({ id: "renders", observe: true, poll: (call) => {
  const n = (asked.get(call.info.callId) ?? 0) + 1;
  asked.set(call.info.callId, n);
  if (n === 1) throw new Error("no route");
  if (n === 2) return call.progress(0.5, "half");
  return `a picture of ${call.info.operationId}`;
} }, () => { throw new Continue("op-1", { message: "it renders", pollAfter: 100 }); });
worker.tool({ id: "delivers", observe: true }, async (call) => {
  const id = call.info.callId;
  void worker.complete(id, "op-2", "delivered").then(() => worker.complete(id, "op-2", "twice")).catch((e) => {
    worker.log(e instanceof NoOperation ? "delivered once" : String(e));
  });
  await call.sleep(300);
  throw new Continue("op-2");
});
worker.tool({ id: "saves", observe: true }, async (call) => {
  const text = (s: string) => new TextEncoder().encode(s);
  return await call.saveArtifact("page.txt", text("long"), "text/plain") + " " + await call.saveArtifact("page.txt", text("longer"), "text/plain");
});
worker.tool({
  id: "elsewhere", parameters: file, observe: true, poll: (call) => existsSync(call.info.operationId + ".go") ? "done elsewhere" : undefined,
}, (call, { file }: { file: string }) => {
  appendFileSync(file, `${call.info.attempt}\n`);
  throw new Continue(file, { pollAfter: 100 });
});
const seen = new Set<string>();
worker.tool({
  id: "paints", mildest: { readOnly: true, observe: true, resources: [{ kind: "wall" }] },
  parameters: { type: "object", properties: { colour: { type: "string" } }, required: ["colour"], additionalProperties: false },
  validate: (_, { colour }) => {
    if (colour === "riddle") throw new Question("which?");
    if (colour === "mud") throw new Fail("there is no paint of mud", "NO_PAINT");
    if (colour.startsWith("once") && seen.has(colour)) throw new Fail("it is used up", "USED_UP");
    seen.add(colour);
  },
  assess: (_, { colour }) => {
    if (colour === "ghost") throw new Error("boo");
    return colour === "none" ? { readOnly: true, observe: true } : { resources: [{ kind: "wall", id: colour }] };
  },
  describe: (_, { colour }) => {
    if (colour === "ghost") throw new Error("boo");
    return { title: `Paint it ${colour}`, notes: ["it dries in an hour"], basis: "wall-1" };
  },
}, (call, { colour }: { colour: string }) => `painted ${colour} over ${call.info.resume?.basis ?? ""}`);

async function* lines(input: AsyncIterable<Uint8Array>) {
  let text = "";
  for await (const bytes of input) {
    text += Buffer.from(bytes).toString();
    for (let end = text.indexOf("\n"); end >= 0; text = text.slice(end + 1), end = text.indexOf("\n")) yield text.slice(0, end);
  }
}

worker.tool({ id: "types", observe: true }, async (call) => {
  const all: string[] = [];
  for await (const line of lines(await call.input())) {
    all.push(line);
    call.output(line + "\n");
  }
  return all.join(" ");
});
worker.tool({ id: "reads_one", observe: true }, async (call) => {
  for await (const line of lines(await call.input())) return line;
});
worker.tool({ id: "leaves", observe: true }, () => { throw undefined; });

process.on("SIGTERM", () => worker.stop());
await worker.run();
process.exit(0); // otherwise the transport keeps its connection open for a while
