/** The inbox: the list, live updates, several answers at once, races, and a killed daemon. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { start, tools } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();
const { deployed, ready } = await tools(daemon.tcp, daemon.app);

const row = (page: Page, text: string) => page.locator(".tk", { hasText: text });
const ask = (target: string, runId = `run-${target}`) => daemon.app.call("deploy", { target }, { runId, wait: 0 } as object);
/** Presses keys as a person does, with pauses between them. */
async function press(page: Page, ...keys: string[]) {
  for (const key of keys) {
    await page.waitForTimeout(300);
    await page.keyboard.press(key);
  }
}
/** Waits until a list of texts equals the wanted one. If it never does, the error shows the last list. */
async function eventually<T>(read: () => Promise<T>, want: T) {
  let got = await read();
  for (let i = 0; i < 200 && JSON.stringify(got) !== JSON.stringify(want); i++, got = await read()) await new Promise((r) => setTimeout(r, 50));
  assert.deepEqual(got, want);
}

test("an empty inbox says what comes", async () => {
  const { page, errors } = await signIn(daemon, "person", "/inbox");
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  await accessible(page);
  await narrow(page);
  assert.deepEqual(errors, []);
});

test("a question comes by itself, is read and approved with keys alone, and stays struck out", async () => {
  const { page, errors } = await signIn(daemon, "person", "/inbox");
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  const call = await ask("alpha");
  await row(page, "deploy").waitFor();
  assert.equal(await page.locator(".nav .num.hot").first().textContent(), "1");
  await page.keyboard.press("j");
  await page.waitForURL(new RegExp(`/inbox/${call.suspension!.suspensionId}$`));
  await page.getByText('"alpha"').first().waitFor();
  await picture(page, "inbox-one");
  // While a question is open, the page only counts new questions in a bar.
  await ask("beta");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.locator(".tk").count(), 1);
  await page.keyboard.press(".");
  await eventually(() => page.locator(".tk").count(), 2);
  await press(page, "a", "y");
  await row(page, "you: yes").waitFor();
  await eventually(async () => deployed.includes("alpha"), true);
  await page.getByText("You approved it").waitFor();
  await page.getByRole("link", { name: "succeeded" }).waitFor();
  assert.equal(await page.locator(".nav .num.hot").first().textContent(), "1");
  await page.mouse.move(1200, 400); // not over the list
  await page.keyboard.press("j"); // leaves the row
  await eventually(() => page.locator(".tk").count(), 1);
  await page.getByText('"beta"').first().waitFor();
  await page.keyboard.press("d");
  await page.keyboard.type("not now");
  await press(page, "Enter");
  await row(page, "you: no").waitFor();
  assert.deepEqual(errors, []);
});

test("two people race for one decision", async () => {
  const call = await ask("gamma"), path = `/inbox/${call.suspension!.suspensionId}`;
  const [one, two] = await Promise.all([signIn(daemon, "person", path), signIn(daemon, "operator", path)]);
  for (const { page } of [one, two]) {
    await page.getByText('"gamma"').first().waitFor();
    await page.keyboard.press("a");
    await page.getByText("Run exactly this?").waitFor();
  }
  await one.page.waitForTimeout(300); // the page would ignore a yes that comes too early
  await Promise.all([one.page.keyboard.press("y"), two.page.keyboard.press("y")]);
  const seen = await Promise.all([one, two].map(async ({ page }) => {
    await page.locator(".became").waitFor();
    return (await page.locator(".became").textContent())!;
  }));
  assert.equal(seen.filter((t) => t.includes("You approved it")).length, 1, seen.join("\n"));
  assert.equal(seen.filter((t) => /Decided by (person|operator) while you looked.*Your answer was not sent/.test(t)).length, 1, seen.join("\n"));
  await eventually(async () => deployed.filter((d) => d === "gamma").length, 1);
  assert.deepEqual([...one.errors, ...two.errors], []);
});

