/** The question about one call: what would run, and the answer. */
import { ConnectError } from "@connectrpc/connect";
import { useRef, useState } from "react";
import type { Call } from "../../../gen/toold/v1/call_pb.ts";
import { DecisionAction, type TicketRights } from "../../../gen/toold/v1/suspension_pb.ts";
import { toFailure } from "../../api/errors.ts";
import { useKeys } from "../../keys.ts";
import { alertNow } from "../../parts/say.ts";
import { Note } from "../../parts/small.tsx";
import { Text } from "../../parts/Text.tsx";
import { Time } from "../../parts/Time.tsx";
import { decide } from "../inbox/decide.ts";

export interface TicketProps {
  /** Has an open question. */
  call: Call;
  rights: TicketRights;
  /** The daemon has stored the viewer's answer. */
  onDecided: () => void;
}

export function Ticket({ call, rights, onDecided }: TicketProps) {
  const s = call.suspension!;
  const [step, setStep] = useState<"rest" | "arm" | "no" | "sent">("rest");
  const [error, setError] = useState("");
  const reason = useRef<HTMLInputElement>(null);
  const ids = useRef<Record<string, string>>({});
  const send = async (action: DecisionAction) => {
    setStep("sent");
    try {
      await decide(call, { decisionId: (ids.current[action] ??= crypto.randomUUID()), action, reason: reason.current?.value ?? "" });
      onDecided();
    } catch (e) {
      const text = e instanceof ConnectError ? toFailure(e).message : String(e);
      setError(text);
      alertNow(`Your answer was not taken: ${text}`);
      setStep("rest");
    }
  };
  const approve = rights.approve?.allowed ?? false, decline = rights.decline?.allowed ?? false;
  useKeys({ a: () => approve && setStep("arm"), d: () => decline && setStep("no") }, step === "rest");
  useKeys({ escape: () => setStep("rest"), y: () => step === "arm" && approve && void send(DecisionAction.RESUME) }, step === "arm" || step === "no");
  return (
    <article className="ticket" aria-label="Ticket">
      <div className="in">
        <header className="th">
          <h1 tabIndex={-1}><Text most={200}>{call.description?.title || call.tool}</Text></h1>
          <p className="due"><b><Time at={s.expiresAt} /></b></p>
          <p className="sub"><code><Text most={64}>{call.tool}</Text></code></p>
        </header>
        <div className="ask">
          <q><Text>{s.message}</Text></q>
          {s.rule && <span className="t2">Gate <b><Text most={64}>{s.origin}</Text></b>, rule <Text most={128}>{s.rule}</Text></span>}
        </div>
        {error && <Note tone="fail" icon="fail">Your answer was not taken: {error}</Note>}
        <section className="sec">
          <header><h2>Arguments</h2></header>
          <div className="code"><pre><Text>{call.effectiveArguments}</Text></pre></div>
        </section>
        <dl className="facts"><dt>Digest</dt><dd><code>{s.digest}</code></dd></dl>
      </div>
      <div className="act" role="group" aria-label="Decide">
        {step === "arm" ? (
          <div className="bar2 arm">
            <span className="grow">Run exactly this? <code>{s.digest.slice(0, 8)}</code></span>
            <span className="pair">
              <button className="btn lg" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
              <button className="btn lg go" autoFocus disabled={!approve} onClick={() => void send(DecisionAction.RESUME)}>Yes, run it <kbd>y</kbd></button>
            </span>
          </div>
        ) : step === "no" ? (
          <form className="bar2 no" onSubmit={(e) => (e.preventDefault(), void send(DecisionAction.CANCEL))}>
            <label className="grow"><span className="nowrap">Reason</span><input className="inp" ref={reason} autoFocus maxLength={1000} placeholder="The model reads it: what would be right instead?" /></label>
            <span className="pair">
              <button className="btn lg" type="button" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
              <button className="btn lg bad" disabled={!decline}>Decline the call <kbd>enter</kbd></button>
            </span>
          </form>
        ) : (
          <div className="bar2">
            <button className="btn lg go" disabled={!approve || step === "sent"} onClick={() => setStep("arm")}>Approve <kbd>a</kbd></button>
            <button className="btn lg bad" disabled={!decline || step === "sent"} onClick={() => setStep("no")}>Decline <kbd>d</kbd></button>
            {!approve && <span className="t3">{rights.approve?.message}</span>}
          </div>
        )}
      </div>
    </article>
  );
}
