/** Ten thousand calls: how many rows the page has, and how long its main thread is busy while a person scrolls. The variable CALLS sets another number of calls. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { start } from "../daemon.ts";
import { signIn } from "./console.ts";

/** Traces the tasks of a page's main thread. The returned function stops the trace and returns the processor time of each task in ms, the longest first. */
async function traceTasks(page: Page) {
  const cdp = await page.context().newCDPSession(page), events: { ph: string; name: string; pid: number; tid: number; tdur?: number; args: { name?: string } }[] = [];
  cdp.on("Tracing.dataCollected", (e) => void events.push(...(e.value as unknown as typeof events)));
  await cdp.send("Tracing.start", { traceConfig: { includedCategories: ["toplevel", "__metadata"] } });
  return async () => {
    const done = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
    await cdp.send("Tracing.end");
    await done;
    const main = new Set(events.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid}:${e.tid}`));
    return events.filter((e) => e.name.endsWith("RunTask") && main.has(`${e.pid}:${e.tid}`)).map((e) => Math.round((e.tdur ?? 0) / 100) / 10).sort((a, b) => b - a);
  };
}

const count = Number(process.env.CALLS ?? 10_000);
const daemon = await start();

test(`${count} calls are scrolled`, async () => {
  const kinds = [
    (i: number) => daemon.app.call("glob", { pattern: `pattern-${i}*` }, { runId: `run-${i % 40}`, labels: { env: i % 3 ? "prod" : "test" } }),
    (i: number) => daemon.app.call("read", { path: `no-such-file-${i}` }, { runId: `run-${i % 40}` }),
    (i: number) => daemon.app.call("write", { path: `file-${i % 50}`, content: `${i}` }, { runId: `run-${i % 40}` }),
  ];
  let at = 0;
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (at < count) {
        const i = at++;
        await kinds[i % kinds.length]!(i);
      }
    }),
  );
  const { page, errors } = await signIn(daemon, "person", "/calls");
  await page.locator("tbody tr:not(.space)").first().waitFor();
  await page.waitForTimeout(2000);
  await page.evaluate(() => {
    const seen = { tasks: [] as number[], rows: 0, frames: 0 };
    Object.assign(window, { seen });
    new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: "longtask" });
    const frame = () => {
      seen.frames++;
      seen.rows = Math.max(seen.rows, document.querySelectorAll("tbody tr").length);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const trace = await traceTasks(page);
  const size = page.viewportSize()!;
  await page.mouse.move(size.width / 2, size.height / 2);
  const end = page.getByText("These are all", { exact: false });
  const began = Date.now();
  while (!(await end.isVisible())) {
    await page.mouse.wheel(0, 3000);
    await page.waitForTimeout(16);
  }
  const down = Date.now() - began;
  for (let y = 0; y < 120; y++) await page.mouse.wheel(0, -3000);
  await page.keyboard.press("j");
  for (let i = 0; i < 60; i++) await page.keyboard.press("j");
  const { seen, all } = await page.evaluate(() => ({ seen: (window as unknown as { seen: { tasks: number[]; rows: number; frames: number } }).seen, all: document.querySelector("table")!.getAttribute("aria-rowcount") }));
  const busiest = await trace();
  console.log(`the longest tasks of the main thread, in ms of its processor time: ${busiest.slice(0, 10).join(", ")}`);
  console.log(`${all} rows, at most ${seen.rows} in the page; tasks above 50 ms of the clock: ${JSON.stringify(seen.tasks)}; ${down} ms to the end, ${seen.frames} frames`);
  assert.equal(Number(all), count + 1);
  assert.ok(seen.rows <= 100, `${seen.rows} rows in the page`);
  // On a busy machine a task may wait for the processor. So the test limits processor time, not time on the clock.
  assert.ok(busiest.length > 100 && busiest[0]! <= 50, `a task of ${busiest[0]} ms`);
  assert.deepEqual(errors, []);
});
