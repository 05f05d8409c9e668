/** The page of one call: live updates, a kill of the daemon, a call in doubt, long and hostile text, and the rights of people. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { deflateSync, crc32 } from "node:zlib";
import type { Page } from "playwright-core";
import { Client, Worker } from "toold";
import { ContentType } from "toold/v1/content_pb";
import { start, tokens } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const manifests = mkdtempSync(join(tmpdir(), "toold-browser-tools-"));
after(() => rmSync(manifests, { recursive: true }));
writeFileSync(join(manifests, "charge.yaml"), "id: charge\ndescription: Charges a card.\nparameters: {}\neffects: {tier: OBSERVE}\nrun: {program: /bin/sh, args: [-c, echo charging card 17; exec sleep 300]}\n");
const daemon = await start(`command: {directory: "${manifests}"}`);
const operator = new Client(daemon.tcp, { token: tokens.operator });

/** A tool whose runs do what the test says, step by step. */
type Job = Parameters<Parameters<Worker["tool"]>[1]>[0];
const jobs: Job[] = [];
const ends: ((data: unknown) => void)[] = [];
const worker = new Worker({ pool: "call", address: daemon.tcp, token: tokens.worker });
const parameters = { type: "object", properties: { note: { type: "string" } }, additionalProperties: false };
worker.tool({ id: "build", description: "Runs as the test says.", parameters, idempotent: true, observe: true }, async (call) => {
  jobs.push(call);
  return await new Promise((resolve) => ends.push(resolve));
});
const running = worker.run();
after(async () => {
  worker.stop();
  ends.forEach((end) => end("over"));
  await running;
  operator.close();
});
await known();

/** Waits until the daemon has the tools of the worker. */
async function known() {
  for (const set = await operator.toolset("ai-sdk"); !set.tools.build; await set.refresh()) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Starts a call and returns its id and the job of its first attempt. */
async function begin(args: object = {}, options: object = {}) {
  const callId = crypto.randomUUID(), n = jobs.length;
  void operator.call("build", args, { callId, runId: "run-7", ...options }).catch(() => {}); // a kill of the daemon ends the request, not the call
  return { callId, job: await job(n) };
}

async function job(n: number): Promise<Job> {
  while (jobs.length <= n) await new Promise((resolve) => setTimeout(resolve, 10));
  return jobs[n]!;
}

const lines = (page: Page) => page.getByTestId("output");
const line = (page: Page, text: string) => lines(page).getByText(text, { exact: true });
const rows = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => `row ${from + i}\n`).join("");
/** Returns how many pixels of the output are below the visible part. */
const below = (page: Page) => lines(page).locator("ol").evaluate((o) => o.scrollHeight - o.scrollTop - o.clientHeight);
/** Waits until a part of the output can be seen without scrolling. */
const seen = (page: Page, text: string) => page.waitForFunction((t) => {
  const box = document.querySelector(".outlines")?.getBoundingClientRect();
  return [...document.querySelectorAll(".outlines li:not(.spacer)")].some((li) => {
    const r = li.getBoundingClientRect();
    return li.lastElementChild?.textContent === t && r.top >= box!.top - 1 && r.bottom <= box!.bottom + 1;
  });
}, text);

const content = (artifact: string, type: ContentType, mimeType: string) => ({ $typeName: "toold.v1.Content", type, text: "", mimeType, data: new Uint8Array(), artifact, uri: "", name: "" });
const result = (message: string, data: string, ...content: object[]) => ({ $typeName: "toold.v1.WorkerResult", status: 1, data, message, content, metadata: {}, displayPreference: 0, documents: [] });

/** A 2 by 2 image. */
function png(): Uint8Array {
  const chunk = (type: string, data: Buffer) => {
    const body = Buffer.concat([Buffer.from(type), data]), length = Buffer.alloc(4), sum = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.from([0, 0, 0, 2, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.alloc(14, 120))), chunk("IEND", Buffer.alloc(0))]);
}

