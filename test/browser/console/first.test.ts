/** The first run: an empty console explains how to make a call, and then shows the call. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { test } from "node:test";
import { start, tokens } from "../daemon.ts";
import { accessible, narrow, picture, signIn } from "./console.ts";

const daemon = await start();

test("a copied command makes the first call appear", async () => {
  const { page, errors } = await signIn(daemon, "operator", "/inbox");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  await page.getByText("Listening.").waitFor();
  await page.getByRole("tab", { name: "grpcurl" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("tabpanel", { name: "curl" }).getByText("curl -H").waitFor();
  await accessible(page);
  await narrow(page);
  await picture(page, "first");
  await page.getByRole("button", { name: "Copy" }).first().click();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(command, /^toold --address \S+ call bash command='date > hello\.txt'$/);
  const call = execFile("/bin/sh", ["-c", command], { env: { PATH: `${dirname(process.env.TOOLD!)}:${process.env.PATH}`, TOOLD_TOKEN: tokens.operator } });
  await page.getByText("date > hello.txt").first().waitFor(); // without a reload
  await page.getByRole("heading", { name: "Nothing waits for you" }).waitFor({ state: "hidden" });
  call.kill();
  assert.deepEqual(errors, []);
});

test("an approver, who sees no other calls, is not told that there are none", async () => {
  const { page } = await signIn(daemon, "person", "/inbox");
  await page.getByText("date > hello.txt").first().waitFor();
  assert.equal(await page.getByText("Listening.").count(), 0);
});
