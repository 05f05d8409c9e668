/** Tests of the chunks for the AI SDK, with the transcripts that toold's own stream is tested with, and of the loop of a route. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fromJson } from "@bufbuild/protobuf";
import { FrameSchema, type CallEvent } from "../gen/toold/v1/event_pb.js";
import { ChunkMapper } from "../src/uistream.js";

const folder = new URL("../../../../server/http/uistream/testdata/", import.meta.url);
const lines = (name: string): any[] => readFileSync(new URL(name, folder), "utf8").trim().split("\n").map((line) => JSON.parse(line));

/** The chunks that the stream of the model contains, and those that depend on time. */
const other = (c: any): boolean => ["start", "start-step", "finish-step", "finish", "tool-input-available"].includes(c.type) || c.preliminary;

function play(name: string, answered?: Set<string>): any[] {
  const chunks: object[] = [], mapper = new ChunkMapper((chunk) => chunks.push(chunk), answered);
  for (const { frame } of lines(name)) if (frame) fromJson(FrameSchema, frame).events.forEach((e: CallEvent) => mapper.event(e));
  mapper.rest();
  mapper.close();
  return JSON.parse(JSON.stringify(chunks));
}

/** Dates have milliseconds here and none in toold. */
const exact = (chunks: any[]): any[] => JSON.parse(JSON.stringify(chunks).replaceAll(".000Z", "Z"), (k, v) => (k === "notes" && v.length === 0 ? undefined : v));

test("chunks are those of toold's own stream", () => {
  const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  assert.ok(names.length >= 7);
  for (const name of names) {
    const want = lines(name.replace(".jsonl", ".v6")).filter((c) => !other(c));
    assert.deepEqual(exact(play(name)).filter((c) => !other(c)), want, name);
  }
});

test("an approval that the client has answered is not asked again, unless it still waits", () => {
  const asked = (name: string, answered: string[]) => play(name, new Set(answered)).filter((c) => c.type === "tool-approval-request").map((c) => c.approvalId);
  assert.deepEqual(asked("approved.jsonl", ["suspension-4-000"]), []);
  const [id] = asked("waiting.jsonl", []);
  assert.deepEqual(asked("waiting.jsonl", [id]), [id]);
});
