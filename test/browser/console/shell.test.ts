/** The frame of the console: sign-in, sign-out and keys. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { open } from "../browser.ts";
import { Client } from "toold";
import { start, tokens, tools } from "../daemon.ts";
import { accessible, login, narrow, picture, signIn } from "./console.ts";

const daemon = await start();
await tools(daemon.tcp, daemon.app);
// A question that `person` may answer and `app` may not see.
const operator = new Client(daemon.tcp, { token: tokens.operator });
after(() => operator.close());
const { callId: secret } = await operator.call("deploy", { target: "prod" }, { runId: "secret-run" });

test("a person who is not signed in is told how", async () => {
  const { page } = await open();
  await page.goto(`${daemon.http.replace("127.0.0.1", "localhost")}/inbox`);
  await page.getByText("toold login").waitFor();
  await accessible(page);
});

test("keys and the frame", async () => {
  const { page, errors } = await signIn(daemon, "person");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(page);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  await page.evaluate(() => dispatchEvent(new KeyboardEvent("keydown", { key: "G" }))); // caps lock is on
  await page.evaluate(() => dispatchEvent(new KeyboardEvent("keydown", { key: "C" })));
  await page.getByRole("heading", { name: "Calls", level: 1 }).waitFor();
  await narrow(page);
  await picture(page, "shell");
  assert.deepEqual(errors, []);
});

test("who signs out is signed out in every tab", async () => {
  const { page, origin } = await signIn(daemon, "person");
  const second = await page.context().newPage();
  await second.goto(origin);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("toold login").waitFor();
  await second.getByText("toold login").waitFor();
});

for (const out of [true, false]) {
  test(`another person who signs in ${out ? "after the first signed out" : "while the first is signed in"} gets nothing of the first`, async () => {
    const { page: inbox, errors, origin } = await signIn(daemon, "person", "/inbox");
    await inbox.getByText("secret-run").first().waitFor();
    const ticket = await inbox.context().newPage(), other = await inbox.context().newPage();
    await ticket.goto(`${origin}/calls/${secret}`);
    await ticket.getByText("secret-run").first().waitFor();
    // A tab that gets no message about the change in time keeps the streams of the first person open.
    const deaf = await inbox.context().newPage();
    await deaf.addInitScript(() => void (BroadcastChannel.prototype.addEventListener = () => {}));
    await deaf.goto(`${origin}/inbox`);
    await deaf.getByText("secret-run").first().waitFor();
    if (out) {
      await inbox.getByRole("button", { name: "Sign out" }).click();
      await ticket.getByText("toold login").waitFor();
    }
    // Records everything that the new tab shows from its first moment on.
    await other.addInitScript(() => {
      const w = window as unknown as { leaked: boolean };
      new MutationObserver(() => (w.leaked ||= document.body?.textContent?.includes("secret-run") ?? false)).observe(document, { childList: true, subtree: true, characterData: true });
    });
    await other.goto(login(daemon, "app"));
    await other.getByRole("button", { name: "Sign in" }).click();
    for (const tab of [other, inbox, ticket]) await tab.getByRole("navigation", { name: "Console" }).getByText("app · caller").waitFor();
    await ticket.getByText("There is no such call").waitFor();
    for (const tab of [other, inbox]) {
      await tab.getByText("Nothing waits for you").first().waitFor();
      assert.equal(await tab.getByText("secret-run").count(), 0);
    }
    assert.equal(await other.evaluate(() => "leaked" in window && window.leaked), false);
    assert.deepEqual(errors, []);
  });
}

test("the first page is small", async (t) => {
  const { page, origin } = await signIn(daemon, "person");
  const cold = await page.context().browser()!.newContext({ storageState: await page.context().storageState() });
  const first = await cold.newPage();
  await first.goto(`${origin}/inbox`);
  await first.getByRole("navigation", { name: "Console" }).waitFor();
  await first.screenshot(); // A page without a frame has not painted.
  await first.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  const { script, paint } = await first.evaluate(() => ({
    script: performance.getEntriesByType("resource").filter((r) => r.name.endsWith(".js")).reduce((sum, r) => sum + (r as PerformanceResourceTiming).encodedBodySize, 0),
    paint: performance.getEntriesByName("first-contentful-paint")[0]!.startTime,
  }));
  t.diagnostic(`${script} bytes of compressed script, first paint after ${Math.round(paint)} ms`);
  assert.ok(script > 100_000 && script <= 400_000, `${script} bytes of compressed script`);
  await cold.close();
});
