/** Tests @toold/react in Chromium with React 18 and 19: on a page of another origin with a token, and on a page of the daemon with its session. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { build } from "esbuild";
import type { Locator, Page } from "playwright-core";
import { open } from "./browser.ts";
import { start, tokens, tools } from "./daemon.ts";

const here = import.meta.dirname, server = createServer(({ url }, response) => response.setHeader("Content-Type", "text/html").end(url === "/toold-token" ? tokens.person : "<!doctype html><body></body>")).listen(0, "127.0.0.1");
await once(server, "listening");
after(() => server.close());
const home = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const daemon = await start(`http: {origins: ["${home}"]}`), { next, deployed, ready } = await tools(daemon.tcp, daemon.app);

/** Bundles a program for a page, with the version of React in the folder. */
async function bundle(folder: string, contents: string): Promise<string> {
  const { outputFiles } = await build({
    stdin: { contents, loader: "tsx", resolveDir: here }, bundle: true, write: false, format: "iife", jsx: "automatic", absWorkingDir: here,
    alias: { react: `${here}/${folder}node_modules/react`, "react-dom": `${here}/${folder}node_modules/react-dom` },
  });
  return outputFiles[0]!.text;
}

const page = readFileSync(`${here}/react.page.tsx`, "utf8");
const [, readme] = /```tsx\n(.*?)```/s.exec(readFileSync(`${here}/../../sdk/react/README.md`, "utf8"))!;
const mount = 'import { createRoot } from "react-dom/client";\ncreateRoot(document.body.appendChild(document.createElement("div"))).render(<App />);\n';

let calls = 0;
/** Starts a call and returns its id when the daemon has it. */
async function begin(tool: string, args: object, runId = ""): Promise<string> {
  const callId = `call-of-react-${String(++calls).padStart(6, "0")}`;
  await daemon.app.calls.callTool({ spec: { tool, callId, arguments: JSON.stringify(args), run: { runId, threadId: runId }, lingerNever: true }, wait: { nanos: 1 } });
  return callId;
}

/** Returns the sequences of all events of a call, as the daemon has them. */
async function log(callId: string): Promise<string> {
  const all: bigint[] = [];
  for await (const { frame } of daemon.app.calls.watchCalls({ selector: { case: "callId", value: callId }, afterSequence: 0n })) all.push(...frame!.events.map((e) => e.sequence));
  return all.join();
}

const sequences = (page: Page, callId: string) => page.locator(`[data-call="${callId}"] li`).allInnerTexts().then((all) => all.join());
const state = (page: Page, name: string) => page.locator(`[data-state="CALL_STATUS_${name}"]`).waitFor();
const button = (on: Page | Locator, name: string) => on.getByRole("button", { name, exact: true });
const status = (page: Page, name: string) => page.locator(`[data-status="${name}"]`).waitFor();

