/** Returns a call as a command that can be pasted into a shell. Tool and arguments come from a model, so every byte of them is quoted. */
import type { Call } from "../../../gen/toold/v1/call_pb.ts";

export const forms = ["toold", "grpcurl", "curl"] as const;

/** Writes all characters except printable ASCII as JSON escapes. So the text cannot control a terminal that shows or pastes it. */
const ascii = (json: string) => json.replace(/[^\x20-\x7e]/g, (c) => (/\s/.test(c) && c < "\x20" ? " " : "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")));

/** Quotes a text of printable ASCII for a POSIX shell. */
const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns a command that makes the same call under a new id. If that is not possible, it returns the reason. */
export function command(call: Call, form: (typeof forms)[number], origin: string): { text: string } | { none: string } {
  // Only such a name can be a tool. Another name, such as `--config`, could be an option of a program.
  if (!/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/.test(call.tool)) return { none: "The name of the tool is not one that a tool can have." };
  const args = call.requestedArguments || call.effectiveArguments || "{}";
  if (call.leftOut.some((f) => f.endsWith("_arguments"))) return { none: "The arguments are too large for a command." };
  // In JSON, the only unprintable characters between tokens are white space. Inside strings, an escape means the same as the character.
  const json = ascii(args);
  if (form === "toold") return { text: `toold call ${call.tool} --json ${quote(json)}` };
  const request = ascii(JSON.stringify({ spec: { tool: call.tool, arguments: json } }));
  if (form === "grpcurl") return { text: `grpcurl -plaintext -H "authorization: Bearer $(toold token)" -d ${quote(request)} 127.0.0.1:7130 toold.v1.CallService/CallTool` };
  return { text: `curl -H "authorization: Bearer $(toold token)" --json ${quote(request)} ${quote(`${origin}/toold.v1.CallService/CallTool?form=readable`)}` };
}