test("a call is seen from its start to its end", async () => {
  const { callId, job } = await begin({ note: "hello" });
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  await page.getByRole("heading", { name: "build" }).waitFor();
  job.progress(0.62, "layer 8 of 13: extracting");
  job.output("#9 [build 1/5] COPY go.mod go.sum ./\n\u001b[1;33mwarning:\u001b[0m limits.go:118: result is never used\n");
  job.activity("plan", "list", { steps: ["one"] });
  await page.getByRole("progressbar", { name: "Progress" }).waitFor();
  assert.equal(await page.getByRole("progressbar").getAttribute("aria-valuenow"), "62");
  await lines(page).getByText("limits.go:118").waitFor();
  assert.equal(await lines(page).locator(".a3.ab").textContent(), "warning:");
  await page.getByText("Attempt 1").first().waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "call-running");
  await job.saveArtifact("report.md", Buffer.from("# Title\n<img src=x onerror=alert(1)>\n"), "text/markdown");
  await job.saveArtifact("plot.png", png(), "image/png");
  await job.saveArtifact("fake.png", Buffer.from("<svg onload=alert(1)>"), "image/png");
  ends.at(-1)!(result("Built.", '{"built":9007199254740993}', content("plot.png", ContentType.IMAGE, "image/png"), content("fake.png", ContentType.IMAGE, "image/png"), content("report.md", ContentType.DOCUMENT, "text/markdown")));
  await page.getByText("Succeeded").first().waitFor();
  await page.getByRole("button", { name: "Data", exact: true }).click();
  await page.getByText("9007199254740993").waitFor();
  await page.getByRole("tab", { name: /report.md/ }).click();
  await lines(page).getByText("# Title").waitFor();
  await lines(page).getByText("<img src=x onerror=alert(1)>").waitFor();
  await page.getByRole("tab", { name: /plot.png/ }).click();
  await page.getByRole("button", { name: "Show the image" }).click();
  await page.waitForFunction(() => document.querySelector<HTMLImageElement>("img.outimg")?.naturalWidth === 2);
  assert.match((await page.locator("img.outimg").getAttribute("src"))!, /^blob:/);
  await page.getByRole("tab", { name: /fake.png/ }).click();
  await page.getByRole("button", { name: "Show the image" }).click();
  await page.getByText("are not an image").waitFor();
  // Every event has an address.
  await page.goto(page.url().replace(/\/output.*/, "") + "#1");
  await page.locator("li.at").getByText("Accepted").waitFor();
  await page.getByRole("button", { name: /Every event/ }).click();
  await page.getByRole("list", { name: "Events" }).getByText("finished").waitFor();
  await page.getByRole("button", { name: "JSON" }).click();
  await page.getByText('"callId"').waitFor();
  await accessible(page);
  await picture(page, "call-ended");
  assert.deepEqual(errors, []);
});

