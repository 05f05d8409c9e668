/** Runs and threads: the lists, the conversation beside the waterfall, open questions, modes, and the end of a run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { start, tools } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();
const { next } = await tools(daemon.tcp, daemon.app);
const app = daemon.app;

const agent = { agentId: "deployer" };
const thread = "gateway-4.18";
/** Starts a call in a run and returns it when it has ended or waits, or at once with `wait` 0. */
async function call(tool: string, args: object, run: object, wait = 30) {
  const { call } = await app.calls.callTool({ spec: { tool, arguments: JSON.stringify(args), run, lingerNever: true, callId: crypto.randomUUID() }, wait: { seconds: BigInt(wait) } });
  return call!;
}
/** Sends a response of a model with these calls and texts, and waits until its calls wait or have ended. */
async function turn(run: object, ...content: object[]) {
  const message = JSON.stringify({ role: "assistant", content });
  for await (const _ of app.calls.executeTurn({ spec: { provider: 3, message, turnId: crypto.randomUUID(), run } })) void _;
}
const use = (name: string, input: object) => ({ type: "tool_use", id: crypto.randomUUID(), name, input });
const say = (text: string) => ({ type: "text", text });

/** A run with two turns: one that has ended, and one that waits for a person while a subagent runs. */
async function release(runId: string) {
  const run = { runId, threadId: thread, agent, onBehalfOf: "", labels: { env: "prod" } };
  await turn(run, say("I look at the limits and at how the last rollouts went, then change the rollout in small steps."), use("glob", { pattern: "config/*" }), use("todo_write", { todos: [{ content: "Raise the limits", status: "in_progress" }] }));
  const parent = await call("steps", { count: 1 }, run, 0);
  await turn({ runId: `${runId}-a`, threadId: thread + "-a", agent: { agentId: "rollout-reader" }, parentRunId: runId, parentThreadId: thread, parentCallId: parent.callId }, say("I read the notes."), use("glob", { pattern: "docs/*" }), use("glob", { pattern: "*.md" }));
  await turn(run, say("Now the deployment."), use("deploy", { target: "gateway" }));
  return parent;
}

async function enter(who: Parameters<typeof signIn>[1], path: string) {
  const session = await signIn(daemon, who, path);
  session.page.setDefaultTimeout(Number(process.env.PATIENCE ?? 60000));
  return session;
}

const card = (page: Page, text: string) => page.locator(".ccard", { hasText: text });

test("a run is a conversation beside its waterfall, and continues by itself", async () => {
  await release("rel-2214");
  const { page, errors } = await enter("person", "/runs");
  const row = page.getByRole("row", { name: /rel-2214 / });
  await row.getByText("Waiting for 1").waitFor();
  await page.keyboard.press("j"); // the newest call is that of rel-2214
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/runs\/rel-2214$/);
  await page.getByRole("heading", { name: "Run rel-2214" }).waitFor();
  await page.getByText("I look at the limits and at how the last rollouts went").waitFor();
  await page.getByText("I read the notes.").waitFor(); // of the subagent, below its call
  assert.deepEqual(await page.locator(".conv .ccard code").allTextContents(), ["glob", "todo_write", "steps", "glob", "glob", "deploy"]);
  assert.equal(await page.locator(".wf .wr").count(), 7); // six calls, and the line of the run below
  await card(page, "deploy").getByText("waits for an approver").waitFor();
  await page.getByRole("region", { name: "Where it waits" }).getByText("It waits for one answer. One call still runs.").waitFor();
  await page.getByText("6 calls, 2 runs").waitFor();
  await page.getByRole("listitem").filter({ hasText: "started run rel-2214-a" }).waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "run");
  await next(); // the worker ends its call
  await page.locator(".conv .ccard", { hasText: "steps" }).getByRole("img", { name: "Succeeded" }).waitFor();
  await page.getByRole("region", { name: "Where it waits" }).getByRole("link").click();
  await page.waitForURL(/\/inbox\/s-/);
  assert.deepEqual(errors, []);
});

test("the waterfall can be paused, and folds waits", async () => {
  const { page, errors } = await enter("person", "/runs/rel-2214");
  await card(page, "deploy").waitFor();
  await page.keyboard.press("p");
  await page.getByRole("button", { name: /^Paused/ }).waitFor();
  await call("glob", { pattern: "late" }, { runId: "rel-2214", threadId: thread, agent });
  await page.getByRole("button", { name: "True scale" }).click();
  assert.equal(await page.locator(".wf .fold").count(), 0);
  assert.equal(await page.locator(".wf .wr").count(), 7);
  await page.keyboard.press("p");
  await page.locator(".wf .wr").nth(7).waitFor(); // the row that arrived while the page was paused
  assert.deepEqual(errors, []);
});

test("the keyboard walks through the calls", async () => {
  const { page } = await enter("person", "/runs/rel-2214");
  await card(page, "todo_write").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.locator(".wf .wr[aria-current=true]", { hasText: "todo_write" }).waitFor(); // the same call in the waterfall
  assert.equal(await page.evaluate(() => document.activeElement?.className), "ccard");
});

