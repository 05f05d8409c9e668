// Gives every golden turn to its provider's own package, as an agent would: the assistant message, then the messages of
// toold, with the client's own answers at their index. Nothing leaves this process. It compares what would have gone over
// the wire, and writes golden.ts, in which tsc checks the types. Arguments: golden files, named <provider>.jsonl.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import * as ai7 from 'ai';
import * as ai6 from 'ai6';

globalThis.AI_SDK_LOG_WARNINGS = false; // The forms of media that both versions know are deprecated in version 7.

// wire answers every request with a fixed body and keeps what was asked.
function wire(answer) {
  const sent = [];
  const fetch = async (url, init) => {
    sent.push(JSON.parse(init.body));
    return new Response(JSON.stringify(answer), { status: 200, headers: { 'content-type': 'application/json' } });
  };
  return { sent, fetch };
}

// merge puts the client's answers between those of toold.
function merge(turn, answers, own) {
  const others = turn.not_handled ?? [];
  const all = new Map([...(turn.calls ?? []).map((c, i) => [c.index, answers[i]]), ...others.map((o) => [o.index, own(o)])]);
  return [...all.keys()].sort((a, b) => a - b).map((i) => all.get(i));
}

// split separates the answers of a turn from the message with late outcomes.
function split(line, count) {
  assert.ok(line.messages.length - count <= 1, line.name);
  return [line.messages.slice(0, count), line.messages.slice(count)];
}

const count = (line) => line.turn.calls?.length ?? 0;
const one = (line) => (count(line) ? 1 : 0);

// sameIds checks that the answers are for the calls of the message, each once and in order.
function sameIds(line, calls, answers) {
  assert.deepEqual(answers, calls, line.name);
  assert.equal(new Set(answers).size, answers.length, line.name);
}

