/** The list of problems, and what to do about them. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { type Problem, ProblemSeverity } from "../../../gen/toold/v1/status_pb.ts";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow, toast } from "../../parts/say.ts";
import { Copy, Failure, Note, Skeleton } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { ConnectError } from "@connectrpc/connect";
import { useProblems } from "./problems.ts";

/** Pages of the console that help with a problem. */
const pages: Record<string, { to: string; text: string }> = {
  AUDIT_BROKEN: { to: "/audit", text: "the chain" },
  CALLS_HELD: { to: "/calls", text: "the calls" },
  SLOTS_BUSY: { to: "/calls?status=running", text: "the running calls" },
  TOOL_QUARANTINED: { to: "/tools", text: "the difference" },
};

/** Makes the daemon connect to a source at once. */
export function useRetry() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (name: string) => admin.retrySource({ name }),
    onSuccess: () => {
      toast("The daemon connects again.");
      void queries.invalidateQueries({ queryKey: ["sources"] });
      setTimeout(() => void queries.invalidateQueries({ queryKey: ["problems"] }), 1500);
    },
    onError: (e) => {
      const text = e instanceof ConnectError ? e.rawMessage : String(e);
      alertNow(text);
      toast(text);
    },
  });
}

export function Problems() {
  const { data, error, refetch } = useProblems(15_000);
  if (!data) return error ? <Failure error={error} what="The problems were not read." again={() => void refetch()} /> : <Skeleton rows={2} />;
  if (data.problems.length === 0) {
    return (
      <Note tone="ok" icon="ok">
        Nothing is wrong.
      </Note>
    );
  }
  return (
    <section className="sec">
      <h2>What is wrong, and what to do</h2>
      <ul className="stack tight">
        {data.problems.map((p) => (
          <One key={p.code + p.subject} problem={p} />
        ))}
      </ul>
      {data.leftOut > 0 && <p className="t3">{data.leftOut} more problems of these kinds are not shown.</p>}
    </section>
  );
}

function One({ problem: p }: { problem: Problem }) {
  const { has } = useSession();
  const retry = useRetry();
  const error = p.severity === ProblemSeverity.ERROR;
  const page = pages[p.code];
  return (
    <li className={`prob ${error ? "fail" : "wait"}`}>
      <Icon name={error ? "deny" : "warn"} />
      <b>
        <span className="sr">{error ? "Error: " : "Warning: "}</span>
        <Text most={500}>{p.text}</Text>
      </b>
      {p.since && <Time at={p.since} />}
      {p.detail && (
        <p>
          <code className="detail">
            <Text most={500}>{p.detail}</Text>
          </code>
        </p>
      )}
      <div className="do">
        <span className="t3">Do</span>
        <span>
          <Text most={1000}>{p.remedy}</Text>
        </span>
        {p.command && (
          <>
            <code className="cmdx">
              <Text most={300}>{p.command}</Text>
            </code>
            <Copy text={p.command} />
          </>
        )}
        {p.code === "SOURCE_DOWN" && has(Role.OPERATOR, Role.ADMIN) && (
          <button className="btn sm" disabled={retry.isPending} onClick={() => retry.mutate(p.subject)}>
            Try now
          </button>
        )}
        {page && <Link href={page.to}>{page.text}</Link>}
      </div>
    </li>
  );
}
