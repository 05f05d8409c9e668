/** Tests digests with the daemon's test vectors. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { CallSchema } from "../gen/toold/v1/call_pb.js";
import { ResumeMode } from "../gen/toold/v1/suspension_pb.js";
import { approval, canonical, ofCall, parse, sha256 } from "../src/digest.js";

const vectors = (name: string) => JSON.parse(readFileSync(new URL(`../../../../call/testdata/${name}.json`, import.meta.url), "utf8"));

test("canonical form", () => {
  for (const v of vectors("canonical").vectors) {
    const got = canonical(parse(v.text));
    assert.equal(got, v.canonical, v.name);
    assert.equal(sha256(got), v.sha256, v.name);
  }
});

test("approvals", () => {
  for (const { name, digest, canonical: _, ...a } of vectors("digests").approvals) {
    assert.equal(approval(a), digest, name);
    assert.notEqual(approval({ ...a, message: a.message + " " }), digest, name);
  }
});

test("a question that expires in the last half millisecond of a second", () => {
  const a = { ...vectors("digests").approvals[0], required_isolation: "unspecified", required_network: "unspecified", expires_at: "2026-12-21T10:00:00.999999Z" };
  const shown = create(CallSchema, {
    namespace: a.namespace, callId: a.call_id, caller: { subject: a.caller }, run: { onBehalfOf: a.on_behalf_of }, tool: a.tool,
    toolDigest: a.tool_digest, effectiveArguments: a.arguments,
    suspension: {
      suspensionId: a.suspension_id, resumeMode: ResumeMode[a.resume_mode as keyof typeof ResumeMode], message: a.message,
      parameters: a.parameters, responseSchema: a.response_schema, expiresAt: { seconds: 1797847200n, nanos: 999_999_000 },
    },
  });
  const { name: _, digest: __, canonical: ___, ...approved } = a;
  assert.equal(ofCall(shown), approval(approved));
});