test("who comes too late sees who decided, and no key sends an answer", async () => {
  const call = await ask("delta");
  const { page } = await signIn(daemon, "person", `/inbox/${call.suspension!.suspensionId}`);
  await page.getByText('"delta"').first().waitFor();
  await page.keyboard.press("d");
  await page.keyboard.type("typed before");
  const operator = await signIn(daemon, "operator", `/inbox/${call.suspension!.suspensionId}`);
  await operator.page.getByText('"delta"').first().waitFor();
  await press(operator.page, "a", "y");
  await page.locator(".became", { hasText: "Decided by operator while you looked" }).waitFor();
  assert.match((await page.locator("#say-now").textContent())!, /Decided by operator/);
  await page.getByRole("region", { name: "Not sent" }).getByText("typed before", { exact: true }).waitFor(); // the typed text stays, but the form does not
  assert.equal(await page.locator(".pane.show").locator("input, textarea, .act, .due").count(), 0);
  await page.locator(".became").getByText("yes, as it was asked").waitFor();
  await row(page, "operator: yes").waitFor();
  await accessible(page);
});

test("several alike are reviewed together, one decision each", async () => {
  const many = ["one", "two", "three"];
  const calls = [];
  for (const target of many) calls.push(await ask(target, "run-many"));
  const { page, errors } = await signIn(daemon, "person", "/inbox");
  await page.locator(".alike", { hasText: "3 calls of deploy" }).getByText("alike and of low risk").waitFor();
  await ask("alone");
  await eventually(() => page.locator(".tk").count(), 4);
  for (const at of [0, 1]) {
    await page.goto(page.url().replace(/\/inbox.*/, `/inbox/${calls[at]!.suspension!.suspensionId}`));
    await row(page, "deploy").first().waitFor();
  }
  await page.getByRole("button", { name: "Review 3 alike" }).click(); // the ticket leads there, as the list does
  await page.getByRole("heading", { name: "3 calls of deploy" }).waitFor();
  for (const target of many) await page.getByText(`"${target}"`).waitFor();
  await picture(page, "inbox-together");
  await accessible(page);
  await narrow(page);
  await page.getByRole("checkbox").nth(2).uncheck();
  // Text that is typed outside of a field decides nothing.
  await page.keyboard.type("stay");
  assert.equal(await page.getByText("Run exactly these 2?").count(), 0);
  await press(page, "a");
  await page.getByText("Run exactly these 2?").waitFor();
  for (const c of calls.slice(0, 2)) assert.match((await page.locator(".digests").textContent())!, new RegExp(c.suspension!.digest.slice(0, 8)));
  await press(page, "y");
  await eventually(async () => deployed.filter((d) => many.includes(d)).sort(), ["one", "two"]);
  await eventually(() => page.locator(".tog").getByText("you: yes").count(), 2);
  assert.equal((await daemon.app.get(calls[2]!.callId)).suspension!.suspensionId, calls[2]!.suspension!.suspensionId);
  assert.deepEqual(errors, []);
});

test("questions are selected with x, but never others beside", async () => {
  const { page } = await signIn(daemon, "person", "/inbox");
  const calls = [await ask("five", "run-x"), await ask("six", "run-x")];
  const of = async (at: number) => {
    await page.locator(`#q-${calls[at]!.suspension!.suspensionId}`).click();
    await page.waitForURL(new RegExp(calls[at]!.suspension!.suspensionId));
  };
  await of(0);
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await of(1);
  await page.keyboard.press("x");
  await page.getByText("2 selected").waitFor();
  await page.keyboard.press("k");
  await page.keyboard.press("k");
  await page.keyboard.press("Escape");
  await page.getByText("2 selected").waitFor({ state: "hidden" });
});

