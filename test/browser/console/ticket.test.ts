/** The ticket: every kind of question, read and answered in the browser; hostile text; edits; conflicts. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { accessible, narrow, picture, signIn } from "./console.ts";
import { day } from "./day.ts";

const daemon = await day();
const [doubt, edit, command, pay, question, signin, limits, regions, hostile] = daemon.waiting as [string, string, string, string, string, string, string, string, string];

const get = async (id: string) => (await daemon.person.calls.getCall({ callId: id })).call!;
const { page, errors, origin } = await signIn(daemon, "operator");
await page.setViewportSize({ width: 1440, height: 900 });

/** Opens the ticket of a call. */
async function open(id: string, on: Page = page) {
  const { suspension } = await get(id);
  await on.goto(`${origin}/inbox/${suspension!.suspensionId}`);
  const ticket = on.getByRole("article", { name: "Ticket" });
  await ticket.waitFor();
  return ticket;
}
/** Waits until a call has ended, and returns it. */
async function ended(id: string) {
  for (let i = 0; i < 600; i++) {
    const call = await get(id);
    if (call.result) return call;
    await new Promise((r) => setTimeout(r, 20));
  }
  throw new Error(`call ${id} does not end: ${(await get(id)).status}`);
}
/** Checks a ticket as every screen is checked. */
async function checked(name: string) {
  await picture(page, `ticket-${name}`);
  await accessible(page);
  await narrow(page);
}

test("a change: side by side or in one column, with what cannot be seen", async () => {
  const ticket = await open(edit);
  await ticket.getByRole("table", { name: "Change, side by side" }).waitFor();
  await ticket.getByText("1 character of this cannot be seen").waitFor();
  assert.ok((await ticket.locator(".diff .cc", { hasText: "U+202E" }).count()) >= 1);
  assert.equal((await ticket.textContent())!.includes("\u202e"), false, "the page has the override itself");
  await checked("change");
  await page.keyboard.press("u");
  await ticket.getByRole("table", { name: "Change, in one column" }).waitFor();
  assert.equal(await ticket.getByText("different from what the question shows").count(), 0);
  // The file changes while the question waits.
  const file = `${daemon.home}/workspace/config/deploy.yaml`;
  writeFileSync(file, readFileSync(file, "utf8") + "owner: tam\n");
  await (await open(edit)).getByText("different from what the question shows").waitFor();
});

test("a command with its parts", async () => {
  const ticket = await open(command);
  const parts = ticket.getByRole("list", { name: "The command, part by part" });
  for (const [text, effect] of [["git fetch origin", "Network"], ["rm -rf", "Destroys"], ["$GEN --all", "Unknown"]] as const) await parts.getByRole("listitem").filter({ hasText: text }).getByText(effect, { exact: true }).waitFor();
  await ticket.getByRole("heading", { name: "Command" }).waitFor();
  await checked("command");
});

