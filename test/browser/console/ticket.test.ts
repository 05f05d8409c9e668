/** The ticket: each kind of question is read and answered in the browser. Also hostile text, edits and conflicts. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import type { Locator, Page } from "playwright-core";
import { Question, Worker } from "toold";
import { ResumeToolRequestSchema } from "toold/v1/call_service_pb";
import { ContentType } from "toold/v1/content_pb";
import { ResultStatus } from "toold/v1/result_pb";
import { type Decision, DecisionAction } from "toold/v1/suspension_pb";
import { accessible, narrow, picture, signIn } from "./console.ts";
import { day } from "./day.ts";
import { tokens } from "../daemon.ts";

const daemon = await day();
const [doubt, edit, command, pay, question, signin, limits, regions, hostile, frontend] = daemon.waiting as [string, string, string, string, string, string, string, string, string, string];

const get = async (id: string) => (await daemon.person.calls.getCall({ callId: id })).call!;
const { page, errors, origin } = await signIn(daemon, "operator");
await page.setViewportSize({ width: 1440, height: 900 });

/** The decisions that the page sent to the daemon. */
const sent: Decision[] = [];
page.on("request", (r) => r.url().endsWith("/ResumeTool") && sent.push(fromBinary(ResumeToolRequestSchema, r.postDataBuffer()!.subarray(5)).decision!)); // without the 5 bytes of framing

/** Presses keys as a person does, with pauses between them. */
async function press(...keys: string[]) {
  for (const key of keys) {
    await page.waitForTimeout(300);
    await page.keyboard.press(key);
  }
}

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
/** Makes the checks of every screen on a ticket. */
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

/** Returns the effects of a call that the list shows. It checks that the ticket shows the same. */
async function tags(id: string, ticket: Locator) {
  const { suspension } = await get(id), all = ["Destroys", "Changes", "Reads", "Network", "Frontend"];
  const of = async (l: Locator) => (await l.locator(".tag").allTextContents()).filter((t) => all.includes(t));
  const list = await of(page.locator(`#q-${suspension!.suspensionId}`));
  assert.deepEqual(await of(ticket.locator(".th")), list);
  return list;
}

test("a tool of the frontend: its effects and its group are the same in list and ticket", async () => {
  const ticket = await open(frontend);
  assert.deepEqual(await tags(frontend, ticket), ["Frontend"]);
  await ticket.getByText("After a yes, the frontend of the run does this and answers.").waitFor();
  await press("a", "y");
  await page.locator(".became", { hasText: "You approved it" }).waitFor();
  const second = await open(frontend), group = page.getByRole("region", { name: "Waits for others, not for you" });
  await group.getByText("fe_open_page").waitFor();
  assert.deepEqual(await tags(frontend, second), ["Frontend"]);
  await second.getByText("There is nothing for you to do").waitFor();
  await second.getByRole("button", { name: "Stop the call" }).waitFor();
  await checked("frontend");
});

