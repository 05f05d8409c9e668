/** The data that the list of the inbox shows of a question, and the questions that are alike. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { Settlement, type SettledQuestion } from "../../../gen/toold/v1/call_service_pb.ts";
import { Kind, Safety, Tier } from "../../../gen/toold/v1/assessment_pb.ts";
import { DecisionAction, type Claim } from "../../../gen/toold/v1/suspension_pb.ts";
import type { Question } from "../../api/inbox.ts";
import { effectsOf, frontend, isFrontend, type Mark } from "../../parts/effects.tsx";
import type { IconName } from "../../parts/Icon.tsx";

export type Group = "hour" | "later" | "others";
export const groups: { group: Group; title: string }[] = [
  { group: "hour", title: "Due within the hour" },
  { group: "later", title: "Later" },
  { group: "others", title: "Waits for others, not for you" },
];

const hour = 3_600_000;

/** Returns the time at which the question expires, in milliseconds since 1970. */
export const expiry = (q: Question) => (q.call.suspension?.expiresAt ? timestampMs(q.call.suspension.expiresAt) : Infinity);
const action = (q: Question) => q.call.suspension?.action ?? "";

/** The actions of questions that a program answers, not a person. */
const programs = new Set(["frontend", "subagent"]);

export function groupOf(q: Question, now: number): Group {
  if (programs.has(action(q)) || voted(q)) return "others";
  return expiry(q) - now < hour ? "hour" : "later";
}

/** The order of the list: questions that expire first come first. */
export const inOrder = (a: Question, b: Question) => expiry(a) - expiry(b) || (a.id < b.id ? -1 : 1);

/** Reports whether the viewer has voted. The question then waits for other people. */
export const voted = (q: Question) => q.rights.approve?.reason === "ALREADY_VOTED";

export const mayAnswer = (q: Question) => !!(q.rights.approve?.allowed || q.rights.decline?.allowed);

export function matches(q: Question, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  const { call } = q;
  return !wanted || [call.tool, title(q), call.suspension?.message, call.caller?.subject, call.run?.onBehalfOf, call.run?.runId].some((t) => t?.toLowerCase().includes(wanted));
}

/** Returns the title of an open question: what the call would do, or what is asked. */
export function titleOf(call: Call): string {
  const s = call.suspension, a = s?.action ?? "";
  const asks = a !== "approval" && a !== "in_doubt" && !programs.has(a);
  return (asks && s?.message) || s?.description?.title || call.description?.title || (a !== "approval" && s?.message) || call.tool;
}
export const title = (q: Question) => titleOf(q.call);

export function who(call: Call): string {
  const subject = call.caller?.subject ?? "";
  return call.run?.onBehalfOf ? `${subject} for ${call.run.onBehalfOf}` : subject;
}

/** Returns the second line: what runs, and who asks. When the title is only the name of the tool, this line also has the run, to distinguish calls. */
export function second(q: Question): string {
  const { call } = q;
  return title(q) === call.tool ? [who(call), call.run?.runId].filter(Boolean).join(" · ") : `${call.tool} · ${who(call)}`;
}

// A map and not an object, because a tool may name its action __proto__.
const byAction = new Map<string, IconName>([["in_doubt", "doubt"], ["input", "ask"], ["auth", "key"], ["frontend", "window"], ["subagent", "fork"]]);
const byKind: Partial<Record<Kind, IconName>> = { [Kind.EXECUTE]: "bash", [Kind.EDIT]: "edit", [Kind.DELETE]: "trash", [Kind.MOVE]: "file", [Kind.READ]: "eye", [Kind.SEARCH]: "search", [Kind.FETCH]: "globe" };

export const icon = (q: Question): IconName => byAction.get(action(q)) ?? (isFrontend(q.call) ? "window" : action(q) === "approval" ? (byKind[q.call.description?.kind ?? Kind.OTHER] ?? "tools") : "ask");

/** The kinds of questions other than approvals. A map and not an object, because a tool may name its action __proto__. */
export const kinds = new Map<string, Mark>([
  ["in_doubt", { tone: "doubt", icon: "doubt", word: "In doubt" }],
  ["auth", { tone: "run", icon: "key", word: "Sign-in" }],
  ["frontend", frontend],
  ["subagent", { tone: "line", icon: "fork", word: "Subagent" }],
]);

/** Returns what the list shows of a question before it is opened: the votes, the kind, or the effects. */
export function marks(q: Question): Mark[] {
  const s = q.call.suspension;
  const count = s?.approvers?.count ?? 0;
  if (count > 1) return [...(voted(q) ? [{ tone: "line", word: "You voted" } as const] : []), { tone: "run", word: `${s!.votes.length} of ${count} votes` }];
  if (action(q) !== "approval") return [kinds.get(action(q)) ?? { tone: "run", icon: "ask", word: "Question" }];
  if (isFrontend(q.call)) return [frontend];
  const out = effectsOf(q.call);
  return q.call.assessment?.tier === Tier.ESCALATE ? [...out, { tone: "wait", word: "Escalated" }] : out;
}

/** Returns the claim that is valid now. */
export function claimOf(q: Question, now: number): Claim | undefined {
  const c = q.call.suspension?.claim;
  return c?.until && timestampMs(c.until) > now ? c : undefined;
}

/** Says in a few words how a question was settled: `tam: yes`. */
export function outcome(s: SettledQuestion, me: string, approval = true): string {
  const by = s.decision?.decidedBy?.subject;
  const name = by === me ? "you" : by;
  switch (s.settlement) {
    case Settlement.DECIDED:
      return `${name ?? "decided"}: ${s.decision?.action === DecisionAction.CANCEL ? "no" : approval ? "yes" : "answered"}`;
    case Settlement.EXPIRED:
      return "expired";
    case Settlement.CANCELLED:
      return "cancelled";
  }
  return "no longer waits";
}

/**
 * Returns the kind of a question. Questions of the same kind may be answered together: approvals for one tool, caller and run, with low risk, that need
 * no typed answer and no votes. It returns undefined for every other question.
 */
export function kindOf(q: Question): string | undefined {
  const { call } = q, s = call.suspension, a = call.assessment;
  if (q.settled || !s || s.action !== "approval" || !q.rights.approve?.allowed || s.responseSchema || (s.approvers?.count ?? 0) > 1) return;
  if (!a || a.safety === Safety.DESTRUCTIVE || a.safety === Safety.NETWORK || a.openWorld || a.tier === Tier.ESCALATE || call.description?.kind === Kind.DELETE) return;
  return JSON.stringify([call.tool, call.caller?.subject, call.run?.onBehalfOf, call.run?.runId]);
}

/** Maximum number of questions that are answered together. It is small, because a person should read each one. */
export const mostTogether = 20;
