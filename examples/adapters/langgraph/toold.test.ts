/** Tests the adapter with the real package, a model that follows a script, and a real daemon. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { Command, MemorySaver, MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { start } from "../daemon.ts";
import { tooldTools, type Answer, type Options } from "./toold.ts";

const { agent, person, read, calls } = await start();
type Step = { name: string; args: Record<string, unknown> } | string;

/** A graph whose model answers by the number of messages of tools. */
async function graphOf(steps: Step[], o: Options) {
  const model = ({ messages }: typeof MessagesAnnotation.State) => {
    const step = steps[messages.filter((m) => m.getType() === "tool").length]!;
    return { messages: [typeof step === "string" ? new AIMessage(step) : new AIMessage({ content: "", tool_calls: [{ ...step, id: "call_" + step.name }] })] };
  };
  return new StateGraph(MessagesAnnotation).addNode("model", model).addNode("tools", new ToolNode(await tooldTools(agent, o)))
    .addEdge("__start__", "model").addConditionalEdges("model", toolsCondition).addEdge("tools", "model").compile({ checkpointer: new MemorySaver() });
}
const go = { messages: [{ role: "user", content: "Go." }] };
const config = (thread_id: string) => ({ configurable: { thread_id } });
const question = (state: any) => state.__interrupt__?.[0].value;
const answer = (resume: Answer) => new Command({ resume }) as any;

test("no question", async () => {
  const graph = await graphOf([{ name: "read", args: { path: "note" } }, { name: "write", args: { path: "secret", content: "x" } }, "Done."], { approver: person });
  const { messages } = await graph.invoke(go, config("free"));
  assert.match(messages[2]!.text, /forty-two/);
  assert.match(messages[4]!.text, /Denied: not here/);
  assert.deepEqual([(messages[2] as any).status, (messages[4] as any).status, messages.at(-1)!.text], ["success", "error", "Done."]);
});

for (const approved of [true, false]) {
  test(`approved ${approved}`, async () => {
    const threadId = `ask-${approved}`, args = { path: threadId, content: "x" }, at = config(threadId);
    const graph = await graphOf([{ name: "write", args }, "Done."], { approver: person });
    const asked = question(await graph.invoke(go, at));
    assert.deepEqual([asked.tool, asked.arguments, asked.action, read(threadId)], ["write", args, "approval", undefined]);
    const again = question(await graph.invoke(answer({ digest: "of another question", approved: true }), at));
    assert.deepEqual([again, read(threadId)], [asked, undefined]);
    const { messages } = await graph.invoke(answer({ digest: asked.digest, approved, reason: "not now" }), at);
    assert.equal(messages.at(-1)!.text, "Done.");
    if (!approved) assert.match(messages.at(-2)!.text, /Declined: not now/);
    assert.equal(read(threadId), approved ? "x" : undefined);
    const records = await calls(threadId); // one call, although the node ran three times
    assert.deepEqual(records.map((c) => [c.attempts.length, c.decisions.map((d) => d.decidedBy?.subject)]), [[approved ? 1 : 0, ["person"]]]);
  });
}

test("a question of a tool", async () => {
  const at = config("question"), graph = await graphOf([{ name: "ask_user", args: { question: "Which colour?" } }, "Done."], {});
  const asked = question(await graph.invoke(go, at));
  const { messages } = await graph.invoke(answer({ digest: asked.digest, approved: true, result: "red" }), at);
  assert.match(messages.at(-2)!.text, /red/);
});