test("a command with its parts", async () => {
  const ticket = await open(command);
  const parts = ticket.getByRole("list", { name: "The command, part by part" });
  for (const [text, effect] of [["git fetch origin", "Needs network"], ["rm -rf", "Destroys"], ["$GEN --all", "Unknown"]] as const) await parts.getByRole("listitem").filter({ hasText: text }).getByText(effect, { exact: true }).waitFor();
  await ticket.getByRole("heading", { name: "Command" }).waitFor();
  // The call runs without network, so neither the list nor the ticket may show network access.
  await ticket.getByText("Runs isolated, without network.").waitFor();
  await ticket.getByText("git fetch connects to other machines, and it has no network here").waitFor();
  assert.deepEqual(await tags(command, ticket), ["Destroys"]);
  // No rule matched, so the ticket says why the call needs an approval.
  await ticket.getByText("no rule: calls of the tier confirm are asked about").waitFor();
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
  // The daemon refuses ten megabytes. An accepted text is on the page in full, and wraps.
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
  // A letter that is typed in a form is text, not a command.
  await form.getByRole("textbox", { name: /^note/ }).fill("");
  await form.getByRole("textbox", { name: /^note/ }).pressSequentially("ay");
  assert.equal(await ticket.getByText("Run exactly this?").count(), 0);
  await form.getByRole("textbox", { name: /^note/ }).fill("");
  await page.keyboard.press("Escape");
  await press("a", "y");
  await ticket.getByText("1 of 2").waitFor();
  const { suspension } = await get(pay);
  const agreed = '{"amount":1200.50,"currency":"EUR","invoice":"R-1180"}';
  assert.deepEqual(suspension!.votes.map((v) => [v.voter?.subject, v.edited, v.arguments]), [["operator", true, agreed]]);
  // A person who has voted sees that nothing is left to do. Another person compares the arguments, and votes for the same ones.
  await ticket.getByText("You have voted. There is nothing more for you to do.").waitFor();
  const other = await signIn(daemon, "person");
  const theirs = await open(pay, other.page);
  await theirs.getByText("operator votes for other arguments.").waitFor();
  await other.page.setViewportSize({ width: 360, height: 740 });
  const name = theirs.locator(".votes .who");
  assert.ok((await name.boundingBox())!.height < 30, "a name breaks in a narrow window");
  await picture(other.page, "ticket-votes-narrow");
  await other.page.setViewportSize({ width: 1440, height: 900 });
  await theirs.getByRole("button", { name: "Compare and vote for them" }).click();
  const panel = theirs.getByRole("region", { name: "Arguments that somebody voted for" });
  await panel.getByText("2480").first().waitFor();
  await panel.getByText("1200.50").first().waitFor();
  await panel.getByText("With your yes it runs.").waitFor();
  await picture(other.page, "ticket-agree");
  await accessible(other.page);
  await narrow(other.page);
  await other.page.getByRole("button", { name: "Vote for the edit" }).click();
  await other.page.getByText("Vote for these arguments?").waitFor();
  await other.page.waitForTimeout(300);
  await other.page.keyboard.press("y");
  const call = await ended(pay);
  assert.deepEqual([call.result!.status, call.effectiveArguments, call.decisions[0]!.votes.map((v) => v.voter?.subject)], [ResultStatus.SUCCESS, agreed, ["operator", "person"]]);
  // The first person sees who decided what, and no form.
  await page.locator(".became", { hasText: "Decided by person" }).getByText("operator, person").waitFor();
  await page.locator(".became").getByText("yes, to other arguments").waitFor();
  await page.locator(".became").getByText("You had voted.").waitFor();
  assert.equal(await page.locator(".pane.show").getByText(/not sent/i).count(), 0, "a vote that counted is called not sent");
  assert.equal(await page.locator(".pane.show").locator("input, textarea, .act, .due").count(), 0);
  await checked("decided");
});

test("votes that change while the form is open: a voided vote is neither repeated unseen nor the last that a person has", async () => {
  const { call } = await daemon.app.calls.callTool({ spec: { tool: "pay", callId: "voided-votes-0001", arguments: '{"invoice":"V-1","amount":1001,"currency":"EUR"}', lingerNever: true }, wait: { nanos: 1 } });
  const id = call!.callId, ticket = await open(id), { suspension: s } = await get(id);
  const vote = async (amount: number) => {
    const decision = { decisionId: crypto.randomUUID(), action: DecisionAction.RESUME, expectedDigest: s!.digest, arguments: `{"invoice":"V-1","amount":${amount},"currency":"EUR"}` };
    for await (const _ of daemon.person.calls.resumeTool({ suspensionId: s!.suspensionId, decision })) return;
  };
  await press("a", "y");
  await ticket.getByText("You have voted.").waitFor();
  await vote(1002); // this vote has other arguments, so it voids the vote of the operator
  await ticket.getByText("person votes for other arguments.").waitFor();
  await ticket.getByRole("button", { name: "Compare and vote for them" }).click();
  await vote(1003); // while the operator looks at the first edit
  await ticket.getByText("This vote no longer counts").waitFor();
  assert.ok(await ticket.getByRole("button", { name: "Vote for the edit" }).isDisabled());
  await ticket.getByRole("button", { name: "Compare and vote for them" }).click();
  await press("a", "y");
  assert.equal((await ended(id)).effectiveArguments, '{"amount":1003,"currency":"EUR","invoice":"V-1"}');
});