test("no row moves under the pointer: not when a pair is answered, nor when a question comes, rows are selected, the list pauses or the daemon is lost", async () => {
  const first = await ask("first", "run-still-first"), pairOf = [await ask("left", "run-still-pair"), await ask("right", "run-still-pair")];
  await ask("below", "run-still-below");
  const { page, errors } = await signIn(daemon, "person", "/inbox?q=run-still");
  await page.locator(".tk").nth(3).waitFor();
  const tops = () => page.locator(".tk").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().top));
  const pair = page.locator(".alike", { hasText: "2 calls of deploy" });
  await pair.getByRole("button", { name: "Review together" }).hover();
  await page.keyboard.press("j"); // opens the first row
  await page.waitForURL(new RegExp(first.suspension!.suspensionId));
  await page.locator(".pane.show").getByText('"first"').first().waitFor();
  const before = await tops();
  // A new question arrives.
  const late = await ask("late", "run-still-late");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.deepEqual(await tops(), before);
  // The questions of the pair are settled one after the other.
  await daemon.app.cancel(pairOf[0]!.callId, "no");
  await pair.getByText("one still waits").waitFor();
  assert.equal(await pair.getByRole("button").count(), 0);
  assert.deepEqual(await tops(), before);
  await daemon.app.cancel(pairOf[1]!.callId, "no");
  await pair.getByText("none waits any more").waitFor();
  assert.deepEqual(await tops(), before);
  // The person selects rows, and the list pauses.
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  assert.deepEqual(await tops(), before);
  await page.keyboard.press("p");
  await page.getByRole("button", { name: "Paused: go on" }).waitFor();
  assert.deepEqual(await tops(), before);
  // The connection to the daemon is lost.
  const again = daemon.again();
  await page.locator(".banner", { hasText: "No connection to the daemon" }).waitFor();
  assert.deepEqual(await tops(), before);
  await picture(page, "inbox-lost");
  await narrow(page);
  await again;
  await page.locator(".banner", { hasText: "No connection to the daemon" }).waitFor({ state: "hidden" });
  assert.deepEqual(await tops(), before);
  await ready();
  await daemon.app.cancel(late.callId, "no");
  assert.deepEqual(errors, []);
});

test("a claim is seen by others, and handed over", async () => {
  const call = await ask("claimed"), path = `/inbox/${call.suspension!.suspensionId}`;
  const { page } = await signIn(daemon, "person", path), other = await signIn(daemon, "operator", path);
  await page.getByText('"claimed"').first().waitFor();
  await page.keyboard.press("c");
  await page.locator(".pbar").getByText("You look at it").waitFor();
  await other.page.locator(".pbar").getByText("person looks at it").waitFor();
  await page.keyboard.press("h");
  await page.getByLabel("Hand over to").fill("operator");
  await page.keyboard.press("Enter");
  await other.page.locator(".pbar").getByText("You look at it, handed over by person").waitFor();
  await page.locator(".pbar").getByText("operator looks at it").waitFor();
  await accessible(page);
});

test("the list survives kill -9 of the daemon", async () => {
  const { page, errors } = await signIn(daemon, "person", "/inbox");
  const call = await ask("before");
  await page.goto(page.url().replace(/\/inbox.*/, `/inbox/${call.suspension!.suspensionId}`));
  await page.getByText('"before"').first().waitFor();
  const rows = await page.locator(".tk").count();
  const again = daemon.again();
  await page.locator(".banner", { hasText: "No connection to the daemon" }).waitFor();
  await page.keyboard.press("a"); // the page sends no answer now
  assert.equal(await page.getByText("Run exactly this?").count(), 0);
  assert.equal(await page.locator(".tk").count(), rows); // the content stays
  await again;
  await page.locator(".banner", { hasText: "No connection to the daemon" }).waitFor({ state: "hidden" });
  await ready();
  await press(page, "a", "y");
  await row(page, "you: yes").waitFor();
  await eventually(async () => deployed.filter((d) => d === "before").length, 1);
  await ask("after");
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.deepEqual(errors, []);
});

