/** Reads the tools in quarantine, and shows their number in the navigation of every screen. */
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { QuarantinedTool } from "../../../gen/toold/v1/admin_service_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { setBadge } from "../../parts/Shell.tsx";

/** The tools in quarantine, for viewers that may see them. */
export function useQuarantine() {
  const { has } = useSession();
  return useQuery({
    queryKey: ["quarantine"],
    enabled: has(Role.OPERATOR, Role.ADMIN),
    refetchInterval: 15_000,
    queryFn: async () => {
      const all: QuarantinedTool[] = [];
      let pageToken = "";
      do {
        const page = await admin.listQuarantinedTools({ pageToken });
        all.push(...page.tools);
        pageToken = page.nextPageToken;
      } while (pageToken);
      return all;
    },
  });
}

/** Shows the number of waiting definitions beside "Tools" in the navigation. */
export function QuarantineKeeper() {
  const { data } = useQuarantine();
  const open = data?.filter((q) => !q.refusedAt).length ?? 0;
  useEffect(() => setBadge("/tools", open ? `${open} held` : ""), [open]);
  return null;
}
