/** The session of the person who is signed in. */
import { Code, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@tanstack/react-query";
import { createContext, useContext, useEffect, type ReactNode } from "react";
import type { GetInfoResponse } from "../../gen/toold/v1/admin_service_pb.ts";
import type { WhoAmIResponse } from "../../gen/toold/v1/call_service_pb.ts";
import { Role } from "../../gen/toold/v1/principal_pb.ts";
import { Failure, Skeleton } from "../parts/small.tsx";
import { admin, calls } from "./clients.ts";
import { connect } from "./live.ts";

export interface Session {
  me: WhoAmIResponse;
  info: GetInfoResponse;
  /** Reports whether the viewer has one of the roles. It only decides what the page offers: the daemon checks each request. */
  has: (...roles: Role[]) => boolean;
}

const Context = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const s = useContext(Context);
  if (!s) throw new Error("no session");
  return s;
}

/** Sends a message to all tabs when a person signs in or out. The page that signs in sends to it, too. */
const tabs = new BroadcastChannel("toold");
let subject: string | undefined;

/** Reads who is signed in. When another person has signed in, the page is loaded again, so that it shows nothing of the first person. */
async function readSession() {
  const me = await calls.whoAmI({}), info = await admin.getInfo({});
  const now = `${info.namespace} ${me.principal?.subject}`;
  if (subject !== undefined && subject !== now) {
    location.reload();
    return new Promise<never>(() => {});
  }
  subject = now;
  connect(now);
  return { me, info };
}

export async function signOut() {
  await fetch("/logout", { method: "POST" });
  tabs.postMessage("signed out");
  location.reload();
}

/** Shows its children to a person who is signed in. */
export function SignedIn({ children }: { children: ReactNode }) {
  const { data, error, refetch } = useQuery({
    queryKey: ["session"],
    queryFn: readSession,
    retry: (n, e) => n < 3 && !signedOut(e),
    staleTime: 60_000,
    refetchInterval: 300_000,
  });
  useEffect(() => {
    const read = () => void refetch();
    tabs.addEventListener("message", read);
    return () => tabs.removeEventListener("message", read);
  }, [refetch]);
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
