/** The status of the daemon: problems, load, sources, workers, isolation. */
import { ConnectError } from "@connectrpc/connect";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Role } from "../../../gen/toold/v1/principal_pb.ts";
import { admin } from "../../api/clients.ts";
import { useSession } from "../../api/session.tsx";
import { useKeys } from "../../keys.ts";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow, toast } from "../../parts/say.ts";
import { Banner, Empty, Note } from "../../parts/small.tsx";
import { clock } from "../../parts/Time.tsx";
import { Load } from "./Load.tsx";
import { Daemon, Hooks, Isolation, Sources, Workers } from "./Lists.tsx";
import { Problems } from "./Problems.tsx";
import { mayLook, useProblems } from "./problems.ts";
import "./status.css";

export default function Status() {
  const session = useSession();
  const { data: problems } = useProblems(15_000);
  const { data: info = session.info, error } = useQuery({ queryKey: ["info"], queryFn: () => admin.getInfo({}), refetchInterval: 15_000 });
  if (!session.has(...mayLook)) {
    return (
      <>
        <header className="bar top">
          <h1>Status</h1>
        </header>
        <Empty title="You may not see the status">It needs the role operator, viewer or admin. Calls and Inbox show what is yours.</Empty>
        <div className="pad">
          <Daemon info={info} />
        </div>
      </>
    );
  }
  const n = problems?.problems.length ?? 0;
  return (
    <>
      <header className="bar top">
        <h1>Status</h1>
        {n > 0 && (
          <span className="st wait many">
            <Icon name="warn" small />
            {n === 1 ? "1 problem" : `${n} problems`}
          </span>
        )}
        {session.has(Role.ADMIN) && <Actions draining={info.draining} />}
      </header>
      {error && <Banner tone="wait">The daemon does not answer. What you see is from before.</Banner>}
      {info.draining && <Banner tone="wait">The daemon is stopping: new calls are refused, and running calls may end.</Banner>}
      <div className="body">
        <div className="pad stack stt">
          <Problems />
          {session.has(Role.ADMIN) ? <Load info={info} /> : <Note>The load is shown to admins, because it counts the calls of all namespaces.</Note>}
          <div className="cols2 c53">
            <div className="stack">
              <Sources />
              <Workers />
            </div>
            <div className="stack">
              <Isolation info={info} />
              <Hooks info={info} />
              <Daemon info={info} />
            </div>
          </div>
        </div>
      </div>
    </>
  );
}

/** The buttons for reload and drain. A drain ends the daemon, so it needs two steps. */
function Actions({ draining }: { draining: boolean }) {
  const queries = useQueryClient();
  const [armed, arm] = useState(false);
  useKeys({ escape: () => arm(false) }, armed);
  const failed = (e: unknown) => {
    const text = e instanceof ConnectError ? e.rawMessage : String(e);
    alertNow(text);
    toast(text);
  };
  const reload = useMutation({
    mutationFn: () => admin.reload({}),
    onSuccess: ({ changed, needsRestart }) => {
      toast(changed.length + needsRestart.length === 0 ? "Nothing has changed." : [changed.length > 0 && `Changed: ${changed.join(", ")}.`, needsRestart.length > 0 && `Needs a restart: ${needsRestart.join(", ")}.`].filter(Boolean).join(" "));
      void queries.invalidateQueries();
    },
    onError: failed,
  });
  const drain = useMutation({
    mutationFn: () => admin.drain({}),
    onSuccess: ({ deadline, running }) => {
      arm(false);
      toast(`The daemon stops. ${running} calls run, at most until ${deadline ? clock(timestampDate(deadline)) : "soon"}.`);
      void queries.invalidateQueries({ queryKey: ["info"] });
    },
    onError: failed,
  });
  return (
    <div className="right rowx">
      {armed ? (
        <>
          <span className="t2 wide">New calls are refused, and the daemon ends. It does not start again by itself.</span>
          <button className="btn" onClick={() => arm(false)}>Keep it running</button>
          <button className="btn bad" autoFocus disabled={drain.isPending} onClick={() => drain.mutate()}>End the daemon</button>
        </>
      ) : (
        <>
          <button className="btn" disabled={reload.isPending} onClick={() => reload.mutate()}>Reload rules</button>
          <button className="btn bad" disabled={draining} onClick={() => arm(true)}>Drain</button>
        </>
      )}
    </div>
  );
}
