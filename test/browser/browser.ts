/** Debian's Chromium for the tests. CHROMIUM is its path. */
import { after } from "node:test";
import { chromium, type Page } from "playwright-core";

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
after(() => browser.close());

/** Returns a page in a new profile. `errors` contains the errors that the page throws. */
export async function open(): Promise<{ page: Page; errors: string[] }> {
  const context = await browser.newContext(), page = await context.newPage(), errors: string[] = [];
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (e) => errors.push(String(e)));
  return { page, errors };
}
