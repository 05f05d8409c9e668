/** Starts the console in Chromium, for its tests: signs people in, and makes checks that every screen must pass. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { open } from "../browser.ts";
import { tokens } from "../daemon.ts";

const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Returns a link that signs a person in. */
export const login = (daemon: { tcp: string }, who: keyof typeof tokens) => execFileSync(process.env.TOOLD!, ["login", "--address", daemon.tcp], { env: { ...process.env, TOOLD_TOKEN: tokens[who] }, encoding: "utf8" }).trim();

/** Signs a person in, in a new profile, and opens a page of the console. */
export async function signIn(daemon: { tcp: string }, who: keyof typeof tokens, path = "/") {
  const { page, errors } = await open();
  // A violation of the content security policy counts as an error of the page.
  page.on("console", (m) => void (m.type() === "error" && /Content Security Policy/.test(m.text()) && errors.push(m.text())));
  await page.goto(login(daemon, who));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Console" }).waitFor();
  const origin = new URL(page.url()).origin;
  if (path !== "/") await page.goto(origin + path);
  return { page, errors, origin };
}

/** Checks a page with axe-core in light and dark: it may have no serious and no critical violation. */
export async function accessible(page: Page) {
  for (const theme of ["light", "dark"]) {
    await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
    // The content security policy of the page does not apply to scripts that Playwright evaluates.
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate((await import("node:fs")).readFileSync(axePath, "utf8"));
    const found = await page.evaluate(async () => {
      const { violations } = await (window as unknown as { axe: { run: (c: Document, o: object) => Promise<{ violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[] }> } }).axe.run(document, { resultTypes: ["violations"] });
      return violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 200) + "\n" + n.failureSummary).slice(0, 3).join("\n")}`);
    });
    assert.deepEqual(found, [], `${page.url()} in ${theme}`);
  }
}

/** Checks that a page fits a window of 360 pixels: neither the page nor one of its panes scrolls sideways. */
export async function narrow(page: Page) {
  const size = page.viewportSize()!;
  await page.setViewportSize({ width: 360, height: 740 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, `${page.url()} is wider than 360 pixels`);
  const wide = await page.evaluate(() => [...document.querySelectorAll("main .body, main .pane")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => `${e.className}: ${e.scrollWidth}`));
  assert.deepEqual(wide, [], `${page.url()} has panes wider than 360 pixels`);
  await page.setViewportSize(size);
}

/** Saves pictures of a page in light and dark: bin/console/NAME-light.png and NAME-dark.png. */
export async function picture(page: Page, name: string) {
  const folder = `${import.meta.dirname}/../../../bin/console`;
  mkdirSync(folder, { recursive: true });
  for (const theme of ["light", "dark"]) {
    await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
    await page.screenshot({ path: `${folder}/${name}-${theme}.png` });
  }
}
