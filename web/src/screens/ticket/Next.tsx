/** Says what the viewer has to do next, when a yes alone is not enough. */
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { DecisionAction, type TicketRights } from "../../../gen/toold/v1/suspension_pb.ts";
import { useSession } from "../../api/session.tsx";
import { isFrontend } from "../../parts/effects.tsx";
import { Copy, Note } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";

export function Next({ call, rights }: { call: Call; rights: TicketRights }) {
  const s = call.suspension!;
  if (s.action === "frontend") return <Note icon="window">The frontend of the run does this and answers. There is nothing for you to do; stopping ends the call.</Note>;
  if (s.action === "subagent") return <Note icon="fork">A call of a subagent waits. Its own question is in the inbox, and this call continues when that one is answered.</Note>;
  if ((s.approvers?.count ?? 1) > 1) return <NextVote call={call} rights={rights} />;
  if (isFrontend(call)) return <Note icon="window">After a yes, the frontend of the run does this and answers.</Note>;
  return null;
}

function NextVote({ call, rights }: { call: Call; rights: TicketRights }) {
  const { me } = useSession();
  const s = call.suspension!, needed = s.approvers!.count;
  const yes = s.votes.filter((v) => v.action === DecisionAction.RESUME), others = yes.filter((v) => v.voter?.subject !== me.principal?.subject);
  if (others.length < yes.length)
    return (
      <Note tone="ok" icon="ok">
        <div className="rowx">
          <span className="grow"><b>You have voted. There is nothing more for you to do.</b> {needed - yes.length === 1 ? "One more person has" : `${needed - yes.length} more people have`} to send the same yes: send an approver the link.</span>
          <Copy text={location.href} label="Copy the link" />
        </div>
      </Note>
    );
  if (!rights.approve?.allowed) return null; // the bar shows the reason
  const edit = others.find((v) => v.edited);
  return (
    <Note tone="run">
      {others.length === 0
        ? <><b>{needed} people have to agree. Your yes is the first vote.</b> Then another approver votes, and the tool runs after the last yes.</>
        : edit
          ? <><b><Text most={128}>{edit.voter?.subject ?? ""}</Text> votes for other arguments.</b> Look at them under Votes. To agree, vote for them there.</>
          : <><b>{others.map((v, i) => <span key={v.decisionId}>{i > 0 && ", "}<Text most={128}>{v.voter?.subject ?? ""}</Text></span>)} said yes.</b> Look for yourself: {others.length + 1 >= needed ? "with your yes the tool runs." : "more votes are needed after yours."}</>}
    </Note>
  );
}
