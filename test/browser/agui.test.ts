/** AG-UI's own client in Chromium: progress, an approval, and the result. The page is loaded again in between. AG-UI's schemas accept the golden events. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { EventSchemas } from "@ag-ui/core/schemas";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { open } from "./browser.ts";
import { start, tokens, tools } from "./daemon.ts";

const app = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<p>app</p>")).listen(0, "127.0.0.1");
await once(app, "listening");
after(() => app.close());
const origin = `http://127.0.0.1:${(app.address() as AddressInfo).port}`, daemon = await start(`http: {origins: ["${origin}"]}`), { next, deployed } = await tools(daemon.tcp, daemon.app);
const bundle = await build({ entryPoints: [new URL("agui-page.ts", import.meta.url).pathname], bundle: true, write: false, format: "iife", logLevel: "error" });

test("the golden events are events of AG-UI", () => {
  const folder = new URL("../../server/http/agui/testdata/", import.meta.url);
  const files = readdirSync(folder);
  assert.ok(files.length >= 7);
  for (const file of files)
    for (const line of readFileSync(new URL(file, folder), "utf8").trimEnd().split("\n")) EventSchemas.parse(JSON.parse(line));
});

/** Opens or loads the page of the app, which has another origin than toold. */
async function load(page: Page, run: string) {
  await page.goto(`${origin}/`);
  await page.addScriptTag({ content: bundle.outputFiles[0].text });
  await page.evaluate(([toold, token, run]) => (window as any).begin(toold, token, "thread", run), [daemon.http, tokens.person, run]);
}

const follow = (page: Page, resume?: unknown) => page.evaluate((r) => (window as any).follow(r), resume) as Promise<{ messages: any[]; interrupts: any[] }>;
const seen = (page: Page, type: string) => page.waitForFunction((t) => (window as any).seen.some((e: any) => e.activityType === t), type);

test("progress, an approval and the result, over a reload", async () => {
  const { page, errors } = await open();
  const call = (tool: string, args: object) => daemon.app.calls.callTool({ spec: { tool, callId: `agui-${tool}-000000000`, arguments: JSON.stringify(args), run: { runId: "agui", threadId: "thread" } }, wait: { seconds: 0n, nanos: 0 } });
  await call("steps", { count: 2 });
  await load(page, "agui");
  const first = follow(page);
  await next();
  await seen(page, "toold-progress");
  await seen(page, "toold-output");
  await next();
  await first;
  await call("deploy", { target: "prod" });
  await load(page, "agui"); // the page is loaded again: the run is replayed
  let { messages, interrupts } = await follow(page);
  assert.equal(interrupts.length, 1);
  assert.match(interrupts[0].message, /deploy/);
  assert.deepEqual(messages.filter((m) => m.role === "tool").map((m) => m.content), ['{"steps":2}']);
  assert.deepEqual(deployed, []);
  ({ messages, interrupts } = await follow(page, [{ interruptId: interrupts[0].id, status: "resolved", payload: { approved: true } }]));
  assert.equal((await page.evaluate(() => (window as any).decisions)).decisions[0].error, undefined);
  assert.deepEqual(interrupts, []);
  assert.deepEqual(messages.filter((m) => m.role === "tool").map((m) => m.content).sort(), ["Deployed to prod.", '{"steps":2}']);
  assert.deepEqual(deployed, ["prod"]);
  assert.deepEqual(errors, []);
});