test("a kill of the daemon while the call streams", async () => {
  const { callId, job: first } = await begin();
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  for (let i = 1; i <= 3; i++) first.output(`line ${i}\n`);
  await lines(page).getByText("line 3").waitFor();
  await page.getByText("Attempt 1").first().waitFor();
  // The observer sees every change of the page. Nothing that the page shows may disappear, and the page must say for a moment that the connection
  // is lost.
  await page.evaluate(() => {
    const w = window as unknown as { flashes: string[]; lost: boolean };
    w.flashes = [];
    const whole = () => (["line 1", "line 3", "Timeline", "Accepted"].every((x) => document.getElementById("main")?.textContent?.includes(x)) ? "" : document.getElementById("main")?.textContent?.slice(0, 300) ?? "nothing");
    new MutationObserver(() => {
      const lost = whole();
      if (lost) w.flashes.push(lost);
      w.lost ||= document.body.textContent!.includes("Connection lost at");
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await daemon.again();
  await page.waitForFunction(() => (window as unknown as { lost?: boolean }).lost);
  await page.getByText("Connection lost at").waitFor({ state: "detached" });
  // The worker continues the attempt. Each line must appear once and in order.
  first.output("line 4\n");
  await lines(page).getByText("line 4").waitFor();
  assert.deepEqual((await lines(page).locator("li:not(.spacer) span:last-child").allTextContents()).filter((x) => /^line \d$/.test(x)), ["line 1", "line 2", "line 3", "line 4"]);
  assert.deepEqual(await page.evaluate(() => (window as unknown as { flashes: string[] }).flashes), []);
  await accessible(page);
  await picture(page, "call-again");
  assert.deepEqual(errors, []);
});

test("a call in doubt says so, its retry warns, and the new call is cancelled with keys", async () => {
  const callId = crypto.randomUUID();
  void operator.call("charge", {}, { callId }).catch(() => {});
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  await line(page, "charging card 17").waitFor();
  await daemon.again();
  await page.getByText("It is not known whether this ran.").waitFor();
  await page.getByText("end not observed").waitFor();
  await page.getByLabel("Facts").getByText("Processes: all end with the call").waitFor();
  await page.locator("ol.tl").getByText("In doubt").waitFor();
  await line(page, "charging card 17").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "call-doubt");
  const size = page.viewportSize()!;
  await page.setViewportSize({ width: 360, height: 740 });
  await picture(page, "call-narrow");
  await page.setViewportSize(size);
  await page.getByRole("button", { name: "Retry" }).click();
  await page.getByText("may have had effects already").waitFor();
  await page.getByRole("button", { name: "Make the new call" }).click();
  await page.waitForURL((u) => u.pathname.startsWith("/calls/") && !u.pathname.includes(callId));
  await page.getByRole("link", { name: callId }).waitFor();
  await line(page, "charging card 17").waitFor();
  await page.keyboard.press("Shift+C");
  await page.keyboard.type("wrong card");
  await page.keyboard.press("Enter");
  await page.getByText("Cancel requested").waitFor();
  await page.getByText("wrong card").first().waitFor();
  await page.getByText("Cancelled").first().waitFor();
  const { call } = await operator.calls.getCall({ callId: new URL(page.url()).pathname.split("/").at(-1)! });
  assert.deepEqual([call!.retryOf, call!.cancelRequest?.reason], [callId, "wrong card"]);
  assert.deepEqual(errors, []);
});

test("T69: hostile output, results and arguments are text", async () => {
  await known();
  const note = `'; touch /tmp/owned; $(id) \`id\` "\\ \u001b]0;owned\u0007\u202e\u009b31m\nend`;
  const { callId, job } = await begin({ note });
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  job.output("\u001b[31mred\u001b[0m \u001b]0;owned\u0007 \u001b[2J\u001b[1A\u202eevil\u2066 <img src=x onerror=\"window.owned=1\"> <script>window.owned=1</script>\r\n");
  job.output("\u001b[" + "1;".repeat(5000) + "m after\n");
  job.output("x".repeat(100_000) + "\n");
  job.progress(0.1, "<b>bold</b>\u202e");
  job.activity("<i>plan</i>\u202e", "<u>list", { steps: ["<img src=x onerror=\"window.owned=1\">"] });
  const first = lines(page).locator("li[data-index='0']");
  await first.locator(".a1", { hasText: "red" }).waitFor();
  const text = await first.textContent();
  for (const chip of ["U+001B", "U+0007", "U+202E", "U+2066", "<script>window.owned=1</script>"]) assert.ok(text!.includes(chip), `${chip} in ${text}`);
  await lines(page).getByText("96,000 more bytes in this line").waitFor();
  ends.at(-1)!("<b>done</b>\u202e");
  await page.getByText("Succeeded").first().waitFor();
  await page.getByLabel("Result", { exact: true }).getByText("<b>done</b>").first().waitFor();
  assert.equal(await page.evaluate(() => document.querySelectorAll(".term :is(img, script, b), .code b, .tl :is(b b, i i, u), details :is(img, u)").length + ("owned" in window ? 1 : 0)), 0);
  assert.equal(await page.locator("body").evaluate((b) => /[\u001b\u0007\u202e\u2066\u009b]/.test(b.textContent!)), false);
  await narrow(page);
  await accessible(page);
  await picture(page, "call-hostile");

  // The copied command contains the arguments of the call as one argument of a shell.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  for (const [form, flag] of [["toold", "--json"], ["grpcurl", "-d"], ["curl", "--json"]] as const) {
    await page.getByRole("group", { name: "Copy as" }).getByRole("button", { name: form, exact: true }).click();
    await page.getByText(`Copied as ${form}.`).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^[\x20-\x7e]+$/);
    // The programs are functions that print their arguments.
    const words = execFileSync("bash", ["-c", `${form === "toold" ? "" : "toold() { echo token; }; "}${form}() { printf '%s\\0' "$@"; }; ${copied}`], { encoding: "utf8" }).split("\0");
    const json = JSON.parse(words[words.indexOf(flag) + 1]!);
    assert.deepEqual(form === "toold" ? json : JSON.parse(json.spec.arguments), { note });
  }
  assert.deepEqual(errors, []);
});

test("a long output and an artifact are searched, and the search does not leave the page", async () => {
  const { callId, job } = await begin();
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  job.output(rows(1, 100));
  job.output("x".repeat(1 << 20) + "\n"); // larger than one response
  job.output(rows(102, 20_000));
  await seen(page, "row 20000");
  assert.ok((await lines(page).locator("li").count()) < 100);
  await page.keyboard.press("/");
  await page.keyboard.type("ROW 1234");
  await page.getByText("1 of 11").waitFor(); // row 1234, and row 12340 to row 12349
  await seen(page, "row 1234");
  await page.keyboard.press("Enter");
  await page.getByText("2 of 11").waitFor();
  await seen(page, "row 12340");
  await page.keyboard.press("Shift+Enter");
  await seen(page, "row 1234");
  assert.equal(await lines(page).locator("mark").first().textContent(), "row 1234");
  // A line after one that fills a response.
  await page.getByRole("textbox", { name: "Search the output" }).fill("row 103");
  await page.getByText("1 of 11").waitFor();
  await seen(page, "row 103");
  await page.getByRole("textbox", { name: "Search the output" }).fill("no such row");
  await page.getByText("no match").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await page.getByRole("textbox", { name: "Search the output" }).inputValue(), "");
  await page.keyboard.press("f");
  await seen(page, "row 20000");
  await job.saveArtifact("all.log", Buffer.from(rows(1, 9000)), "text/plain");
  ends.at(-1)!(result("Done.", "", content("all.log", ContentType.DOCUMENT, "text/plain")));
  await page.getByRole("tab", { name: /all.log/ }).click();
  await seen(page, "row 9000");
  await page.keyboard.press("/");
  await page.keyboard.type("row 4321");
  await seen(page, "row 4321");
  await page.getByText("1 of 1", { exact: true }).waitFor();
  // A link to a line, and a link to a line after the end.
  await page.goto(`${page.url()}?line=77`);
  await seen(page, "row 77");
  assert.equal(await lines(page).locator("li.at").count(), 1);
  await page.goto(`${page.url().replace("line=77", "line=999999")}`);
  await line(page, "row 9000").waitFor();
  assert.deepEqual(errors, []);
});