test("a result is given in the tool's place, where the rule allows it", async () => {
  const pays = async (invoice: string) => {
    const { call } = await daemon.app.calls.callTool({ spec: { tool: "pay", callId: `by-hand-${invoice}-0001`, arguments: JSON.stringify({ invoice, amount: 5, currency: "EUR" }), lingerNever: true }, wait: { nanos: 1 } });
    return call!.callId;
  };
  const id = await pays("CASH-1");
  const ticket = await open(id);
  await page.keyboard.press("r");
  const form = ticket.getByRole("region", { name: "A result in the tool's place" });
  assert.ok(await ticket.getByRole("button", { name: "Give this result" }).isDisabled(), "an empty result can be given");
  await form.getByLabel(/^message/).fill("Paid in cash.");
  // Data that is not JSON yet is not left out of the answer.
  await form.getByRole("textbox", { name: "data", exact: true }).fill('{"receipt": ');
  await ticket.getByText("The data is not JSON yet.").waitFor();
  assert.ok(await ticket.getByRole("button", { name: "Give this result" }).isDisabled());
  await form.getByRole("textbox", { name: "data", exact: true }).fill('{"receipt": 12345678901234567890}');
  await checked("instead");
  await page.keyboard.press("Escape");
  await press("a");
  await ticket.getByText("Give this result? The tool does not run.").waitFor();
  await press("y");
  const { result } = await ended(id);
  assert.deepEqual([result!.status, result!.message, result!.data], [ResultStatus.SUCCESS, "Paid in cash.", '{"receipt":12345678901234567890}']);
  await page.locator(".became").getByText("a result in the tool's place").waitFor();
  // The given result is an error.
  const failed = await pays("CASH-2");
  const second = await open(failed);
  await press("r", "Escape"); // leads back to the ticket, not to the list
  assert.equal(await second.getByRole("region", { name: "A result in the tool's place" }).count(), 0);
  await second.getByRole("button", { name: /^Give the result/ }).click();
  await second.getByRole("radio", { name: /As if it had failed/ }).check();
  await second.getByLabel(/^message/).fill("No cash left.");
  await page.keyboard.press("Escape");
  await press("a", "y");
  assert.equal((await ended(failed)).result!.error!.reason, "RESULT_INSTEAD");
  // A person without the right sees no such button.
  assert.equal(await (await open(hostile)).getByRole("button", { name: /^Give the result/ }).count(), 0);
});

test("letters that are typed or pasted as keys decide nothing", async () => {
  const ticket = await open(limits), { digest } = (await get(limits)).suspension!;
  await page.keyboard.type("please stay");
  assert.equal(await ticket.getByText("Run exactly this?").count(), 0);
  await page.evaluate(() => document.dispatchEvent(new ClipboardEvent("paste", { bubbles: true, clipboardData: new DataTransfer() })));
  // A text whose first letter arms the button, a text whose first letter declines, a double click, and a held key.
  for (const fast of [() => page.keyboard.type("ay"), () => page.keyboard.type("do it\n"), () => ticket.getByRole("button", { name: /^Approve/ }).dblclick(), () => heldEnter(/^Approve/), () => heldEnter(/^Decline/)]) {
    await page.waitForTimeout(300);
    await fast();
    await ticket.getByRole("button", { name: /^Back/ }).click();
  }
  assert.deepEqual(sent.filter((d) => d.expectedDigest === digest), []);
  assert.ok((await get(limits)).suspension);
});

/** Holds Enter on a button for longer than a person needs to read the armed question. */
async function heldEnter(name: RegExp) {
  await page.getByRole("button", { name }).focus();
  await page.keyboard.down("Enter");
  await page.waitForTimeout(300);
  for (let i = 0; i < 3; i++) await page.keyboard.down("Enter"); // a second down without up is a repeated key
  await page.keyboard.up("Enter");
}

test("an answer whose reply is lost is not called refused, and counts once", async () => {
  const { call } = await daemon.app.calls.callTool({ spec: { tool: "write", callId: "lost-reply-00000001", arguments: JSON.stringify({ path: "docs/lost.md", content: "x\n" }), lingerNever: true }, wait: { nanos: 1 } });
  const ticket = await open(call!.callId);
  let tries = 0;
  await page.route("**/ResumeTool", (r) => (tries++ === 0 ? r.abort() : r.continue()));
  await press("a", "y");
  await ticket.getByText("It is not known whether your answer was taken.").waitFor();
  assert.equal(await page.getByText("was not taken").count(), 0);
  await press("a", "y");
  await ended(call!.callId);
  await page.unroute("**/ResumeTool");
  const [one, two] = sent.slice(-2);
  assert.equal(one!.decisionId, two!.decisionId);
});