/** Signs a person in, on a page of the daemon. */
async function signedIn() {
  const { page, errors } = await open();
  await page.goto(execFileSync(process.env.TOOLD!, ["login", "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens.person }, encoding: "utf8" }).trim());
  await button(page, "Sign in").click();
  await page.getByRole("navigation", { name: "Console" }).waitFor();
  return { page, errors };
}

for (const [version, folder] of [["18.3.1", "react18/"], ["19.3.1", ""]] as const) {
  const program = await bundle(folder, page);
  assert.ok(program.includes(`"${version}"`));

  /** Opens a page of another origin. `open` contains the watches that have not ended. */
  const app = async (shown: object) => {
    const { page, errors } = await open(), watches = new Set<unknown>(), opened: string[] = [];
    page.on("console", (m) => m.type() === "error" && !m.text().includes("net::ERR") && errors.push(m.text()));
    page.on("request", (r) => r.url().includes("/v1/watch") && r.method() === "GET" && watches.add(r) && opened.push(new URL(r.url()).search));
    page.on("requestfailed", (r) => watches.delete(r));
    page.on("requestfinished", (r) => watches.delete(r));
    await page.goto(home);
    const show = (next: object) => page.evaluate((to) => (globalThis.shown = to, globalThis.show?.(to)), { baseUrl: daemon.http, token: tokens.person, ...next });
    await show(shown);
    await page.evaluate(program);
    return { page, errors, watches, opened, show };
  };

  test(`React ${version}: a call with progress, output and result`, async () => {
    const call = await begin("steps", { count: 2 });
    const { page, errors, opened } = await app({ call });
    await next();
    await page.getByText("step 1").first().waitFor();
    await next();
    await status(page, "ended");
    await state(page, "SUCCEEDED");
    assert.equal(await page.locator("pre").innerText(), "step 1\nstep 2\n");
    assert.equal(await page.locator("b").innerText(), '{"steps":2}');
    assert.equal(await page.locator("section").getAttribute("data-arguments"), '{"count":2}');
    assert.equal(await sequences(page, call), await log(call));
    assert.equal(opened.length, 1); // StrictMode unmounts before the first watch begins, and a watch that has ended does not begin again
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: a question, and a kill before the answer`, async () => {
    const call = await begin("deploy", { target: "prod" });
    const { page, errors } = await app({ call });
    await status(page, "live");
    await page.getByText('{"target":"prod"}').waitFor();
    await daemon.again();
    await button(page, "Approve").click(); // before the stream is connected again
    await status(page, "ended");
    await state(page, "SUCCEEDED");
    assert.deepEqual(deployed.splice(0), ["prod"]);
    assert.equal(await sequences(page, call), await log(call));
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: a run over two kills`, async () => {
    const run = `run-${version}`, ids = [await begin("write", { path: `${version}-a`, content: "x" }, run)], { page, errors } = await app({ run });
    await state(page, "SUCCEEDED");
    for (let kill = 0; kill < 2; kill++) {
      await daemon.again();
      await ready();
      ids.push(await begin("write", { path: `${version}-${kill}`, content: "x" }, run), await begin("deploy", { target: `${kill}` }, run));
      await button(page, "Decline").click();
      await page.locator('[data-state="CALL_STATUS_CANCELLED"]').nth(kill).waitFor();
    }
    assert.deepEqual(await page.locator("article").evaluateAll((all) => all.map((a) => (a as HTMLElement).dataset.call)), ids);
    for (const id of ids) assert.equal(await sequences(page, id), await log(id));
    await status(page, "live");
    assert.deepEqual(deployed, []);
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: a kill right after an event`, async () => {
    const call = await begin("steps", { count: 2 }, `steps-${version}`), { page, errors } = await app({ run: `steps-${version}` });
    await next();
    await page.getByText("step 1").first().waitFor();
    await daemon.again(); // the worker continues the call
    await next();
    await state(page, "SUCCEEDED");
    assert.equal(await sequences(page, call), await log(call));
    assert.equal(await page.locator("pre").innerText(), "step 1\nstep 2\n");
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: the inbox, and somebody else who answers`, async () => {
    const calls = [await begin("deploy", { target: "earth" }), await begin("deploy", { target: "moon" }), await begin("deploy", { target: "mars" })];
    const { page, errors } = await app({ inbox: true }), question = (target: string) => page.locator("fieldset", { hasText: target });
    await status(page, "live");
    assert.equal(await page.locator("fieldset").count(), 3);
    await button(question("moon"), "Decline").click();
    await question("moon").waitFor({ state: "detached" });
    const answered = daemon.again();
    await button(question("earth"), "Approve").dblclick(); // while the daemon is down; the double click must send one decision
    await answered;
    await question("earth").waitFor({ state: "detached" });
    const mars = await daemon.person.calls.getCall({ callId: calls[2]! });
    for await (const _ of await daemon.person.decline(mars.call!, "closed")); // the page must learn of this decision
    await question("mars").waitFor({ state: "detached" });
    const { call: earth } = await daemon.person.calls.getCall({ callId: calls[0]! });
    assert.equal(earth!.decisions.length, 1);
    while (deployed.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual(deployed.splice(0), ["earth"]);
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: other props, unmount, refusals`, async () => {
    const one = await begin("deploy", { target: "one" }), two = await begin("deploy", { target: "two" }), { page, errors, watches, show } = await app({ call: one });
    const remain = async (count: number) => {
      while (watches.size !== count) await page.waitForTimeout(20);
    };
    await page.getByText('{"target":"one"}').waitFor();
    await show({ call: two });
    await page.getByText('{"target":"two"}').waitFor();
    assert.equal(await page.getByText('{"target":"one"}').count(), 0);
    await remain(1); // the watch of the first call is closed
    await button(page, "Cancel").click();
    await page.locator("section > output", { hasText: "role" }).waitFor(); // a person who only approves may not cancel
    await show({ call: two, token: tokens.app });
    await page.getByText('{"target":"two"}').waitFor();
    await button(page, "Cancel").click();
    await state(page, "CANCELLED");
    await show({});
    await remain(0);
    await show({ call: "call-unknown-000001" });
    await page.locator('[data-status="error"][data-error="CALL_NOT_FOUND"]').waitFor();
    await show({ inbox: true, token: "wrong" });
    await page.locator('[data-status="error"][data-error="TOKEN_INVALID"]').waitFor({ state: "attached" });
    for await (const _ of await daemon.person.decline((await daemon.person.calls.getCall({ callId: one })).call!));
    assert.deepEqual(errors.filter((e) => !/status of 40[0-9]/.test(e)), []);
  });

  test(`React ${version}: the session of a person, on a page of the daemon`, async () => {
    const call = await begin("deploy", { target: "prod" }), { page, errors } = await signedIn();
    await page.evaluate((shown) => void (globalThis.shown = shown), { call });
    await page.evaluate(program);
    await button(page, "Approve").click();
    await state(page, "SUCCEEDED");
    assert.deepEqual(deployed.splice(0), ["prod"]);
    assert.deepEqual(errors, []);
  });

  test(`React ${version}: the example of the README`, async () => {
    await begin("deploy", { target: "README" });
    const { page, errors } = await signedIn();
    await page.evaluate(await bundle(folder, readme + mount));
    await page.getByText('{"target":"README"}').waitFor();
    await button(page, "Decline").click();
    await page.getByText('{"target":"README"}').waitFor({ state: "detached" });
    assert.deepEqual(deployed, []);
    assert.deepEqual(errors, []);
  });
}

test("the program of the how-to page, from the package in an empty directory", async () => {
  const folder = process.env.REACT_APP!, run = "run-of-the-page", { page, errors } = await open();
  const [file] = (await build({
    stdin: { contents: `import { App } from "./app.tsx";\nimport { createRoot } from "react-dom/client";\ncreateRoot(document.body).render(<App daemon="${daemon.http}" run="${run}" />);\n`, loader: "tsx", resolveDir: folder },
    bundle: true, write: false, format: "iife", jsx: "automatic", absWorkingDir: folder,
  })).outputFiles;
  await begin("deploy", { target: "page" }, run);
  await page.goto(home);
  await page.evaluate(file!.text);
  await page.getByText('{"target":"page"}').waitFor();
  await button(page, "Approve").click();
  await page.getByText("Deployed to page.").waitFor();
  assert.deepEqual(deployed.splice(0), ["page"]);
  assert.deepEqual(errors, []);
});
