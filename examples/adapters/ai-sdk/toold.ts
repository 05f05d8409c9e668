/** Tools of toold for the Vercel AI SDK, versions 6 and 7. */
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { ModelMessage, ToolSet } from "ai";
import type { CallRecord, Client, TooldError } from "toold";

export interface Options {
  /** The conversation. In it, the model never uses the id of a tool call twice. */
  threadId: string;
  /** A client with the token of the person who approves calls in the AI SDK. Without it, questions wait in toold's inbox. */
  approver?: Client;
  /** Globs of the tools to offer. Default: all that the client may call. */
  allow?: string[];
}

/** Returns the tools for generateText, streamText and agents. */
export async function tooldTools(client: Client, { threadId, approver, allow }: Options): Promise<ToolSet> {
  const { tools } = await client.toolset("ai-sdk", { allow });
  for (const [name, tool] of Object.entries(tools)) {
    tool.needsApproval = async (input: unknown) => approver !== undefined && (await client.describe(name, input, { threadId })).waits;
    tool.execute = async (input: unknown, o: { toolCallId: string; messages: ModelMessage[]; abortSignal?: AbortSignal }) => {
      // A call that is sent again has the same id. It attaches, and nothing runs twice.
      const callId = createHash("sha256").update(JSON.stringify([threadId, o.toolCallId])).digest("hex"), signal = o.abortSignal;
      const run = async (waitForDecision: boolean) => {
        for await (const _ of client.execute(name, input, { callId, threadId, modelCallId: o.toolCallId, waitForDecision, signal }));
        return client.get(callId, { signal });
      };
      let call = await run(false);
      if (approver && approved(o.toolCallId, o.messages) && asksFor(call, input)) {
        try {
          for await (const _ of await approver.resume(call, undefined, { signal }));
        } catch (e) {
          if ((e as TooldError).reason !== "ALREADY_DECIDED") throw e; // the answer came twice, or another person was faster
        }
      }
      call = await run(true); // waits until every open question of the call is answered
      const { error, message, data, modelText } = call.result!;
      if (error) throw new Error(modelText || error.message);
      return message || (data ? JSON.parse(data) : "");
    };
  }
  return tools;
}

/** Reports whether a person approved the tool call, and not a policy of the AI SDK. */
function approved(toolCallId: string, messages: ModelMessage[]): boolean {
  const parts = messages.flatMap((m) => (typeof m.content === "string" ? [] : (m.content as any[])));
  const asked = parts.filter((p) => p.type === "tool-approval-request" && p.toolCallId === toolCallId && !p.isAutomatic).map((p) => p.approvalId);
  return parts.some((p) => p.type === "tool-approval-response" && p.approved && asked.includes(p.approvalId));
}

/** Reports whether the call waits for a yes to exactly the input that the person saw. */
function asksFor({ suspension, effectiveArguments }: CallRecord, input: unknown): boolean {
  return suspension?.action === "approval" && !suspension.responseSchema && isDeepStrictEqual(JSON.parse(effectiveArguments), input);
}
