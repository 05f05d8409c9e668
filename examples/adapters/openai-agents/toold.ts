/** Tools of toold for the OpenAI Agents SDK. */
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { tool, type FunctionTool } from "@openai/agents";
import type { CallRecord, Client, TooldError } from "toold";

export interface Options {
  /** The conversation. In it, the model never uses the id of a tool call twice. */
  threadId: string;
  /** A client with the token of the person who approves calls in the run. Without it, questions wait in toold's inbox. */
  approver?: Client;
  /** Globs of the tools to offer. Default: all that the client may call. */
  allow?: string[];
}

/** Returns the tools for an agent. */
export async function tooldTools(client: Client, { threadId, approver, allow }: Options): Promise<FunctionTool<any, any, any>[]> {
  const { tools } = await client.toolset("openai", { allow });
  return tools.map(({ function: { name, description, parameters } }) => tool({
    name, description: description ?? "", parameters, strict: false,
    needsApproval: async (_, input) => approver !== undefined && (await client.describe(name, input, { threadId })).waits,
    execute: async (input: unknown, context, details) => {
      const modelCallId = details!.toolCall!.callId, signal = details!.signal;
      // A call that is sent again has the same id. It attaches, and nothing runs twice.
      const callId = createHash("sha256").update(JSON.stringify([threadId, modelCallId])).digest("hex");
      const run = async (waitForDecision: boolean) => {
        for await (const _ of client.execute(name, input, { callId, threadId, modelCallId, waitForDecision, signal }));
        return client.get(callId, { signal });
      };
      let call = await run(false);
      if (approver && context?.isToolApproved({ toolName: name, callId: modelCallId }) && asksFor(call, input)) {
        try {
          for await (const _ of await approver.resume(call, undefined, { signal }));
        } catch (e) {
          if ((e as TooldError).reason !== "ALREADY_DECIDED") throw e; // the answer came twice, or another person was faster
        }
      }
      call = await run(true); // waits until every open question of the call is answered
      const { message, data, modelText } = call.result!;
      return modelText || message || data;
    },
  }));
}

/** Reports whether the call waits for a yes to exactly the input that the person saw. */
function asksFor({ suspension, effectiveArguments }: CallRecord, input: unknown): boolean {
  return suspension?.action === "approval" && !suspension.responseSchema && isDeepStrictEqual(JSON.parse(effectiveArguments), input);
}
