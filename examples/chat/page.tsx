'use client';

import { useChat } from '@ai-sdk/react';
import {
  lastAssistantMessageIsCompleteWithApprovalResponses as isAnswered,
  lastAssistantMessageIsCompleteWithToolCalls as isComplete,
  UIMessage,
} from 'ai';
import { useState } from 'react';

export default function Chat({ id, messages: initial }: { id: string; messages: UIMessage[] }) {
  const [input, setInput] = useState('');
  const { messages, sendMessage, addToolApprovalResponse } = useChat({
    id,
    messages: initial,
    resume: true,
    sendAutomaticallyWhen: o => isAnswered(o) || isComplete(o),
  });
  return (
    <div className="flex flex-col w-full max-w-md py-24 mx-auto stretch">
      {messages.map(message => (
        <div key={message.id} className="whitespace-pre-wrap" data-role={message.role}>
          {message.role === 'user' ? 'User: ' : 'AI: '}
          {message.parts.map((part, i) => {
            switch (part.type) {
              case 'text':
                return <div key={`${message.id}-${i}`}>{part.text}</div>;
              case 'data-toold-progress': {
                const { fraction, message: text } = part.data as { fraction: number; message?: string };
                return <progress key={`${message.id}-${i}`} value={fraction} title={text} />;
              }
              case 'data-toold-refusal':
                return <div key={`${message.id}-${i}`} role="alert">{(part.data as { message: string }).message}</div>;
              case 'dynamic-tool':
                return (
                  <div key={`${message.id}-${i}`} data-call={part.toolCallId} data-state={part.state}>
                    {part.toolName} {JSON.stringify(part.input)} {'output' in part && JSON.stringify(part.output)}
                    {'errorText' in part && part.errorText}
                    {part.state === 'approval-requested' && (
                      <>
                        <button onClick={() => addToolApprovalResponse({ id: part.approval.id, approved: true })}>Approve</button>
                        <button onClick={() => addToolApprovalResponse({ id: part.approval.id, approved: false, reason: 'not now' })}>Decline</button>
                      </>
                    )}
                  </div>
                );
            }
          })}
        </div>
      ))}

      <form
        onSubmit={e => {
          e.preventDefault();
          sendMessage({ text: input });
          setInput('');
        }}
      >
        <input
          className="fixed dark:bg-zinc-900 bottom-0 w-full max-w-md p-2 mb-8 border border-zinc-300 dark:border-zinc-800 rounded shadow-xl"
          value={input}
          placeholder="Say something..."
          onChange={e => setInput(e.currentTarget.value)}
        />
      </form>
    </div>
  );
}
