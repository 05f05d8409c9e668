/** A person signs in to a daemon with Chromium, and follows a run with an EventSource while the daemon is killed and started again. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { open } from "./browser.ts";
import { start, tokens } from "./daemon.ts";

const daemon = await start();
const login = () => execFileSync(process.env.TOOLD!, ["login", "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens.person }, encoding: "utf8" }).trim();

/** Signs in with a new page. */
async function signedIn() {
  const { page, errors } = await open();
  await page.goto(login());
  await page.getByText("Sign in", { exact: true }).click();
  await page.getByRole("navigation", { name: "Console" }).waitFor();
  assert.equal(new URL(page.url()).hash, "");
  return { page, errors };
}

test("a login link works once, by its button", async () => {
  const link = login(), { page } = await open();
  await page.goto(link);
  await page.reload(); // the address no longer has the secret
  await page.getByText("Run “toold login”").waitFor();
  await page.goto("about:blank");
  await page.goto(link);
  await page.getByText("Sign in", { exact: true }).click();
  await page.getByRole("navigation", { name: "Console" }).waitFor();
  const second = await open();
  await second.page.goto(link);
  await second.page.getByText("Sign in", { exact: true }).click();
  await second.page.getByText("unknown, expired or used").waitFor();
});

test("no other local server gets the cookie or uses it", async () => {
  const seen: (string | undefined)[] = [];
  const other = createServer((request, response) => {
    seen.push(request.headers.cookie);
    response.setHeader("Content-Type", "text/html").end("<p>other</p>");
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  after(() => other.close());
  const port = (other.address() as AddressInfo).port, { page } = await signedIn(), own = new URL(page.url()).origin;
  for (const host of ["localhost", "127.0.0.1", "other.localhost"]) {
    await page.goto(`http://${host}:${port}/`);
    const status = await page.evaluate((url) => fetch(url, { credentials: "include" }).then((r) => r.status, () => "refused"), `${own}/toold.v1.AdminService/GetInfo`);
    assert.equal(status, "refused");
  }
  assert.ok(seen.length >= 3);
  assert.deepEqual(seen.filter((cookie) => cookie !== undefined), []);
});

test("an EventSource misses nothing and gets nothing twice over a kill", async () => {
  const write = (n: number) => daemon.app.calls.callTool({ spec: { tool: "write", callId: `event-source-00000${n}`, arguments: JSON.stringify({ path: `note${n}`, content: "x" }), run: { runId: "notes", threadId: "notes" } } });
  for (let n = 0; n < 3; n++) await write(n);
  const { page, errors } = await signedIn();
  await page.evaluate(() => {
    const seen: string[] = ((window as any).seen = []), watch = new EventSource("/v1/watch?run=notes");
    watch.addEventListener("events", (m) => JSON.parse(m.data).events.forEach((e: any) => seen.push(`${e.callId} ${e.sequence}`)));
    watch.addEventListener("gap", () => seen.push("gap"));
  });
  const seen = (count: number) => page.waitForFunction((n) => (window as any).seen.length >= n, count).then(() => page.evaluate(() => (window as any).seen as string[]));
  await seen(12);
  for (let n = 3; n < 9; n += 3) {
    await daemon.again();
    for (let i = 0; i < 3; i++) await write(n + i);
  }
  const got = await seen(36), want = Array.from({ length: 9 }, (_, n) => [1, 2, 3, 4].map((s) => `event-source-00000${n} ${s}`)).flat();
  assert.deepEqual([...got].sort(), want);
  assert.deepEqual(errors, []);
});
