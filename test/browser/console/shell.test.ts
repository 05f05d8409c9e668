/** The frame of the console: signing in and out, keys. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { open } from "../browser.ts";
import { start } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();

test("a person who is not signed in is told how", async () => {
  const { page } = await open();
  await page.goto(`${daemon.http.replace("127.0.0.1", "localhost")}/inbox`);
  await page.getByText("toold login").waitFor();
  await accessible(page);
});

test("keys and the frame", async () => {
  const { page, errors } = await signIn(daemon, "person");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await page.evaluate(() => dispatchEvent(new KeyboardEvent("keydown", { key: "G" }))); // caps lock is on
  await page.evaluate(() => dispatchEvent(new KeyboardEvent("keydown", { key: "C" })));
  await page.getByRole("heading", { name: "Calls", level: 1 }).waitFor();
  await narrow(page);
  await picture(page, "shell");
  assert.deepEqual(errors, []);
});

test("who signs out is signed out in every tab", async () => {
  const { page, origin } = await signIn(daemon, "person");
  const second = await page.context().newPage();
  await second.goto(origin);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("toold login").waitFor();
  await second.reload();
  await second.getByText("toold login").waitFor();
});

test("the first page is small", async (t) => {
  const { page, origin } = await signIn(daemon, "person");
  const cold = await page.context().browser()!.newContext({ storageState: await page.context().storageState() });
  const first = await cold.newPage();
  await first.goto(`${origin}/inbox`);
  await first.getByRole("navigation", { name: "Console" }).waitFor();
  const { script, paint } = await first.evaluate(() => ({
    script: performance.getEntriesByType("resource").filter((r) => r.name.endsWith(".js")).reduce((sum, r) => sum + (r as PerformanceResourceTiming).encodedBodySize, 0),
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
  }));
  t.diagnostic(`${script} bytes of compressed script, first paint after ${Math.round(paint)} ms`);
  assert.ok(script > 100_000 && script <= 400_000, `${script} bytes of compressed script`);
  await cold.close();
});
