/** Tests the adapter with both versions of the real package, a model that follows a script, and a real daemon. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as v7 from "ai";
import { MockLanguageModelV4 } from "ai/test";
import * as v6 from "ai6";
import { MockLanguageModelV3 } from "ai6/test";
import { start } from "../daemon.ts";
import { tooldTools, type Options } from "./toold.ts";

const { agent, person, read, calls, rests } = await start();
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
type Step = { name: string; input: unknown } | string;

/** Answers request n with step n of the conversation. The number of responses in the history is n. */
const script = (steps: Step[]) => async ({ prompt }: any) => {
  const step = steps[prompt.filter((m: any) => m.role === "assistant").length]!;
  if (typeof step === "string") return { content: [{ type: "text", text: step }], finishReason: { unified: "stop" }, usage, warnings: [] };
  const call = { type: "tool-call", toolCallId: "call_" + step.name, toolName: step.name, input: JSON.stringify(step.input) };
  return { content: [call], finishReason: { unified: "tool-calls" }, usage, warnings: [] };
};

const versions = {
  7: { sdk: v7, model: (steps: Step[]) => new MockLanguageModelV4({ doGenerate: script(steps) as any }) },
  6: { sdk: v6, model: (steps: Step[]) => new MockLanguageModelV3({ doGenerate: script(steps) as any }) },
};

for (const [version, { sdk, model }] of Object.entries(versions)) {
  const file = (name: string) => name + version;
  const generate = async (steps: Step[], messages: any[], o: Options, using = model(steps)): Promise<any> =>
    (sdk.generateText as any)({ model: using, messages, tools: await tooldTools(agent, o), stopWhen: sdk.stepCountIs(5) });
  const user = { role: "user", content: "Go." };

  test(`ai ${version}: no question`, async () => {
    const steps = [{ name: "read", input: { path: "note" } }, { name: "write", input: { path: "secret", content: "x" } }, "Done."], using = model(steps);
    assert.equal((await generate(steps, [user], { threadId: file("free"), approver: person }, using)).text, "Done.");
    const seen: any[] = using.doGenerateCalls.at(-1)!.prompt;
    const [note, denied] = seen.filter((m) => m.role === "tool").map((m) => m.content[0].output);
    assert.match(note.value, /forty-two/);
    assert.equal(denied.type, "error-text");
    assert.match(denied.value, /Denied: not here/);
  });

  for (const approved of [true, false]) {
    test(`ai ${version}: approved ${approved}`, async () => {
      const threadId = file(`ask-${approved}`), path = threadId, input = { path, content: "x" };
      const steps = [{ name: "write", input }, "Done."], history = [user];
      const first = await generate(steps, history, { threadId, approver: person });
      const request = first.content.find((p: any) => p.type === "tool-approval-request");
      assert.deepEqual(request.toolCall.input, input);
      assert.deepEqual([read(path), (await calls(threadId)).length], [undefined, 0]);
      const answered = [...history, ...first.response.messages, { role: "tool", content: [{ type: "tool-approval-response", approvalId: request.approvalId, approved }] }];
      const ends = async () => {
        const using = model(steps);
        assert.equal((await generate(steps, answered, { threadId, approver: person }, using)).text, "Done.");
        const [result] = using.doGenerateCalls[0]!.prompt.filter((m: any) => m.role === "tool").flatMap((m: any) => m.content).filter((p: any) => p.type === "tool-result");
        assert.equal(result.output.type, approved ? "text" : "execution-denied");
      };
      await Promise.all([ends(), ends(), ends()]); // a frontend may send an answer more than once
      await ends(); // the same request again, as after a crash of the agent
      assert.equal(read(path), approved ? "x" : undefined);
      const records = await calls(threadId);
      assert.deepEqual(records.map((c) => [c.attempts.length, c.decisions.map((d) => d.decidedBy?.subject)]), approved ? [[1, ["person"]]] : []);
    });
  }

  test(`ai ${version}: without an approver the question waits in the inbox`, async () => {
    const threadId = file("inbox");
    const end = generate([{ name: "write", input: { path: threadId, content: "x" } }, "Done."], [user], { threadId });
    for await (const _ of await person.resume(await rests(threadId)));
    assert.equal((await end).text, "Done.");
    assert.equal(read(threadId), "x");
  });

  test(`ai ${version}: a call that nobody approved in the SDK is not decided`, async () => {
    const automatic = [ // the messages that the history contains when a policy of the application approved the call
      { role: "assistant", content: [{ type: "tool-approval-request", approvalId: "a1", toolCallId: "call_x", isAutomatic: true }] },
      { role: "tool", content: [{ type: "tool-approval-response", approvalId: "a1", approved: true }] },
    ];
    const threadId = file("auto"), tools = await tooldTools(agent, { threadId, approver: person }), end = new AbortController();
    const wrote = (tools.write as any).execute({ path: threadId, content: "x" }, { toolCallId: "call_x", messages: automatic, abortSignal: end.signal });
    const { suspension, decisions } = await rests(threadId);
    assert.deepEqual([suspension?.action, decisions.length], ["approval", 0]);
    end.abort();
    await assert.rejects(wrote);
    assert.equal(read(threadId), undefined);
  });
}
