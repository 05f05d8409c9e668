import { simulateReadableStream, type LanguageModel } from 'ai';

/**
 * A model without a provider, so that the example needs no key. It answers "use TOOL ARGUMENTS" with a call of the tool, and says what the tool
 * answered. Replace it with a real model, such as `openai('…')`.
 */
export const model: LanguageModel = {
  specificationVersion: 'v4', provider: 'example', modelId: 'echo', supportedUrls: {},
  doGenerate() {
    throw new Error('this model only streams');
  },
  async doStream({ prompt, tools }) {
    const at = prompt.findLastIndex(m => m.role === 'user'), said = (prompt[at].content as any[]).map(p => p.text).join('');
    const results = prompt.slice(at).flatMap(m => (m.role === 'tool' ? (m.content as any[]) : [])).filter(p => p.type === 'tool-result');
    const calls = prompt.slice(at).flatMap(m => (m.role === 'assistant' ? (m.content as any[]) : [])).filter(p => p.type === 'tool-call');
    if (String(results.map(p => p.toolCallId)) !== String(calls.map(p => p.toolCallId))) throw new Error('each call needs one result');
    const [, toolName, input] = said.match(/^use (\w+) (.*)$/) ?? [], output = results.at(-1)?.output;
    const value = output?.value ?? output?.reason, call = results.length === 0 && tools?.some(t => t.name === toolName);
    const text = call ? `I use ${toolName}.` : output ? `${toolName} answered: ${typeof value === 'string' ? value : JSON.stringify(value)}` : 'There is no such tool.';
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } } as any, unified = call ? 'tool-calls' : 'stop';
    const parts: any[] = [
      { type: 'stream-start', warnings: [] },
      { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: text }, { type: 'text-end', id: 't' },
      ...(call ? [{ type: 'tool-call', toolCallId: crypto.randomUUID(), toolName, input }] : []),
      { type: 'finish', finishReason: { unified, raw: unified }, usage },
    ];
    return { stream: simulateReadableStream({ chunks: parts }) };
  },
};
