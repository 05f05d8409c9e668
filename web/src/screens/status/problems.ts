/** Reads the problems of the daemon, once for both the status screen and the number in the navigation. */
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { setBadge } from "../../parts/Shell.tsx";

/** The roles that may see the status. */
export const mayLook = [Role.OPERATOR, Role.VIEWER, Role.ADMIN];

/** Reads the problems every `interval` milliseconds while the tab is visible. */
export function useProblems(interval: number) {
  const { has } = useSession();
  return useQuery({ queryKey: ["problems"], queryFn: () => admin.listProblems({}), refetchInterval: interval, enabled: has(...mayLook) });
}

/** Shows the number of problems in the navigation. */
export function useProblemsBadge() {
  const { data } = useProblems(60_000);
  const n = (data?.problems.length ?? 0) + (data?.leftOut ?? 0);
  useEffect(() => setBadge("/status", n ? String(n) : "", true), [n]);
}
