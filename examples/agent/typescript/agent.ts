// This agent does a task with the tools of toold and a model that speaks Anthropic's Messages.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { Client, newTurnId, type CallEvent } from "toold";

/** A line of the history. Lines with a turn id have a response of the model. */
type Line = { turn_id?: string; stop_reason?: string | null; message: Anthropic.MessageParam };

const history: Line[] = existsSync("history.json") ? JSON.parse(readFileSync("history.json", "utf8")) : [];
/** Appends lines to the history, and replaces its file. A crash leaves the old file or the new one. */
function add(...lines: Line[]) {
  history.push(...lines);
  writeFileSync("history.new", JSON.stringify(history), { flush: true });
  renameSync("history.new", "history.json");
}

function show({ event }: CallEvent) {
  if (event.case === "progress") console.error(event.value.message);
  if (event.case === "suspended") console.error("waits for a person: toold approve", event.value.suspension?.suspensionId);
}

const model = new Anthropic({ baseURL: process.env.MODEL_URL, apiKey: process.env.MODEL_KEY ?? "none" });
const client = new Client(process.env.TOOLD_ADDRESS, { token: process.env.TOOLD_TOKEN });
const toolset = await client.toolset("anthropic");
if (!history.length) add({ message: { role: "user", content: process.argv[2]! } });
for (;;) {
  if (!history.at(-1)!.turn_id) {
    await toolset.refresh();
    const { content, stop_reason } = await model.messages.create({
      model: process.env.MODEL_NAME!, max_tokens: 4096, system: toolset.guidance || undefined, tools: toolset.tools, messages: history.map((line) => line.message),
    });
    add({ turn_id: newTurnId(), stop_reason, message: { role: "assistant", content } });
  }
  const { turn_id, stop_reason, message } = history.at(-1)!;
  const turn = await toolset.turn(message, { turnId: turn_id!, stopReason: stop_reason ?? "" }).run({ onEvent: show, waitForDecision: true });
  if (!turn.messages.length) break;
  add(...turn.messages.map((message) => ({ message })));
}
console.log((history.at(-1)!.message.content as Anthropic.TextBlock[]).map((block) => block.text).join(""));
client.close();
