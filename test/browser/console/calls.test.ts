/** The list of calls: live updates, filters, a pause, keys, and text of hostile tools. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { Fail, Worker } from "toold";
import { start, tokens, tools } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();

const row = (page: Page, text: string) => page.locator("tbody tr:not(.space)", { hasText: text });
const titles = (page: Page) => page.locator("tbody tr:not(.space) td:nth-child(2) bdi").allTextContents();
const glob = (pattern: string, options: Parameters<typeof daemon.app.call>[2] = {}) => daemon.app.call("glob", { pattern }, options);
/** Searches, and waits until the page shows the list of the new filter. */
async function search(page: Page, words: string) {
  await page.getByRole("textbox", { name: "Search calls" }).fill(words);
  await page.keyboard.press("Enter");
}

test("an empty list teaches, and a call appears in it", async () => {
  const { page, errors } = await signIn(daemon, "person", "/calls");
  await page.getByText("toold call glob").waitFor();
  await accessible(page);
  await glob("first*", { runId: "run-1", labels: { env: "prod" } });
  await row(page, "first*").getByText("Succeeded").waitFor();
  await row(page, "first*").getByRole("link", { name: "run-1" }).waitFor();
  assert.deepEqual(errors, []);
});

test("the filter is in the address", async () => {
  await glob("second*", { runId: "run-2", labels: { env: "test env" } });
  await daemon.app.call("read", { path: "no-such-file" });
  const { page, errors } = await signIn(daemon, "person", "/calls");
  await row(page, "first*").waitFor();
  await search(page, 'label:"env=test env"');
  await row(page, "first*").waitFor({ state: "detached" });
  await row(page, "second*").waitFor();
  assert.equal((await titles(page)).length, 1);
  assert.equal(new URL(page.url()).searchParams.get("label"), "env=test env");
  await page.reload();
  await row(page, "second*").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Search calls" }).inputValue(), 'label:"env=test env"');
  await search(page, "tool:glob FIRST");
  await row(page, "first*").waitFor();
  await row(page, "second*").waitFor({ state: "detached" });
  await search(page, "error:nonsense");
  await page.getByText("error:nonsense is not an error code").waitFor();
  await search(page, "");
  await page.getByRole("button", { name: "Failed" }).click();
  await row(page, "no-such-file").getByText("Failed").waitFor();
  await row(page, "first*").waitFor({ state: "detached" });
  assert.equal(new URL(page.url()).search, "?status=failed");
  await search(page, "nothing-has-this-text");
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await row(page, "first*").waitFor();
  assert.deepEqual(errors, []);
});

test("pause holds the view, and new calls wait", async () => {
  const { page, errors } = await signIn(daemon, "person", "/calls?since=1h");
  await row(page, "second*").waitFor();
  const before = await titles(page);
  await page.keyboard.press("p");
  await glob("while-paused*");
  await page.getByText("1 new while paused").waitFor();
  assert.deepEqual(await titles(page), before);
  await page.keyboard.press(".");
  await row(page, "while-paused*").waitFor();
  await page.keyboard.press("p");
  // No row under the pointer moves.
  await row(page, "while-paused*").hover();
  await glob("under-pointer*");
  await page.getByText("1 new", { exact: false }).waitFor();
  assert.equal((await titles(page)).some((t) => t.includes("under-pointer")), false);
  await page.mouse.move(1, 1);
  await row(page, "under-pointer*").waitFor();
  assert.deepEqual(errors, []);
});

test("keys select and open", async () => {
  const { page, errors } = await signIn(daemon, "person", "/calls");
  await row(page, "under-pointer*").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  assert.equal(await page.locator("tr[aria-selected=true]").count(), 1);
  assert.match((await page.locator("tr[aria-selected=true]").textContent())!, /under-pointer/);
  await glob("not-yet*");
  await page.getByText("1 new", { exact: false }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("x");
  assert.equal(await page.getByRole("textbox", { name: "Search calls" }).inputValue(), "x");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await row(page, "not-yet*").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/calls\/[^/]+$/);
  assert.deepEqual(errors, []);
});

test("T69: text of a hostile tool is text", async () => {
  const hostile = `"><img src=x onerror=alert(1)>\u202egpj.exe\u001b[2J${"x".repeat(40_000)}`;
  const worker = new Worker({ pool: "hostile", address: daemon.tcp, token: tokens.worker });
  worker.tool({ id: "hostile", description: "Throws.", parameters: { type: "object" }, readOnly: true, observe: true }, () => {
    throw new Fail(hostile);
  });
  const ended = worker.run();
  for (const set = await daemon.app.toolset("ai-sdk"); !set.tools.hostile; await set.refresh()) await new Promise((resolve) => setTimeout(resolve, 20));
  await daemon.app.call("hostile", {}, { runId: 'run-<img src=x>"', labels: { "<i>": "a\u2066b" } });
  worker.stop();
  await ended;
  const { page, errors } = await signIn(daemon, "person", "/calls");
  const at = row(page, "onerror");
  await at.waitFor();
  assert.equal(await page.locator("tbody img").count(), 0);
  assert.ok((await at.locator(".cc").allTextContents()).includes("U+202E"));
  assert.ok((await at.textContent())!.length < 2000);
  await narrow(page);
  await search(page, 'label:"<i>=a\u2066b"');
  await page.waitForURL(/label=/);
  await at.waitFor();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr:not(.space)").length === 1);
  assert.deepEqual(errors, []);
});

test("a caller, who may not watch the namespace, sees own calls within seconds", async () => {
  const { page, errors } = await signIn(daemon, "app", "/calls");
  await row(page, "first*").waitFor();
  await page.getByRole("heading", { name: "Calls" }).hover();
  await glob("polled*");
  await row(page, "polled*").waitFor();
  assert.deepEqual(errors, []);
});

test("the list is live again after the daemon was killed", async () => {
  const { next, ready } = await tools(daemon.tcp, daemon.app);
  const { page, errors } = await signIn(daemon, "person", "/calls");
  const waiting = await daemon.app.call("deploy", { target: "prod" }, { runId: "release" });
  await row(page, "deploy").getByText("Waiting").waitFor();
  await daemon.again();
  await ready();
  await page.getByText("Connection lost").waitFor({ state: "detached" });
  const stream = await daemon.person.resume(waiting);
  for await (const _ of stream);
  await row(page, "deploy").getByText("Succeeded").waitFor();
  const running = daemon.app.call("steps", { count: 1 });
  await row(page, "steps").getByText("Running").waitFor();
  await next();
  await running;
  await row(page, "steps").getByText("Succeeded").waitFor();
  await row(page, "deploy").getByText("yes: person").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "calls");
  await page.setViewportSize({ width: 360, height: 740 });
  await picture(page, "calls-narrow");
  assert.deepEqual(errors, []);
});
