// Sends every golden list through its provider's own package, as an orchestrator would, with an answer that never leaves
// this process, and compares what would have gone over the wire. Arguments: golden files, named <format>.jsonl.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import OpenAI from 'openai';
import { toStrictJsonSchema } from 'openai/lib/transform';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { ListToolsRequestSchema, ListToolsResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { validateToolName } from '@modelcontextprotocol/sdk/shared/toolNameValidation.js';
import Ajv2020 from 'ajv/dist/2020.js';

// wire answers every request with a fixed body and keeps what was asked.
function wire(answer) {
  const sent = [];
  const fetch = async (url, init) => {
    sent.push(JSON.parse(init.body));
    return new Response(JSON.stringify(answer), { status: 200, headers: { 'content-type': 'application/json' } });
  };
  return { sent, fetch };
}

function isSchema(name, schema) {
  const ajv = new Ajv2020.default({ strict: false, validateFormats: false, logger: false });
  assert.ok(ajv.validateSchema(schema), `${name}: not a schema of 2020-12: ${ajv.errorsText()}`);
}

async function openai(tools) {
  const { sent, fetch } = wire({ id: 'x', object: 'chat.completion', created: 0, model: 'm', choices: [] });
  const client = new OpenAI({ apiKey: 'none', fetch, maxRetries: 0 });
  await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hi' }], tools });
  assert.deepEqual(sent[0].tools, tools);
  let strict = 0;
  for (const { function: f } of tools) {
    isSchema(f.name, f.parameters);
    if (f.strict) {
      strict++;
      assert.deepEqual(toStrictJsonSchema(f.parameters), f.parameters, `${f.name}: the package would change the strict schema`);
    }
  }
  return `${strict} strict`;
}

async function responses(tools) {
  const { sent, fetch } = wire({ id: 'x', object: 'response', created_at: 0, model: 'm', status: 'completed', output: [] });
  const client = new OpenAI({ apiKey: 'none', fetch, maxRetries: 0 });
  await client.responses.create({ model: 'm', input: 'hi', tools });
  assert.deepEqual(sent[0].tools, tools);
  let strict = 0;
  for (const f of tools) {
    assert.equal(f.type, 'function');
    assert.equal(typeof f.strict, 'boolean', `${f.name}: without strict, the API takes it as strict`);
    isSchema(f.name, f.parameters);
    if (f.strict) {
      strict++;
      assert.deepEqual(toStrictJsonSchema(f.parameters), f.parameters, `${f.name}: the package would change the strict schema`);
    }
  }
  return `${strict} strict`;
}

async function anthropic(tools) {
  const { sent, fetch } = wire({ id: 'x', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: 'end_turn', usage: { input_tokens: 0, output_tokens: 0 } });
  const client = new Anthropic({ apiKey: 'none', fetch, maxRetries: 0 });
  await client.messages.create({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }], tools });
  assert.deepEqual(sent[0].tools, tools);
  for (const t of tools) isSchema(t.name, t.input_schema);
}

async function gemini(tools) {
  const { sent, fetch } = wire({ candidates: [] });
  globalThis.fetch = fetch; // the package knows no other way
  const client = new GoogleGenAI({ apiKey: 'none' });
  const lists = tools.length ? [{ functionDeclarations: tools }] : [];
  await client.models.generateContent({ model: 'm', contents: 'hi', config: { tools: structuredClone(lists) } });
  // The package turns schemas of other kinds into Gemini's; ours are that already.
  assert.deepEqual(sent[0].tools, lists);
  assert.ok(!JSON.stringify(sent[0]).includes('TYPE_UNSPECIFIED'));
}

async function mcp(tools) {
  ListToolsResultSchema.parse({ tools });
  const server = new Server({ name: 'toold', version: '0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  const client = new Client({ name: 'check', version: '0' });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(there), client.connect(here)]);
  const listed = await client.listTools();
  assert.deepEqual(listed.tools, tools);
  for (const t of tools) {
    assert.ok(validateToolName(t.name).isValid, t.name);
    if (!t.inputSchema.$schema) isSchema(t.name, t.inputSchema);
  }
  await client.close();
}

const checks = { openai, 'openai-strict': openai, 'openai-responses': responses, 'openai-responses-strict': responses, anthropic, gemini, mcp };
const missing = new Set(Object.keys(checks));
for (const file of process.argv.slice(2)) {
  const format = basename(file, '.jsonl');
  const lines = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const tools = lines.filter((line) => line.definition).map((line) => line.definition);
  assert.ok(tools.length > 0, `${file} has no tools`);
  const more = await checks[format](tools);
  missing.delete(format);
  console.log(`${file}: ${tools.length} tools taken${more ? ', ' + more : ''}`);
}
assert.equal(missing.size, 0, `no file for ${[...missing]}`);
