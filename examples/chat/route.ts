import {
  streamText,
  UIMessage,
  convertToModelMessages,
  createUIMessageStreamResponse,
  createUIMessageStream,
} from 'ai';
import { model } from './model';
import { mergeTurns } from 'toold';
import { client, person } from './toold';

export async function POST(req: Request) {
  const { id: chatId, messages }: { id: string; messages: UIMessage[] } = await req.json();
  const toolset = await client.toolset('ai-sdk');

  const ask = (messages: any[]) => streamText({
    model,
    messages,
    tools: toolset.tools,
  });

  const chat = { chatId, messages, history: convertToModelMessages(messages), person: person(req), signal: req.signal };
  return createUIMessageStreamResponse({
    stream: createUIMessageStream({ execute: ({ writer }) => mergeTurns(writer, toolset, chat, ask) }),
  });
}