test("a yes is kept with its scope and end", async () => {
  await open(limits);
  const { digest } = (await get(limits)).suspension!;
  await press("a", "1");
  await picture(page, "ticket-armed");
  await accessible(page);
  await narrow(page);
  await page.keyboard.press("y");
  const call = await ended(limits);
  const kept = call.decisions[0]!;
  assert.equal(kept.remember?.option !== "" && !!kept.remember?.until, true);
  assert.equal(sent.at(-1)!.expectedDigest, digest);
  assert.equal(readFileSync(`${daemon.home}/workspace/docs/limits.md`, "utf8").startsWith("# Limits"), true);
});

test("a no has a reason, which the model reads", async () => {
  await open(regions);
  const { digest } = (await get(regions)).suspension!;
  await press("d");
  await page.keyboard.type("name all regions");
  await press("Enter");
  assert.match((await ended(regions)).result!.error!.message, /name all regions/);
  assert.equal(sent.at(-1)!.expectedDigest, digest);
});

test("a question is answered with a form of its schema", async () => {
  const ticket = await open(question);
  await ticket.getByRole("form", { name: "Your answer" }).waitFor();
  await checked("question");
  await page.keyboard.press("2");
  await press("a");
  await page.getByText("eu-north").last().waitFor();
  await press("y");
  assert.match((await ended(question)).result!.data, /eu-north/);
});

test("a sign-in names its page, and opens only pages of the web", async () => {
  const ticket = await open(signin);
  const link = ticket.getByRole("link", { name: "Open tracker.harbour.example" });
  assert.deepEqual([await link.getAttribute("rel"), await link.getAttribute("target")], ["noopener noreferrer", "_blank"]);
  await ticket.getByText("issues:read").first().waitFor();
  // The ticket has the same title as the list, and says what to do next.
  await ticket.getByRole("heading", { name: "Sign in to tracker.harbour.example", level: 1 }).waitFor();
  await ticket.getByText("press “I have signed in”: the tool runs again").waitFor();
  await checked("signin");
});

test("a call in doubt: what is known, and three answers", async () => {
  const ticket = await open(doubt);
  await ticket.getByText("The daemon stopped before it recorded an end").waitFor();
  assert.equal(await ticket.getByLabel("Last output on stdout").textContent(), "refunding 48-2211\n");
  assert.ok(await ticket.getByRole("button", { name: /^Answer/ }).isDisabled());
  // To decline would mean the same as the last answer, so the page offers only that answer.
  await ticket.getByText("Nobody can tell").waitFor();
  assert.equal(await ticket.getByRole("button", { name: /^Decline/ }).count(), 0);
  await page.keyboard.press("1");
  await ticket.getByRole("textbox", { name: "data" }).fill('{"refund_id": 12345678901234567890}');
  await ticket.getByLabel(/^message/).fill("Refunded; seen in the ledger.");
  await checked("doubt");
  await page.keyboard.press("Escape");
  await press("a");
  await ticket.getByText("Say that it happened?").waitFor();
  await press("y");
  const { result } = await ended(doubt);
  assert.deepEqual([result!.message, result!.data], ["Refunded; seen in the ledger.", '{"refund_id":12345678901234567890}']);
});

const worker = new Worker({ pool: "hostile", address: daemon.tcp, token: tokens.worker });
const markup = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><iframe src=/status></iframe>[a](javascript:alert(1))";
const bytesOf = (text: string) => new TextEncoder().encode(text);
worker.tool({
  id: "hostile", description: "Hostile.", parameters: { type: "object" },
  describe: () => ({ title: markup, preview: [
    { type: ContentType.DIFF, name: "x.sh", text: "--- a/x.sh\n+++ b/x.sh\n@@ -1,9 +1,9 @@\n kept\nrm -rf everything\n+added\n" },
    { type: ContentType.IMAGE, mimeType: "image/svg+xml", name: "a.svg", data: bytesOf('<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"/>') },
    { type: ContentType.DOCUMENT, mimeType: "text/html", name: "a.html", data: bytesOf(markup) },
    { type: ContentType.DOCUMENT, mimeType: "text/markdown", name: "a.md", data: bytesOf("![x](http://127.0.0.1:9/x)") },
    { type: ContentType.TEXT, text: markup },
  ] }),
}, () => "done");
worker.tool({ id: "asks", description: "Asks.", parameters: { type: "object" }, readOnly: true, observe: true }, () => {
  throw new Question(markup, { type: "object", properties: { ok: { type: "boolean" }, ["__proto__"]: { type: "string", maxLength: 9 } }, default: { ok: true, also: "hidden" } }, { action: "__proto__" });
});
const running = worker.run();
after(async () => {
  worker.stop();
  await running;
});
/** Calls a tool of the hostile worker, and waits for its question. */
async function asked(tool: string, args: object) {
  const callId = `hostile-${tool}-${Math.random().toString(36).slice(2)}-0001`;
  for (;;) {
    if ((await daemon.app.toolset("ai-sdk")).tools[tool]) break;
    await new Promise((r) => setTimeout(r, 20));
  }
  await daemon.app.calls.callTool({ spec: { tool, callId, arguments: JSON.stringify(args), lingerNever: true }, wait: { nanos: 1 } });
  for (;;) {
    const call = await get(callId);
    if (call.suspension) return callId;
    if (call.result) throw new Error(call.result.message);
    await new Promise((r) => setTimeout(r, 20));
  }
}

