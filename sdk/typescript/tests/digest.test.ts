/** The test vectors of the daemon. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { approval, canonical, parse, sha256 } from "../src/digest.js";

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
