/** A page with AG-UI's client, which follows a run of toold and answers its questions. */
import { HttpAgent, type AgentSubscriber } from "@ag-ui/client";

/** Follows a run at `toold` with the token of the person. The agent sends answers to toold, and then requests the run with a GET. */
function agentOf(toold: string, token: string, thread: string, run: string) {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return new HttpAgent({
    url: `${toold}/v1/agui/runs/${run}/stream`, threadId: thread,
    fetch: async (url, init) => {
      const input = JSON.parse(String(init!.body));
      if (input.resume?.length) {
        const answered = await fetch(`${toold}/v1/agui/decisions`, { method: "POST", headers, body: JSON.stringify(input) });
        (window as any).decisions = await answered.json();
      }
      return fetch(url, { headers, signal: init!.signal });
    },
  });
}

const seen: { type: string; activityType?: string; content?: any }[] = [];
let agent: HttpAgent;
const subscriber: AgentSubscriber = { onEvent: ({ event }) => void seen.push(event as any) };

Object.assign(window, {
  seen,
  begin: (toold: string, token: string, thread: string, run: string) => void (agent = agentOf(toold, token, thread, run)),
  follow: async (resume?: any) => {
    agent.setMessages([]); // the stream has the whole run again
    await agent.runAgent({ ...(resume && { resume }) }, subscriber);
    return { messages: agent.messages, interrupts: agent.pendingInterrupts };
  },
});