test("T135: what a tool shows is text: no image, page or script of it is in the console", async () => {
  const id = await asked("hostile", { a: 1 }), loaded: string[] = [];
  const note = (r: { url(): string }) => void loaded.push(r.url());
  page.on("request", note);
  const ticket = await open(id);
  await ticket.getByText("text/html").waitFor();
  await ticket.getByText("image/svg+xml").waitFor();
  await ticket.getByText("<script>").first().waitFor();
  page.off("request", note);
  assert.equal(await page.locator("img, iframe, object, embed, audio, video, article script, [onload], [onerror], a[href^='javascript:']").count(), 0);
  assert.deepEqual(loaded.filter((u) => !u.startsWith(origin + "/") || u.startsWith("data:")), []);
  assert.equal((await page.title()).includes("owned"), false);
  // A line of a diff that is neither kept nor changed is shown in full, with its first character.
  assert.match((await ticket.locator(".diff").textContent())!, /rm -rf everything/);
});

test("an action, names and defaults of a hostile question neither break the page nor hide a part of the answer", async () => {
  const id = await asked("asks", {});
  const ticket = await open(id);
  await ticket.getByRole("textbox", { name: /^__proto__/ }).fill("seen");
  await page.keyboard.press("Escape");
  const request = page.waitForRequest("**/ResumeTool");
  await press("a", "y");
  await request;
  assert.equal(sent.at(-1)!.result, '{"ok":true,"__proto__":"seen"}');
});

test("40,000 arguments are shown, and the page stays usable", async () => {
  const ticket = await open(await asked("hostile", { list: Array.from({ length: 40_000 }, (_, i) => i) }));
  await ticket.getByText("39999]").waitFor();
  assert.ok((await page.locator("*").count()) < 5000);
});

test("a tool that changed since its ticket was read does not run by the old yes: the ticket leads to the new question", async () => {
  const name = "moves", ran: string[] = [];
  const accept = (...more: string[]) => spawnSync(process.env.TOOLD!, ["tools", "accept", name, ...more, "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens.operator }, encoding: "utf8" }).stderr;
  const offer = async (about: string) => {
    const worker = new Worker({ pool: "moves", address: daemon.tcp, token: tokens.worker });
    worker.tool({ id: name, description: about, parameters: { type: "object" } }, () => (ran.push(about), "done"));
    const ended = worker.run();
    for (;;) {
      // A definition that changed is held until an operator accepts it.
      const digest = /--digest (\S+)/.exec(accept())?.[1];
      if (digest) accept("--digest", digest);
      const tool = (await daemon.app.tools.getTool({ tool: name }).catch(() => undefined))?.tool;
      if (tool?.description === about) break;
      await new Promise((r) => setTimeout(r, 20));
    }
    return async () => (worker.stop(), await ended);
  };
  const stop = await offer("before"), id = await asked(name, {});
  const ticket = await open(id), { suspension } = await get(id);
  await press("a");
  await ticket.getByText("Run exactly this?").waitFor();
  await stop();
  const stopAfter = await offer("after");
  await press("y");
  await page.locator(".became", { hasText: "You approved it" }).getByRole("link", { name: "asks again" }).click();
  await page.waitForURL((u) => !u.href.includes(suspension!.suspensionId));
  const now = (await get(id)).suspension!;
  assert.ok(page.url().includes(now.suspensionId) && now.digest !== suspension!.digest);
  assert.deepEqual(ran, []);
  await ticket.getByText(now.digest).waitFor();
  await press("a", "y");
  await ended(id);
  assert.deepEqual(ran, ["after"]);
  await stopAfter();
});

test("the page has reported no error", () => assert.deepEqual(errors, []));