test("the end is followed until somebody scrolls up", async () => {
  const { callId, job } = await begin();
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  const follow = page.getByRole("button", { name: "Follow" });
  job.output(rows(1, 300));
  await seen(page, "row 300");
  // Some lines are higher than others, and the pointer does not move.
  await lines(page).locator("ol").hover();
  for (let i = 1; i <= 5; i++) {
    job.output("wide ".repeat(400) + "\n" + rows(300 + i, 300 + i));
    await seen(page, `row ${300 + i}`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  await page.waitForFunction(() => document.querySelector<HTMLElement>(".outlines li:not(.spacer)")!.offsetWidth < 360);
  await seen(page, "row 305");
  await page.setViewportSize({ width: 1280, height: 720 });
  assert.equal(await follow.getAttribute("aria-pressed"), "true");
  assert.ok((await below(page)) < 2);
  await page.mouse.wheel(0, -600);
  await page.waitForFunction(() => document.querySelector(".outbar [aria-pressed]")?.getAttribute("aria-pressed") === "false");
  const top = await lines(page).locator("ol").evaluate((o) => o.scrollTop);
  job.output(rows(306, 400));
  await page.waitForFunction(() => document.querySelector<HTMLElement>(".outlines .spacer")!.offsetHeight > 400 * 19);
  assert.equal(await lines(page).locator("ol").evaluate((o) => o.scrollTop), top);
  await page.keyboard.press("f");
  await seen(page, "row 400");
  ends.at(-1)!("done");
  assert.deepEqual(errors, []);
});

test("output that comes while the page reads is shown", async () => {
  const { callId, job } = await begin();
  const { page, errors } = await signIn(daemon, "operator");
  // The test holds each answer of the daemon, and passes it to the page later.
  type Held = { held: (() => void)[] };
  await page.addInitScript(() => {
    const real = window.fetch, held: (() => void)[] = [];
    Object.assign(window, { held });
    window.fetch = async (...request) => {
      const response = await real(...request);
      if (response.url.endsWith("/ReadArtifact")) await new Promise<void>((resolve) => held.push(resolve));
      return response;
    };
  });
  const read = (n: number) => page.waitForFunction((n) => (window as unknown as Held).held.length >= n, n);
  const answer = (n: number) => page.evaluate((n) => (window as unknown as Held).held[n - 1]!(), n);
  const size = (text: string) => page.getByRole("tab", { name: "stdout" }).getByText(text).waitFor();
  job.output("one\n");
  await page.goto(new URL(`/calls/${callId}/output/stdout`, page.url()).href);
  await size("4 B");
  await read(1);
  job.output("two\n");
  await size("8 B");
  await answer(1);
  await read(2);
  job.output("three\n");
  await size("14 B");
  await answer(2);
  await read(3);
  await answer(3);
  await line(page, "three").waitFor();
  assert.deepEqual(await lines(page).locator("li:not(.spacer) > span:last-child").allTextContents(), ["one", "two", "three"]);
  ends.at(-1)!("done");
  assert.deepEqual(errors, []);
});

test("activities are shown with their changes", async () => {
  const { callId, job } = await begin();
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  const plan = page.locator("details", { hasText: "Activity plan" }), text = plan.locator("pre");
  job.activityDelta("plan", [{ op: "add", path: "/early", value: true }]);
  await plan.getByText("changed once").click();
  assert.equal(await text.textContent(), '{\n  "early": true\n}');
  job.activity("plan", "list", { steps: ["one", { "a/b": 1.5 }], ["__proto__"]: 1 });
  job.activityDelta("plan", [{ op: "add", path: "/steps/-", value: "<b>two</b>\u202e" }, { op: "test", path: "/steps/1/a~1b", value: 1.5 }, { op: "move", from: "/steps/1/a~1b", path: "/steps/0" }]);
  job.activityDelta("plan", [{ op: "remove", path: "/steps/2" }, { op: "replace", path: "/steps/1", value: "done" }, { op: "copy", from: "/steps/2", path: "/last" }]);
  await plan.getByText("changed 2 times").waitFor();
  const after = '{\n  "steps": [\n    1.5,\n    "done",\n    "<b>two</b>U+202E"\n  ],\n  "__proto__": 1,\n  "last": "<b>two</b>U+202E"\n}';
  assert.equal(await text.textContent(), after);
  job.activityDelta("plan", [{ op: "remove", path: "/steps/0" }, { op: "remove", path: "/steps/9" }]);
  await plan.getByText('Changes are missing here: there is nothing at "9".').waitFor();
  job.activityDelta("plan", [{ op: "remove", path: "/steps" }]); // this change may need the change that failed
  await plan.getByText("changed 4 times").waitFor();
  assert.equal(await text.textContent(), after);
  // Each operation doubles the content.
  job.activity("plan", "list", { a: "x".repeat(100) });
  job.activityDelta("plan", Array.from({ length: 64 }, (_, i) => ({ op: "copy", from: "", path: `/a${i}` })));
  await plan.getByText("Changes are missing here: the content would be too large for this page.").waitFor();
  assert.equal(await plan.locator("b").count(), 0);
  // Each operation copies all members.
  job.activity("plan", "list", Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`m${i}`, i])));
  job.activityDelta("plan", Array.from({ length: 1000 }, (_, i) => ({ op: "replace", path: `/m${i}`, value: 0 })));
  await plan.getByText("Changes are missing here: the change is too much work for this page.").waitFor();
  // Indentation would turn 20 kB into 1.2 MB.
  let nested: unknown = Array.from({ length: 10_000 }, () => 1);
  for (let i = 0; i < 60; i++) nested = [nested];
  job.activity("plan", "deep", nested);
  await plan.getByText("deep").waitFor();
  assert.match((await text.textContent())!, /… 18,121 more characters/);
  ends.at(-1)!("done");
  assert.deepEqual(errors, []);
});

