/** Tools of toold for LangGraph.js. */
import { createHash } from "node:crypto";
import { tool, type DynamicStructuredTool } from "@langchain/core/tools";
import { interrupt } from "@langchain/langgraph";
import type { Client, TooldError } from "toold";

export interface Options {
  /** A client with the token of the person who answers interrupts. Default: the client, which may answer the questions of its own tools. */
  approver?: Client;
  /** Globs of the tools to offer. Default: all that the client may call. */
  allow?: string[];
}

/** The value of an interrupt: the question of a call that waits. */
export interface Question { tool: string; arguments: unknown; action: string; message: string; responseSchema: string; digest: string }

/** The value of `new Command({ resume })`. The digest is that of the question, so the answer counts for no other question. */
export interface Answer { digest: string; approved: boolean; result?: unknown; reason?: string }

/** Returns the tools for a ToolNode or an agent. The graph needs a checkpointer, and the run a thread_id. */
export async function tooldTools(client: Client, { approver = client, allow }: Options = {}): Promise<DynamicStructuredTool[]> {
  const { tools } = await client.toolset("openai", { allow });
  return tools.map(({ function: { name, description, parameters } }) => tool(async (input: unknown, config: any) => {
    const threadId: string = config.configurable.thread_id, modelCallId: string = config.toolCall.id, signal: AbortSignal = config.signal;
    // LangGraph runs this function again after an interrupt. The call has the same id, so it attaches, and nothing runs twice.
    const callId = createHash("sha256").update(JSON.stringify([threadId, modelCallId])).digest("hex");
    for (;;) {
      for await (const _ of client.execute(name, input, { callId, threadId, modelCallId, signal }));
      const call = await client.get(callId, { signal });
      if (call.result) {
        const { error, message, data, modelText } = call.result;
        if (error) throw new Error(modelText || error.message);
        return message || data;
      }
      if (!call.suspension) continue; // another client has just answered the question
      const { action, message, responseSchema, digest } = call.suspension;
      const answer = interrupt<Question, Answer>({ tool: name, arguments: JSON.parse(call.effectiveArguments), action, message, responseSchema, digest });
      if (answer.digest !== digest) continue; // the answer to an earlier question
      try {
        for await (const _ of await (answer.approved ? approver.resume(call, answer.result, { signal }) : approver.decline(call, answer.reason, { signal })));
      } catch (e) {
        if ((e as TooldError).reason !== "ALREADY_DECIDED") throw e; // the answer came twice, or another person was faster
      }
    }
  }, { name, description: description ?? "", schema: parameters as Record<string, unknown> }));
}
