import { ConnectError } from "@connectrpc/connect";
import { BadRequestSchema } from "../../../gen/google/rpc/error_details_pb.ts";

/** Returns the messages of a refusal about fields below `prefix`. The keys are the paths below `prefix`. */
export function violations(error: unknown, prefix: string): Map<string, string> {
  const out = new Map<string, string>();
  if (!(error instanceof ConnectError)) return out;
  for (const v of error.findDetails(BadRequestSchema)[0]?.fieldViolations ?? []) out.set(v.field.startsWith(prefix) ? v.field.slice(prefix.length).replace(/^\./, "") : v.field, v.description);
  return out;
}