test("a call that is queued says for what", async () => {
  const thread = { threadId: "queue" };
  await begin({}, thread);
  const first = ends.length, callId = crypto.randomUUID();
  void operator.call("build", {}, { callId, ...thread }).catch(() => {});
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  await page.getByText(/Queued for .* behind earlier calls of its thread, 1 ahead when it was queued/).waitFor();
  await accessible(page);
  ends[first - 1]!("done");
  await page.getByText("Attempt 1").first().waitFor();
  await page.getByText("Queued for").waitFor({ state: "detached" });
  await job(jobs.length - 1);
  ends.at(-1)!("done");
  await page.getByText("Succeeded").first().waitFor();
  assert.deepEqual(errors, []);
});

test("a viewer may neither cancel nor retry, and an unknown call is explained", async () => {
  const { callId } = await begin();
  const { page, origin } = await signIn(daemon, "person", `/calls/${callId}`);
  await page.getByText("Running").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel" }).getAttribute("aria-disabled"), "true");
  await page.keyboard.press("Shift+C");
  await page.keyboard.press("r");
  await page.waitForURL(/\/runs\/run-7/);
  ends.at(-1)!("over");
  await page.goto(`${origin}/calls/no-such-call-0001`);
  await page.getByText("There is no such call").waitFor();
  await accessible(page);
});
