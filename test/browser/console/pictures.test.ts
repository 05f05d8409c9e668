/** Takes pictures of all screens with the calls of a day. `make pictures` copies some of them to the README and the docs. */
import { test } from "node:test";
import { picture, signIn } from "./console.ts";
import { day } from "./day.ts";

const daemon = await day();

const ticketOf = async (call: string) => (await daemon.app.calls.getCall({ callId: call })).call!.suspension!.suspensionId;

test("pictures", async () => {
  const { page, origin } = await signIn(daemon, "operator");
  await page.setViewportSize({ width: 1440, height: 900 });
  for (const [name, path] of [["inbox", `/inbox/${await ticketOf(daemon.waiting[1]!)}`], ["command", `/inbox/${await ticketOf(daemon.waiting[2]!)}`], ["calls", "/calls"], ["call", `/calls/${daemon.waiting[2]}`], ["runs", "/runs"], ["run", "/runs/rel-2214"], ["tools", "/tools"], ["tool", "/tools/pay"], ["rules", "/policy"], ["policy", "/policy/replay"], ["audit", "/audit"], ["status", "/status"]] as const) {
    await page.goto(origin + path);
    await page.waitForTimeout(1500);
    await picture(page, name);
  }
});