test("modes: a person chooses those that it may, and a viewer's page says which is in force", async () => {
  const { page, errors } = await enter("operator", "/runs/rel-2214");
  const mode = page.getByLabel("Mode");
  await mode.waitFor();
  assert.deepEqual(await mode.locator("option").allTextContents(), ["default", "plan: read only", "accept edits", "bypass"]);
  await mode.selectOption("bypass");
  await page.getByText("The mode is bypass. It was default.").waitFor();
  const other = await enter("person", "/runs/rel-2214");
  await other.page.getByTitle("You may not change it").getByText("bypass").waitFor();
  await mode.selectOption("default");
  await page.getByText("The mode is default. It was bypass.").waitFor();
  await other.page.reload(); // needed because a change of the mode is not an event of a call
  await other.page.getByLabel("Mode").waitFor(); // an approver may choose a mode, unless the run has a mode that the approver may not end
  assert.deepEqual(errors, []);
});

test("a thread has its runs, and where they wait", async () => {
  const { page, errors } = await enter("person", "/runs?by=threads");
  await page.getByRole("link", { name: thread, exact: true }).click();
  await page.waitForURL(/\/threads\/gateway-4\.18$/);
  await page.getByRole("row", { name: /rel-2214/ }).getByText("Waiting for 1").waitFor();
  await page.getByText("It waits for one answer.").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "thread");
  assert.deepEqual(errors, []);
});

test("the lists: filters in the address, live, nothing moves under the pointer", async () => {
  const { page, errors } = await enter("person", "/runs");
  await page.getByRole("row", { name: /rel-2214 / }).waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "runs");
  await page.mouse.move(600, 30); // over the bar, not the list
  await call("glob", { pattern: "x" }, { runId: "new-one" });
  await page.getByRole("row", { name: /new-one/ }).waitFor();
  await page.getByRole("row", { name: /new-one/ }).hover();
  await call("glob", { pattern: "x" }, { runId: "newer" });
  await call("glob", { pattern: "x" }, { runId: "newest" });
  await page.evaluate(() => new Promise((r) => setTimeout(r, 1500))); // longer than a list waits before it reads again
  assert.equal(await page.getByRole("row", { name: /newest/ }).count(), 0);
  await page.mouse.move(600, 30);
  await page.getByRole("row", { name: /newest/ }).waitFor();
  await page.getByRole("button", { name: "Waiting", exact: true }).click();
  await page.waitForURL(/\/runs\?state=waiting$/);
  await page.getByRole("row", { name: /newest/ }).waitFor({ state: "detached" });
  await page.getByRole("row", { name: /rel-2214 / }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("agent:nobody");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No run matches" }).waitFor();
  await page.goto(page.url().replace("nobody", "deployer"));
  await page.getByRole("row", { name: /rel-2214 / }).waitFor();
  assert.deepEqual(errors, []);
});

test("hostile ids and texts are text", async () => {
  const id = "gnp.exe <img src=x onerror=alert(1)>/../?#%2f"; // an id has no invisible characters
  const run = { runId: id, threadId: id, agent: { agentId: id }, labels: { [id]: id } };
  const hostile = `\u001b[31mred\u202e${id} `;
  await turn(run, say(hostile.repeat(40)), use("glob", { pattern: hostile }));
  const { page, errors } = await enter("person", "/runs");
  await page.getByRole("row", { name: /gnp\.exe/ }).locator("a.row").click();
  await page.getByRole("heading", { name: /gnp\.exe/ }).waitFor();
  await page.locator(".said .cc", { hasText: "U+202E" }).first().waitFor();
  assert.equal(await page.locator("main img").count(), 0, "text became markup");
  await narrow(page);
  await page.reload();
  await page.getByRole("heading", { name: /gnp\.exe/ }).waitFor();
  await page.locator(".bar").getByRole("link", { name: /gnp\.exe/ }).click();
  await page.getByRole("heading", { name: /^Thread/ }).waitFor();
  await page.getByRole("row", { name: /gnp\.exe/ }).first().waitFor();
  await narrow(page);
  assert.deepEqual(errors, []);
});

test("a run is ended after a confirmation", async () => {
  await release("to-end");
  const other = await enter("person", "/runs/to-end");
  await other.page.getByText("Waiting for 1").first().waitFor();
  assert.equal(await other.page.getByRole("button", { name: "End run" }).count(), 0); // the person is neither the caller nor an operator
  const { page, errors } = await enter("operator", "/runs/to-end");
  const button = page.getByRole("button", { name: "End run" }).first();
  await button.click();
  const dialog = page.getByRole("dialog", { name: "End this run?" });
  await dialog.getByText("2 open calls are cancelled").waitFor();
  await accessible(page);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("Waiting for 1").first().waitFor(); // nothing was sent
  await button.click();
  await dialog.getByLabel("Reason").fill("no longer needed");
  await dialog.getByRole("button", { name: "End run" }).click();
  await page.getByText("The run has ended. 2 calls were cancelled.").waitFor();
  await page.locator(".bar .st", { hasText: "Ended" }).waitFor();
  await other.page.locator(".bar .st", { hasText: "Ended" }).waitFor();
  assert.deepEqual(errors, []);
});

test("a run that is not there, and the page after kill -9", async () => {
  const { page } = await enter("person", "/runs/nothing");
  await page.getByRole("heading", { name: "There is no such run" }).waitFor();
  await page.goto(page.url().replace("nothing", "rel-2214"));
  await card(page, "deploy").waitFor();
  await daemon.again();
  await card(page, "deploy").waitFor();
  await call("deploy", { target: "later" }, { runId: "rel-2214", threadId: thread, agent });
  await card(page, "deploy").nth(1).waitFor();
  assert.ok((await page.locator(".wf .ax + .wr .fold").count()) > 0, "the wait of the first question is not folded");
  await picture(page, "run-folded");
});
