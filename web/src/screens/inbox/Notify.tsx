/** Browser notifications about new questions. They need the consent of the viewer. */
import { useState } from "react";
import { inboxNow, onInbox, type Question } from "../../api/inbox.ts";
import { Icon } from "../../parts/Icon.tsx";
import { toast } from "../../parts/say.ts";
import { oneLine } from "../../parts/Text.tsx";
import { mayAnswer, title, who } from "./model.ts";

const key = "toold.notify";
const wanted = () => "Notification" in globalThis && Notification.permission === "granted" && localStorage.getItem(key) === "yes";

/** Notifies of new questions that the viewer may answer, while no tab is in front. The returned function stops it. */
export const notifyOfNew = () =>
  onInbox((before) => {
    const { questions, complete } = inboxNow();
    if (!before.complete || !complete || !document.hidden || !wanted()) return;
    for (const q of questions.values()) if (!q.settled && !before.questions.has(q.id) && mayAnswer(q)) notify(q);
  });

function notify(q: Question) {
  // All tabs use the same tag, so the browser shows one notification.
  const n = new Notification(oneLine(title(q), 120), { tag: q.id, body: oneLine(`${q.call.tool} · ${who(q.call)}`, 120) });
  n.onclick = () => {
    focus();
    history.pushState(null, "", `/inbox/${q.id}`);
    n.close();
  };
}

export function Notify() {
  const [on, set] = useState(wanted);
  if (!("Notification" in globalThis)) return null;
  const change = async () => {
    if (on) localStorage.removeItem(key);
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(key, "yes");
    else return toast("The browser does not allow notifications of this page.");
    set(wanted());
  };
  return (
    <button className="btn wide" aria-pressed={on} onClick={() => void change()}>
      <Icon name="info" small /> {on ? "Notifies" : "Notify me"}
    </button>
  );
}
