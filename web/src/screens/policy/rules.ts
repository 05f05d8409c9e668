/** Shared by the parts of the policy screen: words for actions, the edited text, and sums of a replay. */
import { useSyncExternalStore } from "react";
import { type ChangedCall, type GetPolicyResponse, type PolicyRule, type Replay, RuleAction } from "../../../gen/toold/v1/policy_pb.ts";
import { VerdictAction } from "../../../gen/toold/v1/call_pb.ts";
import { Tier } from "../../../gen/toold/v1/assessment_pb.ts";
import { DecisionAction } from "../../../gen/toold/v1/suspension_pb.ts";
import type { IconName } from "../../parts/Icon.tsx";

interface Look {
  word: string;
  tone: "ok" | "wait" | "fail" | "";
  icon: IconName;
}

const looks: Record<RuleAction, Look> = {
  [RuleAction.UNSPECIFIED]: { word: "unknown", tone: "", icon: "unknown" },
  [RuleAction.ALLOW]: { word: "allow", tone: "ok", icon: "ok" },
  [RuleAction.ASK]: { word: "ask", tone: "wait", icon: "wait" },
  [RuleAction.ASK_ALWAYS]: { word: "ask always", tone: "wait", icon: "lock" },
  [RuleAction.DENY]: { word: "deny", tone: "fail", icon: "deny" },
  [RuleAction.BLOCK]: { word: "block", tone: "fail", icon: "stop" },
};

export const look = (a: RuleAction) => looks[a] ?? looks[RuleAction.UNSPECIFIED];
export const tierName = (t: Tier) => (Tier[t] ?? "unknown").toLowerCase();
export const count = (n: number | bigint) => n.toLocaleString("en");

/** Says in one line to which calls a rule applies. */
export function scope(r: PolicyRule): string {
  const parts = [r.tools.join(", ")];
  if (r.when) parts.push(r.when.replace(/\s+/g, " "));
  if (r.callers.length) parts.push(`caller ${r.callers.join(", ")}`);
  if (r.tiers.length) parts.push(`tier ${r.tiers.map(tierName).join(", ")}`);
  if (r.sources.length) parts.push(`source ${r.sources.join(", ")}`);
  return parts.filter(Boolean).join(" · ");
}

/** Returns the id of a rule in the address of the policy screen. */
export const ruleID = (r: PolicyRule) => `${r.layer}:${r.line}`;

// The edited text. It stays while the viewer opens other parts of the screen. `undefined` means that nothing was edited.
let draft: string | undefined;
const watchers = new Set<() => void>();

export function useDraft(): [string | undefined, (text: string | undefined) => void] {
  const value = useSyncExternalStore(
    (c) => {
      watchers.add(c);
      return () => void watchers.delete(c);
    },
    () => draft,
  );
  const set = (text: string | undefined) => {
    draft = text;
    watchers.forEach((w) => w());
  };
  return [value, set];
}

/** Returns the text with which an edit starts. */
export const beginning = (p: GetPolicyResponse) => p.text ?? "rules:\n";

/** Counts the lines from the first to the last line that differs. */
export function linesChanged(a: string, b: string): number {
  const x = a.split("\n"), y = b.split("\n");
  let from = 0;
  while (from < x.length && from < y.length && x[from] === y[from]) from++;
  let same = 0;
  while (same < x.length - from && same < y.length - from && x[x.length - 1 - same] === y[y.length - 1 - same]) same++;
  return Math.max(x.length, y.length) - from - same;
}

/** The outcomes of calls, mildest first. */
export const outcomes = [
  { of: VerdictAction.ALLOW, total: "allowed", was: "was allowed", would: "would be allowed", name: "Allowed" },
  { of: VerdictAction.SUSPEND, total: "asked", was: "asked", would: "would ask", name: "Asked" },
  { of: VerdictAction.DENY, total: "refused", was: "was denied", would: "would be denied", name: "Denied" },
  { of: VerdictAction.BLOCK, total: "blocked", was: "was blocked", would: "would block its run", name: "Blocked" },
] as const;

/** Calls with the same tool, title and caller whose outcome changes in the same way. `calls` has the newest first. */
export interface Group {
  tool: string;
  title: string;
  caller: string;
  calls: ChangedCall[];
  yes: number;
  no: number;
}

/** Calls with the same outcome before the edit, and the same outcome after it. */
export interface Change {
  key: string;
  heading: string;
  count: number;
  yes: number;
  no: number;
  groups: Group[];
}

/** Groups the changed calls of a replay by outcomes, then by tool, title and caller. The largest groups come first. */
export function changesOf(r: Replay): Change[] {
  const changes = new Map<string, Change & { by: Map<string, Group> }>();
  for (const c of r.changed) {
    const from = outcomes.find((o) => o.of === c.before?.outcome), to = outcomes.find((o) => o.of === c.after?.outcome);
    const same = from === to;
    const heading = same ? `${from?.name ?? "Unknown"}, by ${look(c.after!.action).word} or other approvers` : `${from?.name ?? "Unknown"}, ${to?.would ?? "unknown"}`;
    const key = `${from?.of}-${to?.of}${same ? `-${c.after!.action}` : ""}`;
    let change = changes.get(key);
    if (!change) changes.set(key, (change = { key, heading, count: 0, yes: 0, no: 0, groups: [], by: new Map() }));
    const id = JSON.stringify([c.tool, c.title, c.caller]);
    let group = change.by.get(id);
    if (!group) {
      group = { tool: c.tool, title: c.title, caller: c.caller, calls: [], yes: 0, no: 0 };
      change.by.set(id, group);
      change.groups.push(group);
    }
    group.calls.push(c);
    change.count++;
    for (const g of [group, change]) {
      if (c.decided === DecisionAction.RESUME) g.yes++;
      if (c.decided === DecisionAction.CANCEL) g.no++;
    }
  }
  return [...changes.values()].map(({ by: _, ...c }) => ({ ...c, groups: c.groups.toSorted((a, b) => b.calls.length - a.calls.length) }));
}

/** Returns how many calls had the outcome `from` and would have the outcome `to`. */
export function moved(r: Replay, from: number, to: number): number {
  const changed = r.changed.filter((c) => c.before?.outcome === outcomes[from].of && c.after?.outcome !== c.before?.outcome);
  if (from === to) return (r.before?.[outcomes[from].total] ?? 0) - changed.length;
  return changed.filter((c) => c.after?.outcome === outcomes[to].of).length;
}
