/** Who is signed in. */
import { Code, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { createContext, useContext, type ReactNode } from "react";
import type { GetInfoResponse } from "../../gen/toold/v1/admin_service_pb.ts";
import type { WhoAmIResponse } from "../../gen/toold/v1/call_service_pb.ts";
import { Role } from "../../gen/toold/v1/principal_pb.ts";
import { Failure, Skeleton } from "../parts/small.tsx";
import { admin, calls } from "./clients.ts";

export interface Session {
  me: WhoAmIResponse;
  info: GetInfoResponse;
  /** Reports whether the viewer has one of the roles. The daemon decides; this only says what to offer. */
  has: (...roles: Role[]) => boolean;
}

const Context = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const s = useContext(Context);
  if (!s) throw new Error("no session");
  return s;
}

/** Shows its children to a person who is signed in. */
export function SignedIn({ children }: { children: ReactNode }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["session"],
    queryFn: async () => ({ me: await calls.whoAmI({}), info: await admin.getInfo({}) }),
    retry: (n, e) => n < 3 && !signedOut(e),
    staleTime: 60_000,
    refetchInterval: 300_000,
  });
  if (signedOut(error)) return <SignIn />;
  if (!data) return error ? <Failure error={error} what="The daemon did not answer. Nothing was changed." again={() => void refetch()} /> : <Skeleton />;
  const roles = data.me.principal?.roles ?? [];
  return <Context value={{ ...data, has: (...wanted) => wanted.some((r) => roles.includes(r)) }}>{children}</Context>;
}

export const signedOut = (e: unknown) => e instanceof ConnectError && (e.code === Code.Unauthenticated || (e.code === Code.PermissionDenied && e.rawMessage.includes("toold login")));

function SignIn() {
  return (
    <main className="first" id="main">
      <h1>Sign in</h1>
      <p>
        Run <code>toold login</code> on the daemon’s machine, or wherever <code>toold</code> has a token, and open the link that it prints. The link works once.
      </p>
    </main>
  );
}
