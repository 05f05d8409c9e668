/** Tests the adapter with the real package, a model that follows a script, and a real daemon. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, RunContext, RunState, Runner, Usage, type Model, type ModelRequest } from "@openai/agents";
import { start } from "../daemon.ts";
import { tooldTools, type Options } from "./toold.ts";

const { agent, person, read, calls, rests } = await start();
type Step = { name: string; input: unknown } | string;

/** Answers a request by the number of tool results in it. */
class Script implements Model {
  seen: any[] = [];
  readonly steps: Step[];
  constructor(steps: Step[]) {
    this.steps = steps;
  }
  async getResponse({ input }: ModelRequest): Promise<any> {
    this.seen = (input as any[]).filter((item) => item.type === "function_call_result");
    const step = this.steps[this.seen.length]!;
    const output = typeof step === "string"
      ? { type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: step }] }
      : { type: "function_call", callId: "call_" + step.name, name: step.name, status: "completed", arguments: JSON.stringify(step.input) };
    return { usage: new Usage(), output: [output] };
  }
  getStreamedResponse(): never {
    throw new Error("not streamed");
  }
}

const runner = new Runner({ tracingDisabled: true });
const agentWith = async (model: Script, o: Options) => new Agent({ name: "tester", model, tools: await tooldTools(agent, o) });

test("no question", async () => {
  const model = new Script([{ name: "read", input: { path: "note" } }, { name: "write", input: { path: "secret", content: "x" } }, "Done."]);
  const result = await runner.run(await agentWith(model, { threadId: "free", approver: person }), "Go.");
  assert.equal(result.finalOutput, "Done.");
  assert.match(model.seen[0].output.text, /forty-two/);
  assert.equal(model.seen[1].output.text, "Denied: not here");
});

for (const approved of [true, false]) {
  test(`approved ${approved}`, async () => {
    const threadId = `ask-${approved}`, input = { path: threadId, content: "x" };
    const asked = await agentWith(new Script([{ name: "write", input }, "Done."]), { threadId, approver: person });
    const first = await runner.run(asked, "Go.");
    assert.deepEqual(JSON.parse(first.interruptions[0]!.arguments!), input);
    assert.deepEqual([read(threadId), (await calls(threadId)).length], [undefined, 0]);
    const ends = async () => {
      const state = await RunState.fromString(asked, first.state.toString());
      if (approved) state.approve(state.getInterruptions()[0]!);
      else state.reject(state.getInterruptions()[0]!);
      const { finalOutput, history } = await runner.run(asked, state), result: any = history.find(({ type }) => type === "function_call_result");
      assert.deepEqual([finalOutput, /ALREADY_DECIDED|error/i.test(JSON.stringify(result.output))], ["Done.", false]);
    };
    await Promise.all([ends(), ends(), ends()]); // a frontend may send an answer more than once
    await ends(); // the same request again, as after a crash of the agent
    assert.equal(read(threadId), approved ? "x" : undefined);
    const records = await calls(threadId);
    assert.deepEqual(records.map((c) => [c.attempts.length, c.decisions.map((d) => d.decidedBy?.subject)]), approved ? [[1, ["person"]]] : []);
  });
}

test("without an approver the question waits in the inbox", async () => {
  const threadId = "inbox", asks = await agentWith(new Script([{ name: "write", input: { path: threadId, content: "x" } }, "Done."]), { threadId });
  const end = runner.run(asks, "Go.");
  for await (const _ of await person.resume(await rests(threadId)));
  assert.equal((await end).finalOutput, "Done.");
  assert.equal(read(threadId), "x");
});

test("a call that nobody approved in the run is not decided", async () => {
  const threadId = "unasked", tools = await tooldTools(agent, { threadId, approver: person }), end = new AbortController();
  const write = tools.find(({ name }) => name === "write")!;
  const toolCall = { type: "function_call", callId: "call_x", name: "write", arguments: "" } as const;
  const wrote = write.invoke(new RunContext(), JSON.stringify({ path: threadId, content: "x" }), { toolCall, signal: end.signal });
  const { suspension, decisions } = await rests(threadId);
  assert.deepEqual([suspension?.action, decisions.length], ["approval", 0]);
  end.abort();
  await wrote; // an error for the model
  assert.equal(read(threadId), undefined);
});
