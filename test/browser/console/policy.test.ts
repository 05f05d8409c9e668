/** The policy screen: rules with hits, an edit with its replay, a trial of one call, and remembered answers. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { start, tokens, tools } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();
await tools(daemon.tcp, daemon.app);
const rules = join(daemon.home, "rules.yaml");
const hostile = "<img src=x onerror=alert(1)>‮drawkcab";
const text = `# The rules of the harbour.
default: {OBSERVE: allow, CONFIRM: ask, ESCALATE: ask}
rules:
  - name: keys
    action: deny
    tools: ['*(path ~ "*.pem")']
    reason: Keys stay where they are.
  - name: ${JSON.stringify(hostile)}
    action: deny
    tools: ["/^web_/"]
    callers: [nightly]
  - name: production
    action: ask always
    tools: ['deploy(target = "production")']
    approvers: [operator]
  - name: deployments
    action: ask
    tools: [deploy]
    expires_in: 2h
  - name: notes
    action: allow
    tools: ["write(notes/*)"]
  - name: reading
    action: allow
    tools: [read, glob, grep, "todo_*"]
`;
// Asynchronous, because the worker of the tools runs in this process and must not be blocked.
const toold = async (who: keyof typeof tokens, ...args: string[]) => (await promisify(execFile)(process.env.TOOLD!, [...args, "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens[who] } })).stdout;
writeFileSync(rules, text);
await toold("admin", "reload");

const row = (page: import("playwright-core").Page, name: string) => page.locator(".rules tbody tr", { hasText: name });
const ask = (target: string) => daemon.app.call("deploy", { target }, { runId: "run-1", wait: 0 } as object);
for (let i = 0; i < 12; i++) await daemon.app.call("glob", { pattern: `*${i}` });
for (const target of ["staging", "staging", "staging", "test", "production"]) await ask(target);
await daemon.app.call("read", { path: "key.pem" });

test("rules in force with their hits, by keys alone", async () => {
  const { page, errors } = await signIn(daemon, "person", "/policy");
  await row(page, "reading").getByText("12", { exact: true }).waitFor();
  await row(page, "deployments").getByText("4", { exact: true }).waitFor();
  await row(page, "keys").getByText("1", { exact: true }).waitFor();
  await row(page, "notes").getByText("never").waitFor();
  await row(page, "drawkcab").getByText("hides").waitFor();
  await row(page, "drawkcab").getByText("<img src=x onerror=alert(1)>").waitFor(); // text, no markup
  await row(page, "drawkcab").getByText("U+202E").or(page.getByText("<U+202E>")).first().waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  for (const _ of [1, 2, 3]) await page.keyboard.press("j");
  await page.getByRole("region", { name: "Rule", exact: true }).getByText("production", { exact: true }).waitFor();
  await page.getByText('deploy(target = "production")').last().waitFor();
  assert.match(page.url(), /rule=operator/);
  await accessible(page);
  await narrow(page);
  await picture(page, "policy");
  assert.deepEqual(errors, []);
  // A viewer cannot try rules.
  assert.equal(await page.getByRole("link", { name: "Try a call" }).count(), 0);
});

const edit = `rules:\n  - {name: go, action: allow, tools: [deploy, glob]} # ${"a long line ".repeat(30)}\n`;

test("an edit is replayed over the past calls, and its errors have a line", async () => {
  const { page, errors } = await signIn(daemon, "operator", "/policy");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByText("The text is the one in force.").waitFor();
  const editor = page.getByRole("textbox", { name: "Rules, as YAML" });
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("  - name: no reading\n    action: dney\n    tools: [glob]\n");
  await page.getByRole("button", { name: /Line 27, column 13/ }).waitFor();
  await page.getByText('unknown "dney"').waitFor();
  await page.getByText("so no call was replayed").waitFor();
  await page.getByRole("button", { name: /Line 27/ }).click(); // moves the cursor to that line
  await page.keyboard.press("Shift+End");
  await page.keyboard.insertText("deny");
  await page.getByText("12 calls: allowed, would be denied.").waitFor();
  await page.getByText("3 lines changed").waitFor();
  await page.getByRole("cell", { name: "12 changed" }).waitFor();
  // The replay also shows what people decided: one yes and one no.
  const waiting = await waitingCalls();
  await decide(waiting[0], "approve");
  await decide(waiting[1], "decline");
  await editor.click();
  await page.keyboard.press("Control+A");
  await page.keyboard.insertText(edit);
  await page.getByText("5 calls: asked, would be allowed.").waitFor();
  await page.getByText("People had said yes to 1 of them and no to 1.").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "policy-replay");
  // The console did not write the file, and the active rules did not change.
  assert.equal(readFileSync(rules, "utf8"), text);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download the rules" }).click()]);
  assert.equal(readFileSync(await download.path(), "utf8"), edit);
  // The edited text stays while the person opens another part of the screen. A trial of a call uses the edited text.
  await page.getByRole("link", { name: "Try a call" }).click();
  await page.getByLabel("Tool").fill("deploy");
  await page.getByLabel("Arguments, as JSON").fill('{"target": "production"}');
  await page.getByRole("button", { name: "Judge the call" }).press("Enter");
  await page.getByRole("heading", { name: "By your edit" }).waitFor();
  await page.getByText("production, line 12").waitFor();
  await page.getByText("go, line 2").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "policy-try");
  await page.getByLabel("Arguments, as JSON").fill('{"target": 7}');
  await page.getByRole("button", { name: "Judge the call" }).click();
  await page.getByText("want a string").waitFor();
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByRole("button", { name: "Discard the edit" }).click();
  await page.getByText("The text is the one in force.").waitFor();
  assert.deepEqual(errors, []);
});

test("an admin reloads the file", async () => {
  const { page, errors } = await signIn(daemon, "admin", "/policy/replay");
  await page.getByText("The text is the one in force.").waitFor();
  writeFileSync(rules, text.replace("name: reading", "name: looking"));
  await page.getByRole("button", { name: "Reload the rule file" }).click();
  await row(page, "looking").getByText("never").waitFor();
  writeFileSync(rules, "rules: [{action: x}]");
  await page.getByRole("button", { name: "Reload the rule file" }).click();
  await page.getByText("CONFIG_INVALID").waitFor();
  writeFileSync(rules, text);
  assert.deepEqual(errors, []);
});

test("kept answers are revoked after a confirmation, by keys alone", async () => {
  const { page, errors } = await signIn(daemon, "operator", "/policy/kept");
  await page.getByRole("heading", { name: "No answer is kept" }).waitFor();
  await accessible(page);
  const waiting = await waitingCalls();
  const staging = waiting.find((c) => c.text.includes("staging"))!;
  await decide(staging, "approve", "--remember", "1");
  await page.reload();
  const revoke = page.getByRole("button", { name: /^Revoke / });
  await revoke.waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "policy-kept");
  await revoke.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Revoke this kept answer?" });
  await dialog.waitFor();
  await accessible(page);
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.notEqual((await toold("admin", "rules", "-o", "jsonl")).trim(), "");
  await revoke.press("Enter");
  await dialog.getByRole("button", { name: "Revoke the answer" }).press("Enter");
  await page.locator("tr.gone").waitFor();
  assert.equal((await page.locator("tr.gone").textContent())!.includes("revoked"), true);
  assert.equal((await toold("admin", "rules", "-o", "jsonl")).trim(), "");
  assert.deepEqual(errors, []);
});

interface Waiting {
  id: string;
  text: string;
}

/** The calls that wait for an answer. */
async function waitingCalls(): Promise<Waiting[]> {
  const lines = (await toold("operator", "inbox", "-o", "jsonl")).trim().split("\n");
  return lines.filter(Boolean).map((l) => ({ id: (JSON.parse(l) as { call_id: string }).call_id, text: l }));
}

const decide = (w: Waiting, verb: string, ...flags: string[]) => toold("operator", verb, w.id, ...flags, "--yes").catch(() => undefined); // a declined call has its own exit code
