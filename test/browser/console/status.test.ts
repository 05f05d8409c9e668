/** The screens Status and Audit. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { start, tokens, tools } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

// An MCP server that prints a hostile line and ends. The text of the problem contains this line.
const hostile = "\u001b[31mred\u001b[0m \u202egnp.exe <img src=x onerror=alert(1)> " + "A".repeat(600);
const folder = mkdtempSync(join(tmpdir(), "toold-status-"));
writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { memory: { command: "/bin/sh", args: ["-c", `printf '%s\\n' '${hostile}' >&2; exit 3`] } } }));

const daemon = await start(`audit: {enabled: true, every: 1s}\nmcp: {files: ["${join(folder, "mcp.json")}"]}`);
const { deployed } = await tools(daemon.tcp, daemon.app);
const toold = (...args: string[]) => execFileSync(process.env.TOOLD!, [...args, "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens.operator }, encoding: "utf8" });

test("status says what is wrong and what to do", async () => {
  const { page, errors } = await signIn(daemon, "admin", "/status");
  const problem = page.getByRole("listitem").filter({ hasText: "mcp:memory is down" });
  await problem.getByText("toold tools retry mcp:memory").waitFor();
  await problem.getByRole("button", { name: "Try now", exact: true }).click();
  await page.getByText("The daemon connects again.").waitFor();
  await page.getByRole("row").filter({ hasText: "worker:default/tools" }).getByText("Ready").waitFor();
  await page.getByRole("row").filter({ hasText: "0 of 16" }).waitFor();
  await page.getByRole("link", { name: /^Status/ }).getByText(/^\d+$/).waitFor(); // the number of problems
  assert.equal(await page.locator("main img").count(), 0, "text of a server became markup");
  await page.getByRole("img", { name: /^Running, latest hour/ }).locator("canvas").waitFor(); // after two samples
  await accessible(page);
  await narrow(page);
  await picture(page, "status");
  assert.deepEqual(errors, []);
});

test("the status opens after the tools", async () => {
  const { page, errors } = await signIn(daemon, "person", "/tools");
  await page.getByText("Choose a tool").waitFor();
  for (const name of ["Status", "Tools", "Status"]) await page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: new RegExp(`^${name}`) }).click();
  await page.getByText("Sources of tools").waitFor();
  assert.deepEqual(errors, []);
});

test("a viewer sees no errors of programs, no load and no buttons", async () => {
  const { page } = await signIn(daemon, "person", "/status");
  await page.getByText("The load is shown to admins").waitFor();
  await page.getByText("mcp:memory is down").waitFor();
  assert.equal(await page.getByText("gnp.exe").count(), 0);
  for (const name of ["Drain", "Try now", "Reload rules"]) assert.equal(await page.getByRole("button", { name }).count(), 0);
});

test("reload, and a drain that takes two steps", async () => {
  const { page } = await signIn(daemon, "admin", "/status");
  await page.getByRole("button", { name: "Reload rules" }).click();
  await page.getByText("Nothing has changed.").waitFor();
  await page.getByRole("button", { name: "Drain" }).click();
  await page.getByRole("button", { name: "End the daemon" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Drain" }).waitFor();
  assert.deepEqual(deployed, []);
});

test("the audit shows who did what, searches, verifies and exports", async () => {
  const calls = await Promise.all(Array.from({ length: 40 }, () => daemon.app.call("glob", { pattern: "*" })));
  const { page, errors } = await signIn(daemon, "operator", "/audit");
  await page.getByText(/part of the chain holds|chain holds/).waitFor();
  await page.getByRole("row").filter({ hasText: "accepted" }).first().waitFor();
  await page.getByRole("button", { name: "Verify the whole chain" }).click();
  await page.getByText(/^The chain holds: \d+ records/).waitFor();
  assert.ok((await page.getByRole("row").count()) < 100, "all records are in the document");
  await accessible(page);
  await narrow(page);
  await picture(page, "audit");

  // The search works with the keyboard, and the address contains it.
  await page.keyboard.press("/");
  await page.keyboard.type(`call:${calls[0]!.callId}`);
  await page.keyboard.press("Enter");
  await page.getByText("3 records. This is the beginning").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("q"), `call:${calls[0]!.callId}`);
  assert.equal(await page.getByRole("row").count(), 4);

  // `toold audit verify` accepts the exported file.
  await page.getByRole("searchbox").or(page.locator(".search input")).fill("");
  await page.keyboard.press("Enter");
  await page.getByRole("row").nth(20).waitFor();
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const file = join(folder, "audit.jsonl");
  await (await saving).saveAs(file);
  assert.ok(readFileSync(file, "utf8").split("\n").length > 120);
  assert.match(toold("audit", "verify", file), /records of default/);
  assert.deepEqual(errors, []);
});

test("new records wait behind a bar while a row is looked at", async () => {
  const { page } = await signIn(daemon, "operator", "/audit");
  await page.getByRole("row").nth(5).waitFor();
  await page.getByRole("button", { name: /copy the link of record/ }).first().focus();
  const before = await page.getByRole("row").nth(1).innerText();
  await daemon.app.call("glob", { pattern: "*" });
  await page.getByRole("button", { name: /^3 new/ }).waitFor();
  assert.equal(await page.getByRole("row").nth(1).innerText(), before);
  await page.keyboard.press(".");
  await page.getByRole("button", { name: /^3 new/ }).waitFor({ state: "hidden" });
  await page.getByRole("row").nth(1).getByText("finished: succeeded").waitFor();
});

test("a chain that was cut is found with a checkpoint that was kept elsewhere", async () => {
  const { page } = await signIn(daemon, "operator", "/audit");
  await page.getByRole("button", { name: "Compare with a checkpoint" }).click();
  const lines = page.getByRole("textbox", { name: /^Lines of a file of checkpoints/ });
  await lines.fill(toold("audit", "checkpoints", "-n", "1", "-o", "jsonl").trim().replace(/^.*"line":("(?:[^"\\]|\\.)*").*$/, (_, line: string) => JSON.parse(line) as string));
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByText("Your checkpoints were among them.").waitFor();
  await lines.fill("{}");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByText("The chain was not verified.").or(page.getByText("SIGNATURE")).first().waitFor();
});

test("who may not read the audit is told so", async () => {
  const { page } = await signIn(daemon, "person", "/audit");
  await page.getByText("It needs the role operator.").waitFor();
  await accessible(page);
});
