// Gives the chunks of toold's UI message streams to the AI SDK, as useChat would: each chunk must fit the schema of the version, and all of
// them together must make the message of toold's log. Arguments: golden files, named <transcript>.v<version of the AI SDK>.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import * as ai7 from 'ai';
import * as ai6 from 'ai6';

// The state of each tool part at the end of the transcript.
const want = {
  progress: ['output-available'],
  approved: ['output-available', 'output-available'],
  declined: ['output-denied'],
  waiting: ['output-available', 'approval-requested'],
  question: ['output-available'],
  errors: ['output-error', 'output-error', 'output-error', 'output-error'],
  cancelled: ['output-error'],
};

async function message(ai, chunks) {
  const validate = ai.uiMessageChunkSchema().validate;
  for (const chunk of chunks) {
    const { success, error } = await validate(chunk);
    assert.ok(success, `${JSON.stringify(chunk)}: ${error}`);
  }
  const stream = new ReadableStream({
    start(c) {
      chunks.forEach((chunk) => c.enqueue(chunk));
      c.close();
    },
  });
  let last;
  for await (const m of ai.readUIMessageStream({ stream, terminateOnError: true })) last = m;
  return last;
}

let played = 0;
for (const file of process.argv.slice(2)) {
  const [, name, version] = basename(file).match(/^(.*)\.v([67])$/);
  const chunks = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  for (const ai of version === '6' ? [ai6, ai7] : [ai7]) {
    const { id, parts } = await message(ai, structuredClone(chunks));
    const tools = parts.filter((p) => p.type === 'dynamic-tool');
    assert.equal(id, 'm1');
    assert.deepEqual(tools.map((p) => p.state), want[name], file);
    assert.equal(tools.filter((p) => p.preliminary).length, 0, file);
    assert.equal(new Set(tools.map((p) => p.toolCallId)).size, tools.length, file);
    const last = { role: 'assistant', id, parts };
    assert.equal(ai.lastAssistantMessageIsCompleteWithToolCalls({ messages: [last] }), tools.every((p) => /output-(available|error)/.test(p.state)), file);
    await ai.convertToModelMessages([{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }, last], { ignoreIncompleteToolCalls: true });
    played++;
  }
}
assert.equal(played, Object.keys(want).length * 3);
// A chunk that only version 7 knows ends the stream of version 6.
await assert.rejects(message(ai6, [{ type: 'start' }, { type: 'tool-approval-response', approvalId: 'a', approved: true }]));
console.log(`${played} UI message streams taken`);
