import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { AdminService } from "../gen/toold/v1/admin_service_pb.js";
import { version } from "../gen/version.js";
import { TooldError } from "./errors.js";

/**
 * Returns what to upgrade if a daemon of this version does not serve this package, or "". It accepts versions that are not semantic, and
 * builds of a commit before the first release, such as 0.0.0-20261124094551-293eaa05f00d.
 */
export function mismatch(daemon: string, ours = version): string {
  const [major, minor] = numbers(daemon), [own] = numbers(ours);
  if (major === undefined || own === undefined) return "";
  if (major < own || (major === 0 && minor === 0 && !/^v?0\.0\.0-/.test(daemon))) return `upgrade the daemon to ${own || "0.1"} or later`;
  return major > own ? `upgrade the package toold to ${major}` : "";
}

function numbers(version: string): number[] {
  return /^v?(\d+)\.(\d+)\.\d+(?:[-+].*)?$/.exec(version)?.slice(1).map(Number) ?? [];
}

/** Throws a TooldError if the server is not toold, or has a version that does not serve this package. */
export async function checkVersion(transport: Transport): Promise<void> {
  let daemon: string;
  try {
    daemon = (await createClient(AdminService, transport).getInfo({}, { timeoutMs: 30_000 })).version;
  } catch (e) {
    if (ConnectError.from(e).code !== Code.Unimplemented) throw e;
    throw new TooldError(Code.Unimplemented, "the server at this address is not toold", { reason: "NOT_TOOLD", cause: e });
  }
  const todo = mismatch(daemon);
  if (todo) throw new TooldError(Code.FailedPrecondition, `the daemon has version ${daemon}, and the package toold ${version}: ${todo}`, { reason: "VERSION_MISMATCH" });
}
