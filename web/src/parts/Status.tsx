/** Shows the status of a call as shape, word and colour. */
import { type Call, CallStatus, Executed } from "../../gen/toold/v1/call_pb.ts";
import { ErrorCode } from "../../gen/toold/v1/result_pb.ts";
import { Icon, type IconName } from "./Icon.tsx";

export interface Shown {
  tone: "ok" | "fail" | "wait" | "doubt" | "run" | "none";
  icon: IconName;
  word: string;
}

const byStatus: Record<CallStatus, Shown> = {
  [CallStatus.UNSPECIFIED]: { tone: "none", icon: "unknown", word: "Unknown" },
  [CallStatus.NEW]: { tone: "none", icon: "new", word: "New" },
  [CallStatus.RUNNING]: { tone: "run", icon: "run", word: "Running" },
  [CallStatus.SUSPENDED]: { tone: "wait", icon: "wait", word: "Waiting" },
  [CallStatus.RESUMING]: { tone: "run", icon: "resume", word: "Resuming" },
  [CallStatus.SUCCEEDED]: { tone: "ok", icon: "ok", word: "Succeeded" },
  [CallStatus.FAILED]: { tone: "fail", icon: "fail", word: "Failed" },
  [CallStatus.CANCELLED]: { tone: "none", icon: "cancel", word: "Cancelled" },
};

/** Returns how to show a call. Calls in doubt and denied calls have FAILED as their status, but look different. */
export function shown(call: Pick<Call, "status" | "executed" | "result">): Shown {
  const code = call.result?.error?.code;
  if (code === ErrorCode.IN_DOUBT || (call.status === CallStatus.FAILED && call.executed === Executed.UNKNOWN)) return { tone: "doubt", icon: "doubt", word: "In doubt" };
  if (code === ErrorCode.DENIED) return { tone: "fail", icon: "deny", word: "Denied" };
  return byStatus[call.status] ?? byStatus[CallStatus.UNSPECIFIED];
}

export function Status({ call }: { call: Pick<Call, "status" | "executed" | "result"> }) {
  const { tone, icon, word } = shown(call);
  return (
    <span className={`st ${tone}`}>
      <Icon name={icon} small className={call.status === CallStatus.RUNNING ? "spin " : ""} />
      {word}
    </span>
  );
}
