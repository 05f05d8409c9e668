import { useQuery } from "@tanstack/react-query";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { calls } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";

/** Reports whether the namespace has no calls. Only viewers and operators see all calls, so it is false for other people. */
export function useFirstRun(on: boolean): boolean {
  const { has } = useSession();
  const { data } = useQuery({
    queryKey: ["first-run"],
    queryFn: async () => (await calls.listCalls({ pageSize: 1, readMask: { paths: ["call_id"] } })).calls.length === 0,
    enabled: on && has(Role.VIEWER, Role.OPERATOR),
    refetchInterval: ({ state }) => (state.data ? 5000 : false),
  });
  return on && data === true;
}
