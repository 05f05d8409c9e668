/** The questions that wait for the viewer. All screens share them, and they are updated live. */
import { create } from "@bufbuild/protobuf";
import { useSyncExternalStore } from "react";
import type { Call } from "../../gen/toold/v1/call_pb.ts";
import { type SettledQuestion, SettledQuestionSchema, Settlement } from "../../gen/toold/v1/call_service_pb.ts";
import type { TicketRights } from "../../gen/toold/v1/suspension_pb.ts";
import { calls } from "./clients.ts";
import { type Live, watchInbox } from "./live.ts";

export interface Question {
  /** Id of the suspension. */
  id: string;
  /** Contains only the fields that lists show. */
  call: Call;
  rights: TicketRights;
  /** Set when the question is settled and no longer waits. */
  settled?: SettledQuestion;
}

export interface Inbox {
  questions: ReadonlyMap<string, Question>;
  live: Live;
  /** True once the page has all questions that waited when it was opened. */
  complete: boolean;
  /** True when more questions wait than the page has. */
  more: boolean;
}

let inbox: Inbox = { questions: new Map(), live: { state: "connecting" }, complete: false, more: false };
const listeners = new Set<(before: Inbox) => void>();

/** How many settled questions are kept, for the lists that still show them. */
const mostSettled = 200;

const questions = new Map<string, Question>();
let next: Partial<Inbox> = {};
let timer: ReturnType<typeof setTimeout> | undefined;

/** Publishes changes at most once for each frame of the screen: a thousand questions may come at once. */
function set(change: Partial<Inbox>) {
  next = { ...next, ...change };
  timer ??= setTimeout(() => {
    timer = undefined;
    const settled = [...questions.values()].filter((q) => q.settled);
    for (const old of settled.slice(0, Math.max(0, settled.length - mostSettled))) questions.delete(old.id);
    const before = inbox;
    inbox = { ...inbox, ...next, questions: new Map(questions) };
    next = {};
    listeners.forEach((l) => l(before));
  }, 16);
}

function put(q: Question) {
  questions.delete(q.id); // re-inserted below, so that the newest is last
  questions.set(q.id, q);
  set({});
}

/** Asks who decided a question that was settled while there was no connection. */
async function learn({ callId, suspensionId }: SettledQuestion) {
  const { call } = await calls.getCall({ callId, readMask: { paths: ["status", "decisions"] } });
  const decision = call?.decisions.find((d) => d.suspensionId === suspensionId);
  const known = questions.get(suspensionId);
  if (!known || !call) return;
  put({ ...known, settled: create(SettledQuestionSchema, { callId, suspensionId, status: call.status, decision, settlement: decision ? Settlement.DECIDED : Settlement.CANCELLED }) });
}

/** Follows the inbox until the returned function is called. */
export function followInbox(): () => void {
  return watchInbox({
    live: (live) => set({ live }),
    inbox: (change) => {
      switch (change.case) {
        case "waiting":
          return put({ id: change.value.rights!.suspensionId, call: change.value.call!, rights: change.value.rights! });
        case "settled": {
          const known = questions.get(change.value.suspensionId);
          if (!known) return;
          put({ ...known, settled: change.value });
          if (change.value.settlement === Settlement.UNSPECIFIED) void learn(change.value).catch(() => {}); // the question stays settled, but its decider stays unknown
          return;
        }
        case "caughtUp":
          return set({ complete: true, more: change.value.more });
      }
    },
  });
}

/** Calls `changed` after each change, with the inbox before it. */
export function onInbox(changed: (before: Inbox) => void): () => void {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}

export const inboxNow = () => inbox;
export const useInbox = () => useSyncExternalStore(onInbox, inboxNow);
