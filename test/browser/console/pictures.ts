/** Takes pictures of all screens with the calls of a day: node pictures.ts, with TOOLD. Not a test. */
import { test } from "node:test";
import { picture, signIn } from "./console.ts";
import { day } from "./day.ts";

const daemon = await day();

test("pictures", async () => {
  const { page, origin } = await signIn(daemon, "operator");
  await page.setViewportSize({ width: 1440, height: 900 });
  for (const [name, path] of [["inbox", "/inbox"], ["calls", "/calls"], ["call", `/calls/${daemon.waiting[2]}`], ["runs", "/runs"], ["run", "/runs/rel-2214"], ["tools", "/tools"], ["tool", "/tools/pay"], ["policy", "/policy"], ["audit", "/audit"], ["status", "/status"]] as const) {
    await page.goto(origin + path);
    await page.waitForTimeout(1500);
    await picture(page, name);
  }
});