test("a daemon that starts again between armed and sent gets no answer that was not armed again", async () => {
  const call = await ask("armed");
  const { page, errors } = await signIn(daemon, "person", `/inbox/${call.suspension!.suspensionId}`);
  await page.getByText('"armed"').first().waitFor();
  await page.keyboard.press("a");
  await page.getByText("Run exactly this?").waitFor();
  let sent = 0;
  page.on("request", (r) => r.url().endsWith("/ResumeTool") && sent++);
  const again = daemon.again();
  await page.getByText("Run exactly this?").waitFor({ state: "hidden" });
  await press(page, "y");
  await again;
  await page.locator(".banner", { hasText: "No connection to the daemon" }).waitFor({ state: "hidden" });
  await ready();
  await press(page, "y");
  assert.equal(sent, 0);
  await press(page, "a", "y");
  await row(page, "you: yes").waitFor();
  await eventually(async () => deployed.filter((d) => d === "armed").length, 1);
  assert.equal(sent, 1);
  assert.deepEqual(errors, []);
});

test("search and filters are in the address, and hostile text is text", async () => {
  const hostile = `<img src=x onerror="document.title='owned'">\u202egpj.exe\u001b[31m` + "A".repeat(200_000);
  await ask(hostile, "run-hostile");
  const { page, errors } = await signIn(daemon, "person", "/inbox?q=run-hostile&show=mine");
  await eventually(() => page.locator(".tk").count(), 1);
  await page.locator(".tk").click();
  await page.getByText("U+202E").first().waitFor();
  assert.equal(await page.locator("img").count(), 0);
  assert.match(page.url(), /\/inbox\/s-.*\?q=run-hostile&show=mine$/);
  await narrow(page);
  await accessible(page);
  await page.keyboard.press("/");
  await page.keyboard.type("zzz");
  await page.getByRole("heading", { name: "Nothing matches" }).waitFor();
  assert.deepEqual(errors, []);
});

test("the browser notifies of a new question only after the viewer asked for it", async () => {
  const { page } = await signIn(daemon, "person");
  await page.context().grantPermissions(["notifications"]);
  // The test cannot hide the page. So it makes the page report that it is hidden, and records the notifications.
  await page.addInitScript(() => {
    const w = window as unknown as { told: string[] };
    w.told = [];
    Object.defineProperty(document, "hidden", { get: () => true });
    window.Notification = class { static permission = "granted"; static requestPermission = async () => "granted"; constructor(title: string, o: { body: string }) { w.told.push(`${title}|${o.body}`); } } as unknown as typeof Notification;
  });
  await page.goto(new URL("/inbox", page.url()).href);
  const told = () => page.evaluate(() => (window as unknown as { told: string[] }).told);
  await row(page, "deploy").first().waitFor();
  await ask("quiet", "run-quiet");
  await page.getByText("run-quiet").or(page.locator(".newbar")).or(page.locator(".tk").nth(1)).first().waitFor();
  assert.deepEqual(await told(), []);
  await page.getByRole("button", { name: "Notify me" }).click();
  await page.getByRole("button", { name: "Notifies" }).waitFor();
  await ask("loud", "run-loud");
  await eventually(async () => (await told()).length, 1);
});

test("of many questions at most 100 rows are on the page, and all can be reached", async () => {
  await Promise.all(Array.from({ length: 150 }, (_, i) => ask(`many-${i}`, "run-of-many")));
  const { page, errors } = await signIn(daemon, "person", "/inbox?q=run-of-many");
  await eventually(() => page.locator(".tk").count(), 80);
  await page.getByRole("button", { name: "70 more" }).click();
  await page.getByRole("button", { name: "Show the first 80" }).waitFor();
  assert.ok((await page.locator(".tk").count()) <= 100);
  await page.locator(".tk").last().click();
  await page.locator(".pbar").getByText("150 of 150").waitFor();
  await page.getByText('"many-').first().waitFor();
  await page.getByRole("button", { name: "Show the first 80" }).click();
  assert.ok((await page.locator(".tk").count()) <= 100);
  assert.deepEqual(errors, []);
});

test("the inbox of many kinds", async () => {
  const { page } = await signIn(daemon, "operator", "/inbox");
  await page.locator(".tk").nth(3).waitFor();
  await picture(page, "inbox");
  await accessible(page);
  await narrow(page);
});
