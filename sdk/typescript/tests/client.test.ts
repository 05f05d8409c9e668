/** Tests of errors, retries, signals, the check of the version, toolsets and the inbox, with a server that answers as a test says. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import * as http2 from "node:http2";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.js";
import { AdminService } from "../gen/toold/v1/admin_service_pb.js";
import { CallSchema, CallStatus } from "../gen/toold/v1/call_pb.js";
import { CallService, ExecuteTurnResponseSchema, WatchInboxResponseSchema } from "../gen/toold/v1/call_service_pb.js";
import type { Decision } from "../gen/toold/v1/suspension_pb.js";
import { FrameSchema } from "../gen/toold/v1/event_pb.js";
import { NotHandledSchema, TurnCallSchema } from "../gen/toold/v1/turn_pb.js";
import { ToolService, type ExportToolsRequest } from "../gen/toold/v1/tool_service_pb.js";
import { ofCall } from "../src/digest.js";
import { Client, newTurnId, TooldError, TurnResult, Worker, type Provider, type Toolset } from "../src/index.js";
import { mismatch } from "../src/version.js";

/** Runs a test with a client of a server. A null as version is a server without AdminService. */
async function serve(calls: Partial<ServiceImpl<typeof CallService>>, tools: Partial<ServiceImpl<typeof ToolService>>, run: (client: Client, address: string) => Promise<void>, version: string | null = "0.1.0") {
  const server = http2.createServer(connectNodeAdapter({
    routes: (router) => {
      if (version !== null) router.service(AdminService, { getInfo: () => ({ version }) });
      router.service(CallService, calls).service(ToolService, tools);
    },
  }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`, client = new Client(address);
  try {
    await run(client, address);
  } finally {
    client.close();
    server.close();
  }
}

const refused = (code: Code, reason: string, retryAfterMs?: number) => new ConnectError("refused", code, undefined, [
  { desc: ErrorInfoSchema, value: { reason, domain: "toold", metadata: { run_id: "r1" } } },
  { desc: BadRequestSchema, value: { fieldViolations: [{ field: "spec.tool", description: "is required" }] } },
  ...(retryAfterMs === undefined ? [] : [{ desc: RetryInfoSchema, value: { retryDelay: durationFromMs(retryAfterMs) } }]),
]);
const fails = (code: Code, reason = "") => (e: unknown) => e instanceof TooldError && e.code === code && e.reason === reason;
const ended = (callId: string) => ({ call: { callId, status: CallStatus.SUCCEEDED } });

test("versions", async () => {
  for (const [daemon, fits] of [["0.1.0", true], ["v0.9.3-4-gabc", true], ["0.0.9", false], ["1.0.0", false], ["unknown", true], ["1234567", true],
    ["0.0.0-20261124094551-293eaa05f00d", true]] as const) {
    assert.equal(mismatch(daemon, "0.1.0") === "", fits, daemon);
  }
  assert.match(mismatch("1.9.0", "2.0.0"), /daemon to 2/);
  const answers = { getCall: () => ended("a") };
  await serve(answers, {}, (client) => assert.rejects(client.get("a"), (e) => fails(Code.FailedPrecondition, "VERSION_MISMATCH")(e) && /1\.2\.3.*0\.1\.0/.test((e as Error).message)), "1.2.3");
  await serve(answers, {}, (client) => assert.rejects(client.get("a"), fails(Code.Unimplemented, "NOT_TOOLD")), null);
  await serve(answers, {}, async (client) => assert.equal((await client.get("a")).callId, "a"), "unknown");
});

test("a worker checks the version", async () => {
  await serve({}, {}, async (_, address) => {
    await assert.rejects(new Worker({ pool: "p", address, log: () => {} }).run(), fails(Code.FailedPrecondition, "VERSION_MISMATCH"));
  }, "1.2.3");
});

test("errors and retries", async () => {
  const ids: string[] = [];
  const errors = [refused(Code.ResourceExhausted, "QUEUE_FULL", 1), new ConnectError("gone", Code.Unavailable)];
  await serve({
    callTool: ({ spec }) => {
      ids.push(spec!.callId);
      const error = errors.shift();
      if (error) throw error;
      return ended(spec!.callId);
    },
    getCall: () => { throw refused(Code.ResourceExhausted, "RULES_FULL"); },
    describeCall: () => { throw refused(Code.FailedPrecondition, "RUN_BLOCKED"); },
  }, {}, async (client) => {
    const { callId } = await client.call("read");
    assert.deepEqual(ids, [callId, callId, callId]);
    await assert.rejects(client.get("a"), fails(Code.ResourceExhausted, "RULES_FULL")); // no RetryInfo
    await assert.rejects(client.describe("read"), (e) => {
      assert.ok(fails(Code.FailedPrecondition, "RUN_BLOCKED")(e));
      const { message, metadata, fields, hint } = e as TooldError;
      assert.deepEqual([message, metadata, fields], ["refused", { run_id: "r1" }, { "spec.tool": "is required" }]);
      assert.match(hint, /EndRun/);
      return true;
    });
  });
});

test("requests without an id get one", async () => {
  const ids: string[] = [];
  await serve({
    async *executeBatch({ spec }) {
      ids.push(spec!.batchId, ...spec!.calls.map((c) => c.callId));
    },
  }, {}, async (client) => {
    for (const none of ["", undefined]) for await (const _ of client.batch([client.spec("read", {}, { callId: none })], { batchId: none }));
  });
  assert.equal(new Set(ids.filter(Boolean)).size, 4);
});

test("RetryInfo that no client can honour", async () => {
  let sent = 0;
  for (const retryAfterMs of [30 * 24 * 3_600_000, 0, -5000]) {
    await serve({ getCall: () => { sent++; throw refused(Code.ResourceExhausted, "QUEUE_FULL", retryAfterMs); } }, {}, async (_, address) => {
      const client = new Client(address, { patience: 50 });
      await assert.rejects(client.get("a"), fails(Code.ResourceExhausted, "QUEUE_FULL")).finally(client.close);
    });
  }
  assert.equal(sent, 3);
});

test("streams that break", async () => {
  let opened = 0;
  const breaking = (cursor: () => string) => ({
    async *watchCalls() {
      opened++;
      yield { frame: { cursor: cursor(), control: { case: "caughtUp", value: {} } } } as const;
      if (opened < 5) throw new ConnectError("gone", Code.Unavailable);
    },
  });
  const watch = async (address: string) => {
    const client = new Client(address, { patience: 150 });
    try {
      for await (const _ of client.watch({ selector: { case: "namespace", value: true } }));
    } finally {
      client.close();
    }
  };
  await serve(breaking(() => "same"), {}, (_, address) => assert.rejects(watch(address), fails(Code.Unavailable)));
  assert.equal(opened, 2);
  opened = 0;
  await serve(breaking(() => `${opened}`), {}, (_, address) => watch(address));
  assert.equal(opened, 5);
});

test("signals and time limits", async () => {
  let left = () => {};
  const ended = new Promise<void>((resolve) => { left = resolve; });
  const hang = (signal: AbortSignal) => new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  async function* frames(_: unknown, c: { signal: AbortSignal }) {
    yield { frame: { cursor: "1", control: { case: "caughtUp", value: {} } } } as const;
    await hang(c.signal);
  }
  await serve({
    callTool: (_, c) => hang(c.signal), getCall: (_, c) => hang(c.signal), listCalls: (_, c) => hang(c.signal), describeCall: ({ spec }, c) => (spec?.tool === "quick" ? { tool: "quick" } : hang(c.signal)),
    cancelCall: (_, c) => hang(c.signal), cancelCalls: (_, c) => hang(c.signal), watchInbox: async function* (_, c) { await hang(c.signal); }, executeTurn: frames, getTurn: frames, executeTool: frames,
    watchCalls: (r, c) => {
      if (r.selector.value === "left") c.signal.addEventListener("abort", left);
      return frames(r, c);
    },
  }, { exportTools: ({ ifRevision }, c) => (ifRevision ? hang(c.signal) : { tools: "[]", revision: "1" }) }, async (client) => {
    const toolset = await client.toolset("openai"), turn = toolset.turn({}, { turnId: newTurnId() });
    type Options = { signal?: AbortSignal; timeoutMs?: number };
    const all = async (items: AsyncIterable<unknown>) => { for await (const _ of items); };
    const methods: Record<string, (o: Options) => Promise<unknown>> = {
      call: (o) => client.call("read", {}, o), get: (o) => client.get("a", o), cancel: (o) => client.cancel("a", "", 0, o), describe: (o) => client.describe("a", {}, o),
      waiting: (o) => all(client.waiting({}, o)), inbox: (o) => all(client.inbox({}, o)), execute: (o) => all(client.execute("read", {}, o)),
      watch: (o) => all(client.watch({ selector: { case: "callId", value: "a" } }, o)), refresh: (o) => toolset.refresh(o), run: (o) => turn.run(o),
      turn_get: (o) => turn.get(o), turn_cancel: (o) => turn.cancel("", o),
    };
    for (const [name, method] of Object.entries(methods)) {
      await assert.rejects(method({ timeoutMs: 5 }), fails(Code.DeadlineExceeded), name);
      const abort = new AbortController(), ran = method({ signal: abort.signal });
      setImmediate(() => abort.abort());
      await assert.rejects(ran, fails(Code.Canceled), name);
      await assert.rejects(method({ signal: AbortSignal.abort() }), fails(Code.Canceled), name);
    }
    for await (const _ of client.watch({ selector: { case: "callId", value: "left" } })) break;
    await ended; // the server sees that nobody reads the stream any more
    assert.equal((await client.describe("quick", {}, { timeoutMs: 60 * 24 * 3_600_000 })).tool, "quick");
  });
});

test("toolsets", async () => {
  const requests: ExportToolsRequest[] = [];
  const page = (names: string, revision: string, nextPageToken = "") => ({ tools: JSON.stringify([...names].map((name) => ({ name }))), guidance: names, revision, nextPageToken });
  const answers = [page("a", "1", "p"), page("c", "2"), page("b", "2", "q"), page("c", "2"), { notModified: true, revision: "2" }, page("d", "3")];
  const finished = (data: string) => ({ case: "finished", value: { result: { data } } }) as const;
  await serve({
    async *executeTurn({ cursor }) {
      const frame = (frame: MessageInitShape<typeof FrameSchema>) => create(ExecuteTurnResponseSchema, { frame });
      yield frame({ control: { case: "turnStarted", value: { batchId: "b", calls: [{ callId: "s", tool: "tool_search" }, { callId: "t", tool: "web" }, { callId: "u", tool: "x".repeat(257) }] } } });
      const useless = ["", "null", "5", "[]", "{", '{"tools":null}', '{"tools":[null]}', '{"tools":{"id":"x"}}']; // a hook can change the data
      const events = [...useless, '{"tools":[{"id":"far"},{"id":"away"}]}'].map((data) => ({ callId: "s", event: finished(data) }));
      if (!cursor) yield frame({ cursor: "1", events: [...events, { callId: "t", event: finished('{"tools":[{"id":"forged"}]}') }] });
      yield frame({ control: { case: "turnMessage", value: { part: '{"role":' } } });
      if (!cursor) throw new ConnectError("cut", Code.Unavailable);
      yield frame({ control: { case: "turnMessage", value: { part: '"tool"}', last: true } } });
      yield frame({ control: { case: "turnFinished", value: {} } });
    },
  }, { exportTools: (r) => { requests.push(r); return answers.shift()!; } }, async (client) => {
    const toolset = await client.toolset("openai", { allow: ["x*"], maxTools: 8, query: "colours" });
    assert.deepEqual([toolset.tools, toolset.guidance, toolset.revision], [[{ name: "b" }, { name: "c" }], "b\n\nc", "2"]);
    assert.equal(await toolset.refresh(), false);
    const turn = toolset.turn({}, { turnId: newTurnId(), runId: "r" });
    assert.deepEqual(turn.spec.run?.agent?.tools?.allow, ["x*"]);
    const events: string[] = [];
    assert.deepEqual((await turn.run({ onEvent: (e) => events.push(e.callId) })).messages, [{ role: "tool" }]);
    assert.deepEqual([...new Set(events)], ["s", "t"]);
    assert.equal(await toolset.refresh(), true);
    assert.deepEqual(toolset.tools, [{ name: "d" }]);
    const last = requests.at(-1)!;
    assert.deepEqual([last.include, last.maxTools, last.query, last.ifRevision], [["web", "far", "away"], 8, "colours", "2"]);
    assert.throws(() => toolset.turn({}, {} as any), /turnId is required/);
    await assert.rejects(client.toolset("anthropic", { strict: true }), RangeError);
    await assert.rejects(client.toolset("claude" as Provider), RangeError);
  });
});

test("a search during a refresh", async () => {
  let toolset: Toolset;
  await serve({
    async *executeTurn() {
      const frame = (frame: MessageInitShape<typeof FrameSchema>) => create(ExecuteTurnResponseSchema, { frame });
      yield frame({ control: { case: "turnStarted", value: { calls: [{ callId: "s", tool: "tool_search" }] } } });
      yield frame({ events: [{ callId: "s", event: { case: "finished", value: { result: { data: '{"tools":[{"id":"x"}]}' } } } }] });
      yield frame({ control: { case: "turnFinished", value: {} } });
    },
  }, {
    exportTools: async ({ include, pageToken }) => { // like toold, it refuses a page token with other includes
      const token = include + ".";
      if (pageToken && pageToken !== token) throw refused(Code.InvalidArgument, "FIELDS");
      if (!pageToken && toolset && include.length === 0) await toolset.turn({}, { turnId: newTurnId() }).run();
      return { tools: "[]", revision: token, nextPageToken: pageToken ? "" : token };
    },
  }, async (client) => {
    toolset = await client.toolset("openai", { maxTools: 8 });
    for (const revision of [".", "x."]) {
      await toolset.refresh();
      assert.equal(toolset.revision, revision);
    }
  });
});

test("a refresh has one time limit", async () => {
  let revision = 0;
  await serve({}, { exportTools: () => ({ tools: "[]", nextPageToken: revision ? "p" : "", revision: `${revision++}` }) }, async (client) => {
    const toolset = await client.toolset("openai");
    await assert.rejects(toolset.refresh({ timeoutMs: 200 }), fails(Code.DeadlineExceeded)); // the tools change after every page
  });
});

test("a callback that throws ends the stream", async () => {
  let left = () => {};
  const ended = new Promise<void>((resolve) => { left = resolve; });
  await serve({
    async *executeTurn(_, c) {
      yield { frame: { cursor: "1", events: [{ callId: "a" }] } };
      await new Promise<void>((resolve) => c.signal.addEventListener("abort", () => resolve()));
      left();
    },
  }, { exportTools: () => ({ tools: "[]" }) }, async (client) => {
    const turn = (await client.toolset("openai")).turn({}, { turnId: newTurnId() });
    await assert.rejects(turn.run({ onEvent: () => { throw new RangeError("mine"); } }), RangeError);
    await ended;
  });
});

test("own answers are merged by position", () => {
  const calls = [0, 2].map((index) => create(TurnCallSchema, { index })), own = [1, 3].map((index) => create(NotHandledSchema, { index }));
  const result = (provider: Provider, messages: unknown[], of = calls) => new TurnResult(provider, messages, [], own, false, of);
  assert.deepEqual(result("openai", ["a", "b", "image"]).merge(["x", "y"]), ["a", "x", "b", "y", "image"]);
  assert.deepEqual(result("gemini", [{ role: "user", parts: ["a", "b"] }]).merge(["x", "y"]), [{ role: "user", parts: ["a", "x", "b", "y"] }]);
  assert.deepEqual(result("anthropic", [], []).merge(["x", "y"]), [{ role: "user", content: ["x", "y"] }]);
  assert.throws(() => result("openai", ["a", "b"]).merge(["x"]), RangeError);
  assert.throws(() => result("openai", []).merge(["x", "y"]), /calls are open/);
});

const providers = new URL("../../../../turn/providers/node_modules/", import.meta.url);
test("the AI SDK takes the tools", { skip: !existsSync(providers) && "scripts/providers.sh installs the AI SDK" }, async () => {
  const inputSchema = { type: "object", properties: { name: { type: "string" } } };
  await serve({}, { exportTools: () => ({ tools: JSON.stringify([{ name: "greet", description: "Greets.", inputSchema }]), revision: "1" }) }, async (client) => {
    const { tools } = await client.toolset("ai-sdk");
    for (const [file, specificationVersion] of [["ai/dist/index.js", "v4"], ["ai6/dist/index.mjs", "v3"]] as const) {
      const { generateText } = await import(new URL(file, providers).href);
      let sent: unknown;
      const tokens = { total: 0 };
      const doGenerate = async (o: { tools: unknown }) => {
        sent = o.tools;
        return { content: [{ type: "tool-call", toolCallId: "c1", toolName: "greet", input: '{"name":"Ada"}' }], finishReason: { unified: "tool-calls" }, usage: { inputTokens: tokens, outputTokens: tokens }, warnings: [] };
      };
      const { response } = await generateText({ model: { specificationVersion, provider: "none", modelId: "m", supportedUrls: {}, doGenerate }, prompt: "hi", tools, maxRetries: 0 });
      assert.deepEqual(JSON.parse(JSON.stringify(sent)), [{ type: "function", name: "greet", description: "Greets.", inputSchema }]);
      assert.deepEqual(JSON.parse(JSON.stringify(response.messages)), [{ role: "assistant", content: [{ type: "tool-call", toolCallId: "c1", toolName: "greet", input: { name: "Ada" } }] }]); // the message of a turn
    }
  });
});

const question = (n: number) => ({ callId: `${n}`, suspension: { suspensionId: `${n}` } });
const waits = (n: number) => ({ change: { case: "waiting", value: { call: question(n), rights: { callId: `${n}`, suspensionId: `${n}` } } } }) as const;
const settles = (n: number) => ({ change: { case: "settled", value: { suspensionId: `${n}` } } }) as const;
const begins = { change: { case: "caughtUp", value: {} } } as const;

/** Runs a test with an inbox. Each of the streams of WatchInbox has these changes, and then breaks unless it closes. Each list has one more call. */
async function asking(streams: MessageInitShape<typeof WatchInboxResponseSchema>[][], run: (client: Client, address: string, asked: { lists: number; streams: number }) => Promise<void>) {
  const asked = { lists: 0, streams: 0 };
  await serve({
    async *watchInbox() {
      const changes = streams[asked.streams++] ?? [];
      yield* changes;
      if (changes.at(-1)?.change?.case !== "closing") throw new ConnectError("restarting", Code.Unavailable);
    },
    listCalls: () => ({ calls: Array.from({ length: ++asked.lists }, (_, n) => question(n)) }),
  }, {}, (client, address) => run(client, address, asked));
}

test("an inbox lists what is new", async () => {
  const changes: MessageInitShape<typeof WatchInboxResponseSchema>[][] = [[waits(0), begins, waits(1), waits(0), waits(1), settles(0), waits(2)], [waits(0), { change: { case: "heartbeat", value: {} } }, { change: { case: "closing", value: {} } }], [waits(0), waits(0), begins, waits(4)]];
  await asking(changes, async (client, _, asked) => {
    const ids: string[] = [];
    for await (const { callId } of client.inbox({}, { timeoutMs: 20_000 })) if (ids.push(callId) === 5) break;
    assert.deepEqual(ids, ["0", "1", "2", "3", "4"]); // each question once, also over broken streams
    assert.deepEqual(asked, { lists: 5, streams: 3 }); // a list only for a question that the client does not know
  });
});

test("an inbox with changes keeps its patience", async () => {
  for (const changes of [true, false]) { // a stream with changes has no heartbeats, and each of its changes restarts the patience
    const streams = [0, 1, 2, 3].map((n) => [begins, ...(changes ? [settles(n)] : [])]);
    await asking([...streams, [begins, waits(4)]], async (_, address) => {
      const client = new Client(address, { patience: 250 }), ids: string[] = [];
      const read = async () => { for await (const { callId } of client.inbox({}, { timeoutMs: 20_000 })) if (ids.push(callId) === 5) break; };
      try {
        await (changes ? read() : assert.rejects(read(), fails(Code.Unavailable)));
      } finally {
        client.close();
      }
      assert.equal(ids.length === 5, changes);
    });
  }
});

test("a result in the tool's place", async () => {
  const call = create(CallSchema, { callId: "a", tool: "pay", effectiveArguments: "{}", suspension: { suspensionId: "s-1", expiresAt: { seconds: 1n } } });
  call.suspension!.digest = ofCall(call);
  let decision: Decision | undefined;
  await serve({
    async *resumeTool(request) {
      decision = request.decision;
    },
  }, {}, async (client) => {
    for await (const _ of await client.resume(call, undefined, { resultInstead: { data: { paid: true }, message: "Paid by hand." } }));
  });
  const { data, message, error } = decision!.resultInstead!;
  assert.deepEqual({ data, message, error, result: decision!.result, arguments: decision!.arguments }, { data: '{"paid":true}', message: "Paid by hand.", error: false, result: "", arguments: "" });
  assert.equal(decision!.expectedDigest, call.suspension!.digest);
});

test("a decision leaves no stream open when nobody reads the events", async () => {
  const call = create(CallSchema, { callId: "a", suspension: { suspensionId: "s-1" } });
  let left = () => {};
  const ended = new Promise<void>((resolve) => { left = resolve; });
  await serve({
    async *resumeTool({ cursor }, c) {
      if (cursor === "1") return yield { frame: { cursor: "2", events: [{ sequence: 3n }] } };
      yield { frame: { cursor: "1", events: [{ sequence: 1n }, { sequence: 2n }] } };
      await new Promise<void>((resolve) => c.signal.addEventListener("abort", () => resolve()));
      left();
    },
  }, {}, async (client) => {
    const events = await client.decline(call), sequences: bigint[] = [];
    await ended;
    for await (const e of events) sequences.push(e.sequence);
    assert.deepEqual(sequences, [1n, 2n, 3n]);
  });
});

test("tokens that expire", async () => {
  const used: string[] = [];
  const check = (header: Headers) => {
    used.push(header.get("authorization") ?? "");
    if (used.at(-1) === "Bearer old") throw refused(Code.Unauthenticated, "TOKEN_EXPIRED");
  };
  let asked = 0;
  const next = async () => (++asked < 4 ? "old" : "new\n");
  await serve({
    getCall: (_, context) => { check(context.requestHeader); return ended("a"); },
    async *watchCalls(request, context) {
      if (request.cursor === "") {
        yield { frame: { cursor: "1", control: { case: "caughtUp", value: {} } } };
        throw refused(Code.Unauthenticated, "TOKEN_EXPIRED");
      }
      check(context.requestHeader);
      yield { frame: { cursor: "2", control: { case: "caughtUp", value: {} } } };
    },
  }, {}, async (_, address) => {
    const client = new Client(address, { token: next }), fixed = new Client(address, { token: "old" }), cursors: string[] = [];
    try {
      for await (const frame of client.watch({ selector: { case: "callId", value: "a" } })) cursors.push(frame.cursor);
      assert.deepEqual(cursors, ["1", "2"]);
      assert.equal((await client.get("a")).callId, "a");
      assert.equal(used.at(-1), "Bearer new");
      await assert.rejects(fixed.get("a"), fails(Code.Unauthenticated, "TOKEN_EXPIRED"));
    } finally {
      client.close();
      fixed.close();
    }
  });
});
