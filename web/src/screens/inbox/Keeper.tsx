/** Follows the inbox on every screen. It updates the number in the navigation, sends notifications, and passes texts to screen readers. */
import { useEffect } from "react";
import { followInbox, inboxNow, onInbox } from "../../api/inbox.ts";
import { say } from "../../parts/say.ts";
import { setBadge, setLive } from "../../parts/Shell.tsx";
import { notifyOfNew } from "./Notify.tsx";

export function Keeper() {
  useEffect(() => {
    const stops = [followInbox(), notifyOfNew(), onInbox(show)];
    return () => stops.forEach((stop) => stop());
  }, []);
  return null;
}

let count = 0;

function show() {
  const { questions, more, live, complete } = inboxNow();
  if (!complete) return;
  setLive(live.state === "live");
  const waiting = [...questions.values()].filter((q) => !q.settled).length;
  if (waiting === count) return;
  count = waiting;
  setBadge("/inbox", waiting ? `${waiting}${more ? "+" : ""}` : "", true);
  say(waiting === 1 ? "1 question waits." : `${waiting} questions wait.`);
}