test("T66: hostile text is whole, has its length, and is no markup", async () => {
  const ticket = await open(hostile);
  const text = (await ticket.textContent())!;
  assert.match(text, /100 spaces.*and close the account/s, "padding hides the end of a text");
  await ticket.locator(".cc", { hasText: "U+001B" }).first().waitFor();
  assert.ok(text.includes("<b>free</b>"), "the markup is not shown as text");
  assert.equal(await ticket.locator("b", { hasText: "free" }).count(), 0);
  await checked("hostile");
  // Ten megabytes are refused; what is accepted is on the page, to its end, and wraps.
  const long = " ".repeat(60_000) + "\u001b[8mrm -rf /" + "xy".repeat(1000);
  const { call } = await daemon.app.calls.callTool({ spec: { tool: "bash", callId: "padded-command-0001", arguments: JSON.stringify({ command: long }), lingerNever: true }, wait: { nanos: 1 } });
  const padded = await open(call!.callId);
  assert.match((await padded.textContent())!, /60,000 spaces.*rm -rf \//s);
  const inside = await padded.locator(".code pre").evaluateAll((all) => all.every((e) => e.scrollWidth <= e.clientWidth && e.parentElement!.scrollHeight <= e.parentElement!.clientHeight + 2));
  assert.ok(inside, "a part of what runs is behind a scrollbar");
  await narrow(page);
});

test("T16: names of files that turn the text around are escaped", async () => {
  const name = "docs/\u202etxt.exe\u001b[2K\nx.md";
  const { call } = await daemon.app.calls.callTool({ spec: { tool: "write", callId: "hostile-name-000001", arguments: JSON.stringify({ path: name, content: "x\n" }), lingerNever: true }, wait: { nanos: 1 } });
  if (!call!.suspension && call!.result) return assert.fail(`the call does not wait: ${call!.result.message}`);
  const ticket = await open(call!.callId);
  await ticket.locator(".cc", { hasText: "U+202E" }).first().waitFor();
  assert.equal((await page.locator("body").textContent())!.match(/[\u202e\u001b]/), null);
});

test("arguments are edited in a form and judged before the answer", async () => {
  const ticket = await open(pay);
  await page.keyboard.press("e");
  const form = ticket.getByRole("region", { name: "Edit arguments" });
  await form.getByRole("textbox", { name: /^amount/ }).fill("abc");
  await form.getByText("abc is not a number.").waitFor();
  assert.ok(await ticket.getByRole("button", { name: /^(Vote|Approve)/ }).isDisabled());
  await form.getByRole("textbox", { name: /^amount/ }).fill("1200.50");
  await form.getByText("was 2480").waitFor();
  assert.equal(await form.locator(".changed").count(), 1, "only the edited field is marked");
  await form.getByText("Your yes would count for the edited call").waitFor();
  await form.getByText("permission").first().waitFor();
  await checked("edit");
  // A key that is typed in a form is text.
  await form.getByRole("textbox", { name: /^note/ }).fill("");
  await form.getByRole("textbox", { name: /^note/ }).pressSequentially("ay");
  assert.equal(await ticket.getByText("Run exactly this?").count(), 0);
  await form.getByRole("textbox", { name: /^note/ }).fill("");
  await page.keyboard.press("Escape");
  await page.waitForTimeout(300); // longer than between two letters of a word
  await page.keyboard.press("a");
  await page.keyboard.press("y");
  await ticket.getByText("1 of 2").waitFor();
  const { suspension } = await get(pay);
  assert.deepEqual(suspension!.votes.map((v) => [v.voter?.subject, v.edited, v.arguments]), [["operator", true, '{"amount":1200.50,"currency":"EUR","invoice":"R-1180"}']]);
});

test("letters that are typed or pasted as keys decide nothing", async () => {
  const ticket = await open(limits);
  await page.keyboard.type("please stay");
  assert.equal(await ticket.getByText("Run exactly this?").count(), 0);
  await page.evaluate(() => document.dispatchEvent(new ClipboardEvent("paste", { bubbles: true, clipboardData: new DataTransfer() })));
  assert.ok((await get(limits)).suspension);
});

test("a yes is kept with its scope and end", async () => {
  await open(limits);
  await page.waitForTimeout(300); // longer than between two letters of a word
  await page.keyboard.press("a");
  await page.keyboard.press("1");
  await picture(page, "ticket-armed");
  await accessible(page);
  await narrow(page);
  await page.keyboard.press("y");
  const call = await ended(limits);
  const kept = call.decisions[0]!;
  assert.equal(kept.remember?.option !== "" && !!kept.remember?.until, true);
  assert.equal(kept.expectedDigest === "" || kept.expectedDigest === kept.appliesTo, true);
  assert.equal(readFileSync(`${daemon.home}/workspace/docs/limits.md`, "utf8").startsWith("# Limits"), true);
});

test("a no has a reason, which the model reads", async () => {
  await open(regions);
  await page.keyboard.press("d");
  await page.keyboard.type("name all regions");
  await page.keyboard.press("Enter");
  assert.match((await ended(regions)).result!.error!.message, /name all regions/);
});

test("a question is answered with a form of its schema", async () => {
  const ticket = await open(question);
  await ticket.getByRole("form", { name: "Your answer" }).waitFor();
  await checked("question");
  await page.keyboard.press("2");
  await page.keyboard.press("a");
  await page.getByText("eu-north").last().waitFor();
  await page.keyboard.press("y");
  assert.match((await ended(question)).result!.data, /eu-north/);
});

test("a sign-in names its page, and opens only pages of the web", async () => {
  const ticket = await open(signin);
  const link = ticket.getByRole("link", { name: "Open tracker.harbour.example" });
  assert.deepEqual([await link.getAttribute("rel"), await link.getAttribute("target")], ["noopener noreferrer", "_blank"]);
  await ticket.getByText("issues:read").first().waitFor();
  await checked("signin");
});

test("a call in doubt: what is known, and three answers", async () => {
  const ticket = await open(doubt);
  await ticket.getByText("The daemon ended without a word").waitFor();
  assert.ok(await ticket.getByRole("button", { name: /^Answer/ }).isDisabled());
  await page.keyboard.press("1");
  await ticket.getByRole("textbox", { name: "data" }).fill('{"refund_id": 12345678901234567890}');
  await ticket.getByLabel(/^message/).fill("Refunded; seen in the ledger.");
  await checked("doubt");
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await ticket.getByText("Say that it happened?").waitFor();
  await page.keyboard.press("y");
  const { result } = await ended(doubt);
  assert.deepEqual([result!.message, result!.data], ["Refunded; seen in the ledger.", '{"refund_id":12345678901234567890}']);
});

test("the page has reported no error", () => assert.deepEqual(errors, []));
