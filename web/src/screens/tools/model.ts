/** The data of the tools screen, and words for it. */
import { clone, create, toJson } from "@bufbuild/protobuf";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { JudgedDefinition, QuarantinedTool } from "../../../gen/toold/v1/admin_service_pb.ts";
import { type Assessment, AssessmentSchema, Mutability, Safety, Tier } from "../../../gen/toold/v1/assessment_pb.ts";
import { NetworkMode } from "../../../gen/toold/v1/isolation_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { type Source, SourceState } from "../../../gen/toold/v1/source_pb.ts";
import { type Descriptor, DescriptorSchema, type ToolCalls } from "../../../gen/toold/v1/tool_service_pb.ts";
import { admin, tools } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import type { Part } from "../../parts/Diff.tsx";
import type { IconName } from "../../parts/Icon.tsx";
import { indent } from "../../parts/json.ts";
import { countUnseen } from "../../parts/Text.tsx";

const again = 15_000;

interface Catalogue {
  tools: Descriptor[];
  revision: string;
}

/** The tools that the viewer sees. They are read again only when the list has changed. */
export function useCatalogue() {
  const client = useQueryClient();
  return useQuery({
    queryKey: ["tools"],
    refetchInterval: (q) => (q.state.fetchFailureCount > 0 || q.state.error ? 2000 : again),
    queryFn: async (): Promise<Catalogue> => {
      const old = client.getQueryData<Catalogue>(["tools"]);
      const all: Descriptor[] = [];
      let revision = "", pageToken = "";
      do {
        const page = await tools.listTools({ pageSize: 200, pageToken, ifRevision: pageToken ? "" : (old?.revision ?? "") });
        if (page.notModified && old) return old;
        revision ||= page.revision;
        all.push(...page.tools);
        pageToken = page.nextPageToken;
      } while (pageToken);
      return { tools: all, revision };
    },
  });
}

export function useSources() {
  const { has } = useSession();
  return useQuery({ queryKey: ["sources"], enabled: has(Role.OPERATOR, Role.VIEWER, Role.ADMIN), refetchInterval: again, queryFn: async () => (await admin.listSources({})).sources });
}

/** Counts the calls of each tool among the newest calls that the viewer may see. */
export function useToolCalls() {
  const { has } = useSession();
  return useQuery({
    queryKey: ["tool-calls"],
    enabled: has(Role.CALLER, Role.DELEGATE, Role.APPROVER, Role.VIEWER, Role.OPERATOR),
    refetchInterval: 60_000,
    queryFn: async () => {
      const got = await tools.countToolCalls({});
      return { ...got, of: new Map(got.tools.map((t): [string, ToolCalls] => [t.tool, t])) };
    },
  });
}

/** Reads the newest judgements on the definitions of a tool, at least 50 if there are as many. */
export function useDefinitions(tool: string) {
  const { has } = useSession();
  return useQuery({
    queryKey: ["definitions", tool],
    enabled: has(Role.APPROVER, Role.VIEWER, Role.OPERATOR, Role.ADMIN),
    queryFn: async () => {
      const all: JudgedDefinition[] = [];
      let pageToken = "";
      do {
        const page = await admin.listDefinitions({ tool, pageToken });
        all.push(...page.definitions);
        pageToken = page.nextPageToken;
      } while (pageToken && all.length < 50);
      return { all, more: pageToken !== "" };
    },
  });
}

export const short = (digest: string) => (digest.length > 12 ? `${digest.slice(0, 4)}…${digest.slice(-4)}` : digest);

export interface Effect {
  word: string;
  tone: "" | "fail" | "wait";
  icon?: IconName;
}

/** The effects of a tool in words. */
export function effectsOf(d: Descriptor): Effect[] {
  const e = d.effects;
  const out: Effect[] = [];
  if (e?.safety === Safety.DESTRUCTIVE) out.push({ word: "Destroys", tone: "fail", icon: "trash" });
  else out.push({ word: e?.mutability === Mutability.READ_ONLY ? "Reads" : "Changes", tone: "" });
  if (e?.safety === Safety.NETWORK || e?.openWorld || d.requiredNetwork === NetworkMode.PROXY || d.requiredNetwork === NetworkMode.OPEN) out.push({ word: "Network", tone: "wait", icon: "globe" });
  return out;
}

export const tierWord = (t: Tier | undefined) => ({ [Tier.UNSPECIFIED]: "confirm", [Tier.OBSERVE]: "observe", [Tier.CONFIRM]: "confirm", [Tier.ESCALATE]: "escalate" })[t ?? Tier.UNSPECIFIED] ?? "unknown";

