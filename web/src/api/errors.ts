import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";

/** A refused request: the gRPC code, the stable reason with its facts, and one sentence. */
export interface Refusal {
  code: string;
  reason: string;
  metadata: Record<string, string>;
  message: string;
}

/** Reads a refusal from an error. */
export function toFailure(error: ConnectError): Refusal {
  const info = error.findDetails(ErrorInfoSchema)[0];
  const code = Code[error.code].replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase();
  return { code: info?.reason || code, reason: info?.reason ?? "", metadata: info?.metadata ?? {}, message: error.rawMessage };
}

/** Reports whether an error has a reason, such as ALREADY_DECIDED. */
export const hasReason = (error: unknown, reason: string) => error instanceof ConnectError && toFailure(error).reason === reason;
