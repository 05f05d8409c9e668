/** The agent of sdk/testdata/agent.jsonl. It prints what it sees, one line of JSON per step. */
import type { CallEvent } from "../gen/toold/v1/event_pb.js";
import { Client, newTurnId, TooldError } from "../src/index.js";

const client = new Client(process.argv[2], { token: process.env.TOOLD_TEST_TOKEN });
const tell = (what: unknown) => process.stdout.write(JSON.stringify(what) + "\n");
const use = (id: string, name: string, input = {}) => ({ type: "tool_use", id, name, input });
const message = (...content: unknown[]) => ({ role: "assistant", stop_reason: "tool_use", content });
const texts = (messages: any[]) => messages.flatMap((m) => m.content).map((b) => [b.tool_use_id, Array.isArray(b.content) ? b.content[0].text : b.content]);
const kinds = (events: CallEvent[]) => events.map((e) => e.event.case!.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase())).join(" ");

const toolset = await client.toolset("anthropic", { allow: ["greet", "asks"], ownTools: ["mine"] });
tell({ step: "toolset", tools: toolset.tools.map((t) => t.name).sort(), changed: await toolset.refresh() });

const greets = message(use("t1", "greet", { name: "Ada" }), use("t2", "mine"), use("t3", "tells"), use("t4", "greet", { name: "Bob" }));
const turnId = newTurnId(), events: CallEvent[] = [];
const result = await toolset.turn(greets, { turnId, runId: "r1", threadId: "t1" }).run({ onEvent: (e) => events.push(e) });
tell({ step: "turn", not_handled: result.notHandled.map((n) => [n.index, n.id]), finished: events.filter((e) => e.event.case === "finished").length });
tell({ step: "merge", texts: texts(result.merge([{ type: "tool_result", tool_use_id: "t2", content: "mine" }])) });

const repeated = await toolset.turn(greets, { turnId, runId: "r1", threadId: "t1" }).run();
tell({ step: "repeat", same: JSON.stringify(repeated.messages) === JSON.stringify(result.messages) });
try {
  await toolset.turn(message(use("t1", "greet", { name: "Eve" })), { turnId, runId: "r1", threadId: "t1" }).run();
} catch (e) {
  if (e instanceof TooldError) tell({ step: "refused", reason: e.reason, hint: e.hint !== "" });
}

const inbox = client.inbox({ runId: "r2" });
const asks = toolset.turn(message(use("t1", "asks")), { turnId: newTurnId(), runId: "r2" });
const open = await asks.run();
const [placeholder] = texts((await asks.get({ placeholders: true })).messages);
tell({ step: "open", messages: open.messages.length, open: open.open.length, placeholder: placeholder![1].startsWith("[toold placeholder]") });
const found = await inbox.next();
tell({ step: "inbox", found: found.value?.callId === open.open[0] });
for await (const _ of await client.resume(found.value!, "red"));
tell({ step: "late", texts: texts((await asks.get({ wait: 60_000 })).messages) });

// The test kills the daemon during this turn, and answers the question during the next turn.
const seen: CallEvent[] = [];
const waits = await toolset.turn(message(use("t1", "asks")), { turnId: newTurnId() }).run({
  waitForDecision: true,
  onEvent: (e) => {
    seen.push(e);
    if (e.event.case === "suspended") tell({ step: "waiting", call_id: e.callId });
  },
});
tell({ step: "resumed", events: kinds(seen), texts: texts(waits.messages) });

const cancelled = toolset.turn(message(use("t1", "asks")), { turnId: newTurnId() });
await cancelled.run();
await cancelled.cancel("no");
const last = await cancelled.get({ wait: 60_000 });
tell({ step: "cancelled", open: last.open.length, answers: texts(last.messages).length });
process.exit(0);
