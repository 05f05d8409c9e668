/** Counts the calls that have not ended. */
import { useQuery } from "@tanstack/react-query";
import { CallStatus } from "../../gen/toold/v1/call_pb.ts";
import { calls } from "./clients.ts";

export interface Counts {
  running: number;
  new: number;
  waiting: number;
  /** The waiting calls that are in doubt: it is not known whether they ran. */
  doubt: number;
  /** The real numbers may be larger than these counts. */
  atLeast: boolean;
}

/** Counts the calls that the viewer may see, every few seconds while the tab is visible. */
export function useCounts(): Counts | undefined {
  const { data } = useQuery({
    queryKey: ["counts"],
    queryFn: async ({ signal }): Promise<Counts> => {
      const { statuses, actions, atLeast } = await calls.countCalls({}, { signal });
      const of = (...wanted: CallStatus[]) => statuses.reduce((sum, s) => sum + (wanted.includes(s.status) ? Number(s.count) : 0), 0);
      return {
        running: of(CallStatus.RUNNING, CallStatus.RESUMING), new: of(CallStatus.NEW), waiting: of(CallStatus.SUSPENDED), atLeast,
        doubt: Number(actions.find((a) => a.action === "in_doubt")?.count ?? 0),
      };
    },
    refetchInterval: 3000,
    retry: false,
  });
  return data;
}
