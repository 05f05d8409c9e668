import { retry, type Client } from "./client.js";
import type { Suspension } from "./types.js";

/** A positive answer. */
export interface Answer {
  /** The value that the question asks for. It must match the question's responseSchema. */
  result?: unknown;
  /** Arguments that replace those of the call. They are JSON text, because numbers of JavaScript are not exact. */
  arguments?: string;
  /** For the record. */
  reason?: string;
  /** Makes the answer valid for later calls too. `option` is one of the question's options. */
  remember?: { option: string; scope: `REMEMBER_SCOPE_${"RUN" | "THREAD" | "NAMESPACE"}`; until?: string };
}

/** A question as the page shows it. An answer is for this question only: if it has changed, the answer is refused. */
export interface Question {
  suspension: Suspension;
  /** Says yes. The promise resolves when the decision is stored, and rejects with a TooldError if it was refused. */
  answer(answer?: Answer): Promise<void>;
  /** Says no, and ends the call. The model reads the reason. */
  decline(reason?: string): Promise<void>;
}

/** Returns a question with its answers. */
export function ask(client: Client, suspension: Suspension): Question {
  const sent = new Map<string, Promise<void>>(); // a second click with the same content is the same decision
  const decide = (decision: object) => {
    const key = JSON.stringify(decision), earlier = sent.get(key);
    if (earlier) return earlier;
    const request = { suspensionId: suspension.suspensionId, callId: suspension.pending?.id, decision: { decisionId: newId(), expectedDigest: suspension.digest, ...decision } };
    const made = retry(() => client.first("ResumeTool", request));
    sent.set(key, made);
    made.catch(() => sent.delete(key));
    return made;
  };
  return {
    suspension,
    answer: ({ result, ...rest } = {}) => decide({ action: "DECISION_ACTION_RESUME", ...rest, ...(result !== undefined && { result: JSON.stringify(result) }) }),
    decline: (reason) => decide({ action: "DECISION_ACTION_CANCEL", reason }),
  };
}

/** crypto.randomUUID exists only on pages with TLS. */
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
