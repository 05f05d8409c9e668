/** The page of one call: live, over a kill of the daemon, and what a viewer may do. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { deflateSync, crc32 } from "node:zlib";
import type { Page } from "playwright-core";
import { Client, Worker } from "toold";
import { start, tokens } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();
const operator = new Client(daemon.tcp, { token: tokens.operator });

/** A tool whose runs do what the test says, step by step. */
type Job = Parameters<Parameters<Worker["tool"]>[1]>[0];
const jobs: Job[] = [];
const ends: ((data: unknown) => void)[] = [];
const worker = new Worker({ pool: "call", address: daemon.tcp, token: tokens.worker });
const parameters = { type: "object", properties: { note: { type: "string" } }, additionalProperties: false };
for (const [id, idempotent] of [["build", true], ["pay", false]] as const) {
  worker.tool({ id, description: "Runs as the test says.", parameters, idempotent, observe: true }, async (call) => {
    jobs.push(call);
    return await new Promise((resolve) => ends.push(resolve));
  });
}
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
  for (const set = await operator.toolset("ai-sdk"); !set.tools.pay; await set.refresh()) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** Starts a call and returns its id and the job of its first attempt. */
async function begin(tool: "build" | "pay", args: object = {}, client = operator) {
  const callId = crypto.randomUUID(), n = jobs.length;
  void client.call(tool, args, { callId, runId: "run-7" }).catch(() => {}); // a kill of the daemon ends the request, not the call
  return { callId, job: await job(n) };
}

async function job(n: number): Promise<Job> {
  while (jobs.length <= n) await new Promise((resolve) => setTimeout(resolve, 10));
  return jobs[n]!;
}

const lines = (page: Page) => page.getByTestId("output");

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
  const { callId, job } = await begin("build", { note: "hello" });
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
  const image = (artifact: string) => ({ $typeName: "toold.v1.Content", type: 2, text: "", mimeType: "image/png", data: new Uint8Array(), artifact, uri: "", name: "" });
  const content = [image("plot.png"), image("fake.png"), { ...image("report.md"), type: 4, mimeType: "text/markdown" }];
  ends.at(-1)!({ $typeName: "toold.v1.WorkerResult", status: 1, data: '{"built":9007199254740993}', message: "Built.", content, metadata: {}, displayPreference: 0, documents: [] });
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
  const { callId, job: first } = await begin("build");
  const { page, errors } = await signIn(daemon, "operator", `/calls/${callId}`);
  for (let i = 1; i <= 3; i++) first.output(`line ${i}\n`);
  await lines(page).getByText("line 3").waitFor();
  await page.getByText("Attempt 1").first().waitFor();
  // Whatever the page shows stays there, and it says for a moment that the connection is lost: the observer sees every change of the page.
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
  // The worker goes on with the attempt. Each line is there once, in order.
  first.output("line 4\n");
  await lines(page).getByText("line 4").waitFor();
  assert.deepEqual((await lines(page).locator("li:not(.spacer) span:last-child").allTextContents()).filter((x) => /^line \d$/.test(x)), ["line 1", "line 2", "line 3", "line 4"]);
  assert.deepEqual(await page.evaluate(() => (window as unknown as { flashes: string[] }).flashes), []);
  await accessible(page);
  await picture(page, "call-again");
  assert.deepEqual(errors, []);
});

test("a viewer may neither cancel nor retry, and an unknown call is explained", async () => {
  const { callId } = await begin("build");
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
