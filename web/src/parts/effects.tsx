/** The effects of a call, for every place that shows them. */
import { Mutability, Safety } from "../../gen/toold/v1/assessment_pb.ts";
import type { Call } from "../../gen/toold/v1/call_pb.ts";
import { IsolationLevel, NetworkMode } from "../../gen/toold/v1/isolation_pb.ts";
import type { IconName } from "./Icon.tsx";
import { Tag } from "./small.tsx";

export interface Mark {
  tone: "ok" | "fail" | "wait" | "doubt" | "run" | "line" | "";
  icon?: IconName;
  word: string;
}

const destroys: Mark = { tone: "fail", icon: "trash", word: "Destroys" };
const network: Mark = { tone: "wait", icon: "globe", word: "Network" };
const changes: Mark = { tone: "", icon: "edit", word: "Changes" };
const reads: Mark = { tone: "", icon: "eye", word: "Reads" };

/** Reports whether a call runs without network. If its isolation cannot be applied, the call does not run at all. */
export const offline = (call: Call) => call.isolation?.required === IsolationLevel.FULL && call.isolation.network === NetworkMode.NONE;

/** Returns the most severe effects that a call may have, as far as it was assessed. */
export function effectsOf(call: Call): Mark[] {
  const a = call.assessment;
  const out = [a?.safety === Safety.DESTRUCTIVE ? destroys : a?.mutability === Mutability.READ_ONLY ? reads : changes];
  if ((a?.safety === Safety.NETWORK || a?.openWorld) && !offline(call)) out.push(network);
  return out;
}

const ofPart: Partial<Record<Safety, Mark>> = { [Safety.READ_ONLY]: reads, [Safety.MUTATING]: changes, [Safety.NETWORK]: network, [Safety.DESTRUCTIVE]: destroys };

/** Returns the effect of a part of a command. */
export function effectOf(safety: Safety, unknown: boolean, call: Call): Mark | undefined {
  if (unknown) return { tone: "doubt", icon: "unknown", word: "Unknown" };
  return safety === Safety.NETWORK && offline(call) ? { tone: "", icon: "globe", word: "Needs network" } : ofPart[safety];
}

/** Reports whether the frontend of the run executes the tool. No other tools may have names with this prefix. */
export const isFrontend = (call: Call) => call.tool.startsWith("fe_");
export const frontend: Mark = { tone: "line", icon: "window", word: "Frontend" };

export const Marks = ({ of }: { of: Mark[] }) => of.map((m) => <Tag key={m.word} tone={m.tone} icon={m.icon}>{m.word}</Tag>);
