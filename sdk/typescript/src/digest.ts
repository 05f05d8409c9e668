/** Computes the digest of what an approver approves: canonical form v1 and the approval digest. */
import { createHash } from "node:crypto";
import { type Call } from "../gen/toold/v1/call_pb.js";
import { IsolationLevel, NetworkMode } from "../gen/toold/v1/isolation_pb.js";
import { ResumeMode } from "../gen/toold/v1/suspension_pb.js";

/** The unchanged text of a JSON number, which a JavaScript number could not keep. */
class Token {
  constructor(readonly text: string) {}
}

type Json = null | boolean | string | Token | Json[] | Map<string, Json>;

/** Parses JSON and keeps the text of numbers. Throws for duplicate member names. */
export function parse(text: string): Json {
  JSON.parse(text); // throws for invalid JSON; the reader below assumes valid JSON
  let at = 0;
  const space = () => { while (" \t\r\n".includes(text[at] ?? "x")) at++; };
  const string = (): string => {
    const from = at++;
    while (text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
    return JSON.parse(text.slice(from, ++at)) as string;
  };
  const list = <T>(close: string, item: () => T): T[] => {
    const items: T[] = [];
    at++;
    space();
    while (text[at] !== close) {
      items.push(item());
      space();
      if (text[at] === ",") at++;
      space();
    }
    at++;
    return items;
  };
  const value = (): Json => {
    space();
    switch (text[at]) {
      case "{": {
        const members = list("}", (): [string, Json] => {
          const name = string();
          space();
          at++;
          return [name, value()];
        });
        const out = new Map(members);
        if (out.size !== members.length) throw new SyntaxError("a name is used twice");
        return out;
      }
      case "[": return list("]", value);
      case '"': return string();
    }
    const token = /^[^\s,\]}]+/.exec(text.slice(at))![0];
    at += token.length;
    return token === "null" ? null : token === "true" ? true : token === "false" ? false : new Token(token);
  };
  return value();
}

const escapes: Record<string, string> = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r" };

const quoted = (s: string) =>
  '"' + s.replace(/["\\\u0000-\u001f]/g, (c) => escapes[c] ?? "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")) + '"';

/** Returns canonical form v1: no white space, members sorted by the UTF-8 bytes of their names, RFC 8785 escapes, number tokens unchanged. */
export function canonical(v: Json): string {
  if (v === null || typeof v === "boolean") return String(v);
  if (typeof v === "string") return quoted(v);
  if (v instanceof Token) return v.text;
  if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
  const members = [...v].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return "{" + members.map(([k, m]) => quoted(k) + ":" + canonical(m)).join(",") + "}";
}

export const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

export interface Approval {
  namespace: string; call_id: string; suspension_id: string; caller: string; on_behalf_of: string; tool: string; tool_digest: string;
  /** JSON text. */
  arguments: string;
  resume_mode: string; required_isolation: string; required_network: string; expires_at: string;
  message: string; parameters: string; response_schema: string;
}

/** Returns the approval digest in hexadecimal. */
export function approval({ arguments: args, message, parameters, response_schema, ...rest }: Approval): string {
  return sha256("toold.approval.v1" + canonical(new Map<string, Json>([
    ...Object.entries(rest), ["arguments", parse(args)], ["message_sha256", sha256(message)],
    ["parameters_sha256", sha256(parameters)], ["response_schema_sha256", sha256(response_schema)],
  ])));
}

/** Computes the digest of the open question of a call from the fields of the call. */
export function ofCall(c: Call): string {
  const s = c.suspension!;
  const micros = Math.floor(s.expiresAt!.nanos / 1000).toString().padStart(6, "0");
  return approval({
    namespace: c.namespace, call_id: c.callId, suspension_id: s.suspensionId, caller: c.caller?.subject ?? "", on_behalf_of: c.run?.onBehalfOf ?? "",
    tool: c.tool, tool_digest: c.toolDigest, arguments: c.effectiveArguments, resume_mode: ResumeMode[s.resumeMode],
    required_isolation: IsolationLevel[c.isolation?.required ?? 0].toLowerCase(), required_network: NetworkMode[c.isolation?.network ?? 0].toLowerCase(),
    expires_at: new Date(Number(s.expiresAt!.seconds) * 1000).toISOString().slice(0, 19) + "." + micros + "Z", // not timestampDate, which rounds
    message: s.message, parameters: s.parameters, response_schema: s.responseSchema,
  });
}
