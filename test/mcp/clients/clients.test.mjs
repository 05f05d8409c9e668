// Other people's MCP clients against the shipped binary: the TypeScript SDK of both generations and the command line of the Inspector.
// scripts/mcp-server.sh runs this file with the addresses in the environment; see ../main.go.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const url = new URL(process.env.TOOLD_MCP_URL);
const signedIn = { requestInit: { headers: { Authorization: `Bearer ${process.env.TOOLD_MCP_TOKEN}` } } };
const info = { name: 'toold-test', version: '1.0.0' };
const text = (result) => result.content[0].text;

// Clients of protocol 2025-11-25 and before. With answer, the client shows forms.
async function oldClient(t, answer) {
  const client = new OldClient(info, { capabilities: answer ? { elicitation: {} } : {} });
  if (answer) client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new OldTransport(url, signedIn));
  t.after(() => client.close());
  return client;
}

// Clients of protocol 2026-07-28.
async function newClient(t, answer) {
  const client = new Client(info, { capabilities: answer ? { elicitation: { form: {} } } : {}, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  if (answer) client.setRequestHandler('elicitation/create', answer);
  await client.connect(new StreamableHTTPClientTransport(url, signedIn));
  t.after(() => client.close());
  return client;
}

// The tests that both generations of the SDK pass.
for (const [generation, connect] of [['1.x', oldClient], ['2.x', newClient]]) {
  test(`SDK ${generation} lists and calls tools`, async (t) => {
    const client = await connect(t);
    const { tools } = await client.listTools();
    assert.ok(tools.some((tool) => tool.name === 'greet' && tool.annotations?.readOnlyHint));
    assert.equal(text(await client.callTool({ name: 'greet', arguments: { name: 'World' } })), 'Hello, World!');
    const failed = await client.callTool({ name: 'test_error_handling', arguments: {} });
    assert.ok(failed.isError && text(failed).includes('intentionally'));
    const mixed = await client.callTool({ name: 'test_multiple_content_types', arguments: {} });
    assert.deepEqual(mixed.content.map((piece) => piece.type), ['text', 'image', 'resource']);
    await assert.rejects(client.callTool({ name: 'there_is_none', arguments: {} }), /unknown tool/);
  });

  test(`SDK ${generation} gets progress`, async (t) => {
    const client = await connect(t);
    const seen = [];
    await client.callTool({ name: 'test_tool_with_progress', arguments: {} }, ...(connect === oldClient ? [undefined] : []), { onprogress: (p) => seen.push(p) });
    assert.deepEqual(seen.map((p) => [p.progress, p.total]), [[0, 100], [50, 100], [100, 100]]);
  });

  test(`SDK ${generation} answers the question of a tool`, async (t) => {
    const asked = [];
    const client = await connect(t, async (request) => {
      asked.push(request.params.message);
      return { action: 'accept', content: { name: 'Alice' } };
    });
    assert.equal(text(await client.callTool({ name: 'test_input_required_result_elicitation', arguments: {} })), 'Hello, Alice!');
    assert.deepEqual(asked, ['What is your name?']);
  });

  test(`SDK ${generation} without forms gets a result that names the call`, async (t) => {
    const client = await connect(t);
    const waits = await client.callTool({ name: 'test_input_required_result_elicitation', arguments: {} });
    const id = waits._meta['toold/callId'];
    assert.ok(text(waits).includes(id) && text(waits).includes('toold_wait'), text(waits));
    const again = await client.callTool({ name: 'toold_wait', arguments: { call_id: id, seconds: 1 } });
    assert.equal(again._meta['toold/callId'], id);
  });
}

test('SDK 1.x hears of a change of the tools', async (t) => {
  const client = await oldClient(t);
  const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
  await client.callTool({ name: 'test_trigger_tool_change', arguments: {} });
  await changed;
});

test('a client without a token gets a challenge', async () => {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }, body: '{}' });
  assert.equal(response.status, 401);
  assert.match(response.headers.get('www-authenticate'), /^Bearer/);
});

// A program that an MCP client starts. It connects to the daemon with the client's token.
const program = { command: process.env.TOOLD_MCP_BINARY, args: ['mcp', '--address', process.env.TOOLD_MCP_ADDRESS], env: { TOOLD_TOKEN: process.env.TOOLD_MCP_TOKEN } };

test('SDK 1.x calls a tool through toold mcp', async (t) => {
  const client = new OldClient(info, { capabilities: {} });
  await client.connect(new StdioClientTransport(program));
  t.after(() => client.close());
  assert.equal(text(await client.callTool({ name: 'greet', arguments: { name: 'World' } })), 'Hello, World!');
});

for (const era of ['legacy', 'modern']) {
  test(`the Inspector waits for a long call through toold mcp, ${era} era`, async () => {
    const call = ['--method', 'tools/call', '--tool-name', 'slow_compute', '--tool-args-json', '{"seconds":3,"label":"long"}'];
    const { stdout } = await promisify(execFile)('mcp-inspector', ['--cli', program.command, ...program.args, '-e', `TOOLD_TOKEN=${program.env.TOOLD_TOKEN}`,
      '--transport', 'stdio', '--protocol-era', era, '--format', 'json', ...call]);
    assert.equal(text(JSON.parse(stdout).result), 'Computed long.');
  });
}

// inspect runs the Inspector's command line and returns what it prints.
async function inspect(era, method, ...args) {
  const command = ['--cli', url.href, '--transport', 'http', '--protocol-era', era, '--format', 'json', '--header', `Authorization: Bearer ${process.env.TOOLD_MCP_TOKEN}`];
  const { stdout } = await promisify(execFile)('mcp-inspector', [...command, '--method', method, ...args]);
  return JSON.parse(stdout).result;
}

for (const era of ['legacy', 'modern']) {
  test(`the Inspector lists and calls tools, ${era} era`, async () => {
    const { tools } = await inspect(era, 'tools/list');
    assert.ok(tools.some((tool) => tool.name === 'greet'));
    assert.equal(text(await inspect(era, 'tools/call', '--tool-name', 'greet', '--tool-arg', 'name=World')), 'Hello, World!');
  });

  // In the modern era, the call is a task, which the Inspector follows.
  test(`the Inspector waits for a long call, ${era} era`, async () => {
    assert.equal(text(await inspect(era, 'tools/call', '--tool-name', 'slow_compute', '--tool-args-json', '{"seconds":3,"label":"long"}')), 'Computed long.');
  });
}
