/** The facts of isolation in words, each with the mechanism that holds it or why it does not hold. */
import { type Isolation, NetworkMode } from "../../gen/toold/v1/isolation_pb.ts";
import { Icon } from "./Icon.tsx";
import { Text } from "./Text.tsx";

const fact: Record<string, [held: string, not: string]> = {
  fs_read: ["Reads: only what the workspace and the system allow", "Reads: every file that the daemon's user can read"],
  fs_write: ["Writes: the workspace only", "Writes: every file that the daemon's user can write"],
  ipc: ["Other programs: cannot be reached", "Other programs of the machine can be reached"],
  processes_killed: ["Processes: all end with the call", "Processes may outlive the call"],
  mem_limit: ["Memory: bounded", "Memory: no bound on this machine"],
  pids_limit: ["Number of processes: bounded", "Number of processes: no bound on this machine"],
  cpu_limit: ["Processor time: bounded", "Processor time: no bound on this machine"],
  disk_limit: ["Disk: bounded", "Disk: no bound on this machine"],
  separate_kernel: ["A kernel of its own", "Shares the machine's kernel"],
};
const nets: Partial<Record<NetworkMode, string>> = { [NetworkMode.NONE]: "Network: none", [NetworkMode.PROXY]: "Network: only where the proxy allows", [NetworkMode.OPEN]: "Network: everything that the machine can reach" };

export function IsolationFacts({ of }: { of: Isolation }) {
  return (
    <ul className="held">
      {of.facts.filter((f) => f.name !== "separate_kernel" || f.held).map((f) => {
        const text = f.name === "net" ? (f.held ? nets[of.network] : "Network: everything that the machine can reach") : fact[f.name]?.[f.held ? 0 : 1];
        return (
          <li key={f.name}>
            <Icon name={f.held ? "ok" : "deny"} small className={f.held ? "ok" : "fail"} />
            <span>{text ?? <><Text most={64}>{f.name}</Text>: {f.held ? "held" : "not held"}</>}</span>
            <span className="t3"><Text most={100}>{f.held ? f.mechanism : f.detail}</Text></span>
          </li>
        );
      })}
    </ul>
  );
}
