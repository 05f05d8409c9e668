/** Texts that screen readers read aloud, and short messages that everybody sees. The shell contains the regions for both. */

let heard = "";
let timer: ReturnType<typeof setTimeout> | undefined;

const region = (id: string) => document.getElementById(id);

/** Passes a text to screen readers (polite), at most every 5 seconds. Of several texts in that time, the last one counts. */
export function say(text: string) {
  heard = text;
  timer ??= setTimeout(() => {
    timer = undefined;
    const r = region("say");
    if (r) r.textContent = heard;
  }, 5000);
}

/** Passes a text to screen readers at once (assertive), such as a conflict. */
export function alertNow(text: string) {
  const r = region("say-now");
  if (r) r.textContent = text;
}

let hide: ReturnType<typeof setTimeout>;

/** Shows a short text over the page for 4 seconds. */
export function toast(text: string) {
  const r = region("toast");
  if (!r) return;
  r.textContent = text;
  r.hidden = false;
  clearTimeout(hide);
  hide = setTimeout(() => (r.hidden = true), 4000);
}
