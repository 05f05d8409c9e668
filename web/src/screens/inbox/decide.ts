import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import type { DecisionSchema } from "../../../gen/toold/v1/suspension_pb.ts";
import { calls } from "../../api/clients.ts";

/**
 * Sends a decision about the open question of a call, valid only for the question's digest. It returns when the daemon has stored the decision. A
 * decision that is sent again with the same id counts once.
 */
export async function decide(call: Call, decision: MessageInitShape<typeof DecisionSchema>): Promise<void> {
  const stop = new AbortController();
  const s = call.suspension!;
  try {
    for await (const _ of calls.resumeTool({ suspensionId: s.suspensionId, callId: call.callId, decision: { ...decision, expectedDigest: s.digest } }, { signal: stop.signal })) return;
  } finally {
    stop.abort(); // the call continues without this stream
  }
}