export function sourceState(s: Source | undefined): Effect | undefined {
  if (s?.state === SourceState.DOWN) return { word: "down", tone: "fail", icon: "fail" };
  if (s?.state === SourceState.CONNECTING) return { word: "connecting", tone: "wait", icon: "wait" };
}

/** Returns the parts of a descriptor. The texts that models read come first, unchanged. */
export function partsOf(d: Descriptor | undefined): [string, string][] {
  if (!d) return [];
  const rest = clone(DescriptorSchema, d);
  const effects = (a: Assessment | undefined) => (a ? JSON.stringify(toJson(AssessmentSchema, a), null, 2) : "");
  const parts: [string, string][] = [
    ["description", d.description], ["guidance", d.guidance], ["parameters", indent(d.parameters)], ["result schema", d.resultSchema && indent(d.resultSchema)],
    ["effects", effects(d.effects)], ["mildest effects", effects(d.mildest)],
  ];
  Object.assign(rest, { description: "", guidance: "", parameters: "", resultSchema: "", effects: undefined, mildest: undefined, digest: "" });
  // Sorts members, because the JSON of protobuf maps has no fixed order.
  const sorted = (v: unknown): unknown => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, x]) => [k, sorted(x)])) : v);
  return [...parts, ["everything else", JSON.stringify(sorted(toJson(DescriptorSchema, rest)), null, 2)]];
}

/** Compares two definitions. The members in the texts of the schemas keep their order. */
export function differences(before: Descriptor | undefined, after: Descriptor | undefined): Part[] {
  const old = new Map(partsOf(before)), now = new Map(partsOf(after));
  return [...new Set([...now.keys(), ...old.keys()])].map((title) => ({ title, before: old.get(title) ?? "", after: now.get(title) ?? "" })).filter((p) => p.before !== p.after);
}

/** What is suspicious about a changed definition. `milder` has a phrase for each effect that became milder. */
export interface Suspicion {
  milder: string[];
  /** Names of other tools that occur only in the new texts. */
  names: string[];
  /** Number of invisible characters that the new definition adds. */
  unseen: number;
}

const weight: Record<Safety, number> = { [Safety.UNSPECIFIED]: 1, [Safety.READ_ONLY]: 0, [Safety.MUTATING]: 1, [Safety.NETWORK]: 2, [Safety.DESTRUCTIVE]: 3 };

function milder(before: Assessment, after: Assessment): string[] {
  const out: string[] = [];
  if (before.mutability === Mutability.MUTATING && after.mutability === Mutability.READ_ONLY) out.push("changes became reads");
  else if (weight[after.safety] < weight[before.safety]) out.push(`${Safety[before.safety]} became ${Safety[after.safety]}`.replace("_", " "));
  if (after.tier < before.tier) out.push(`the tier ${tierWord(before.tier)} became ${tierWord(after.tier)}`);
  if (before.openWorld && !after.openWorld) out.push("other systems are no longer named");
  return out;
}

const textOf = (d: Descriptor) => [d.displayName, d.description, d.guidance, d.parameters, d.resultSchema].join("\n");
const everything = (d: Descriptor) => partsOf(d).map(([, text]) => text).join("\n");

export function suspicionOf(q: QuarantinedTool, ids: string[]): Suspicion {
  const { trusted, waiting } = q;
  if (!trusted || !waiting) return { milder: [], names: [], unseen: 0 };
  const blank = create(AssessmentSchema, { mutability: Mutability.MUTATING, safety: Safety.MUTATING, tier: Tier.CONFIRM });
  const mild = trusted.effects ? milder(trusted.effects, waiting.effects ?? blank) : [];
  if (trusted.mildest || waiting.mildest) mild.push(...milder(trusted.mildest ?? trusted.effects ?? blank, waiting.mildest ?? waiting.effects ?? blank).filter((m) => !mild.includes(m)).map((m) => `at the mildest, ${m}`));
  if (trusted.idempotent !== waiting.idempotent && waiting.idempotent) mild.push("it may run again after a crash");
  const old = textOf(trusted), now = textOf(waiting);
  const has = (text: string, id: string) => new RegExp(`(?<![\\w-])${id}(?![\\w-])`).test(text); // Ids have only letters, digits, "_" and "-".
  return { milder: mild, names: ids.filter((id) => id !== waiting.id && has(now, id) && !has(old, id)).slice(0, 5), unseen: Math.max(0, countUnseen(everything(waiting)) - countUnseen(everything(trusted))) };
}