const providers = {
  openai: {
    type: "import('openai').OpenAI.ChatCompletionMessageParam",
    history(line) {
      const [messages, late] = split(line, count(line));
      const answers = merge(line.turn, messages, (o) => ({ role: 'tool', tool_call_id: o.id, content: 'mine' }));
      sameIds(line, (line.message.tool_calls ?? []).map((c) => c.id), answers.map((m) => m.tool_call_id));
      return [{ role: 'user', content: 'hi' }, line.message, ...answers, ...late];
    },
    async send(messages) {
      const { sent, fetch } = wire({ id: 'x', object: 'chat.completion', created: 0, model: 'm', choices: [] });
      await new OpenAI({ apiKey: 'none', fetch, maxRetries: 0 }).chat.completions.create({ model: 'm', messages });
      return sent[0].messages;
    },
  },
  'openai-responses': {
    type: "import('openai').OpenAI.Responses.ResponseInputItem",
    history(line) {
      const [messages, late] = split(line, count(line));
      const answers = merge(line.turn, messages, (o) => ({ type: o.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output', call_id: o.id, output: 'mine' }));
      sameIds(line, line.message.filter((i) => i.type.endsWith('_call') && i.call_id).map((i) => i.call_id), answers.map((m) => m.call_id));
      return [{ type: 'message', role: 'user', content: 'hi' }, ...line.message, ...answers, ...late];
    },
    async send(input) {
      const { sent, fetch } = wire({ id: 'x', object: 'response', output: [] });
      await new OpenAI({ apiKey: 'none', fetch, maxRetries: 0 }).responses.create({ model: 'm', input });
      return sent[0].input;
    },
  },
  anthropic: {
    type: "import('@anthropic-ai/sdk').Anthropic.MessageParam",
    history(line) {
      const [messages, late] = split(line, one(line));
      const content = merge(line.turn, messages[0]?.content ?? [], (o) => ({ type: 'tool_result', tool_use_id: o.id, content: 'mine' }));
      sameIds(line, line.message.content.filter((b) => b.type === 'tool_use').map((b) => b.id), content.map((b) => b.tool_use_id));
      const answers = content.length ? [{ ...messages[0], content }] : [];
      return [{ role: 'user', content: 'hi' }, line.message, ...answers, ...late];
    },
    async send(messages) {
      const { sent, fetch } = wire({ id: 'x', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: 'end_turn', usage: { input_tokens: 0, output_tokens: 0 } });
      await new Anthropic({ apiKey: 'none', fetch, maxRetries: 0 }).messages.create({ model: 'm', max_tokens: 1, messages });
      return sent[0].messages;
    },
  },
  gemini: {
    type: "Wire<import('@google/genai').Content>",
    history(line) {
      const [messages, late] = split(line, one(line));
      const calls = line.message.parts.filter((p) => p.functionCall).map((p) => p.functionCall);
      const parts = merge(line.turn, messages[0]?.parts ?? [], (o) => ({ functionResponse: { id: o.id, name: calls[o.index].name, response: { output: 'mine' } } }));
      sameIds(line, calls.map((c) => c.id), parts.map((p) => p.functionResponse.id));
      assert.deepEqual(parts.map((p) => p.functionResponse.name), calls.map((c) => c.name), line.name);
      return [{ role: 'user', parts: [{ text: 'hi' }] }, line.message, ...(parts.length ? [{ ...messages[0], parts }] : []), ...late];
    },
    async send(contents) {
      const { sent, fetch } = wire({ candidates: [] });
      globalThis.fetch = fetch; // the package knows no other way
      await new GoogleGenAI({ apiKey: 'none' }).models.generateContent({ model: 'm', contents });
      return sent[0].contents;
    },
  },
};

// sdk returns a version of the AI SDK. It parses and converts messages, so what its model gets is not what was given to it.
function sdk(ai, name, specificationVersion) {
  return {
    type: `import('${name}').ModelMessage`,
    history(line) {
      const [messages, late] = split(line, count(line));
      const own = (o) => ({ role: 'tool', content: [{ type: 'tool-result', toolCallId: o.id, toolName: 'mine', output: { type: 'text', value: 'mine' } }] });
      const answers = merge(line.turn, messages, own);
      const calls = line.message.content.filter((p) => p.type === 'tool-call' && !p.providerExecuted);
      sameIds(line, calls.map((p) => p.toolCallId), answers.map((m) => m.content[0].toolCallId));
      // An approval has no result: somebody declines it.
      const declined = answers.map((m) => m.content[0]).filter((p) => p.type === 'tool-approval-request')
        .map((p) => ({ type: 'tool-approval-response', approvalId: p.approvalId, approved: false, reason: 'no' }));
      return [{ role: 'user', content: 'hi' }, line.message, ...answers, ...(declined.length ? [{ role: 'tool', content: declined }] : []), ...late];
    },
    async send(messages) {
      let prompt;
      const model = {
        specificationVersion, provider: 'none', modelId: 'm', supportedUrls: {},
        async doGenerate(options) {
          prompt = options.prompt;
          const tokens = { total: 0 };
          return { content: [{ type: 'text', text: 'ok' }], finishReason: { unified: 'stop' }, usage: { inputTokens: tokens, outputTokens: tokens }, warnings: [] };
        },
      };
      await ai.generateText({ model, messages, maxRetries: 0 });
      const results = (list) => list.filter((m) => m.role === 'tool').flatMap((m) => m.content).filter((p) => p.type === 'tool-result')
        .map((p) => [p.toolCallId, p.toolName, p.output.type, p.output.type === 'content' ? p.output.value.length : (p.output.value ?? p.output.reason)]);
      const declined = messages.flatMap((m) => (Array.isArray(m.content) ? m.content : [])).filter((p) => p.type === 'tool-approval-request').map((p) => p.toolCallId);
      assert.deepEqual(results(prompt).filter(([id]) => !declined.includes(id)), results(messages));
      for (const id of declined) assert.ok(results(prompt).some(([got, , type]) => got === id && type === 'execution-denied'), id);
      return messages;
    },
  };
}

const checks = { ...Object.fromEntries(Object.entries(providers).map(([k, v]) => [k, [v]])), 'ai-sdk': [sdk(ai6, 'ai6', 'v3'), sdk(ai7, 'ai', 'v4')] };
const missing = new Set(Object.keys(checks));
// Wire replaces the enums of a package by the strings in the JSON.
const typed = ['type Wire<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;'];
for (const file of process.argv.slice(2)) {
  const provider = basename(file, '.jsonl');
  const lines = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  assert.ok(lines.length >= 20, `${file} has ${lines.length} turns`);
  for (const check of checks[provider]) {
    for (const line of lines) {
      const history = check.history(line);
      assert.deepEqual(await check.send(structuredClone(history)), history, `${provider}: ${line.name}`);
      typed.push(`export const t${typed.length}: ${check.type}[] = ${JSON.stringify(history)}; // ${provider}: ${line.name}`);
    }
  }
  missing.delete(provider);
  console.log(`${file}: ${lines.length} turns taken`);
}
assert.equal(missing.size, 0, `no file for ${[...missing]}`);
writeFileSync(new URL('golden.ts', import.meta.url), typed.join('\n') + '\n');
