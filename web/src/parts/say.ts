/** What a screen reader hears, and the toast that others see. The regions are in the shell. */

let heard = "";
let timer: ReturnType<typeof setTimeout> | undefined;

const region = (id: string) => document.getElementById(id);

/** Says something politely, at most every 5 seconds: of several texts the last one counts. */
export function say(text: string) {
  heard = text;
  timer ??= setTimeout(() => {
    timer = undefined;
    const r = region("say");
    if (r) r.textContent = heard;
  }, 5000);
}

/** Says something at once, such as a conflict. */
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
