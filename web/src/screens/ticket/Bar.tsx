/** The bar with the buttons that decide. Its steps are rest, armed, declining and sent. One key alone never decides. */
import { useEffect, useState, type ReactNode } from "react";
import { RememberScope, type RememberOption, type TicketRights } from "../../../gen/toold/v1/suspension_pb.ts";
import { useKeys } from "../../keys.ts";
import { oneLine, Text } from "../../parts/Text.tsx";
import { useSteps } from "./steps.ts";

export interface Kept {
  option: string;
  scope: RememberScope;
  hours: number;
}

/** The texts of the buttons, and the functions that they call. */
export interface Words {
  act: string;
  question: ReactNode;
  yes: string;
  no: string;
  help: string;
}

interface Props {
  digest: string;
  rights: TicketRights;
  words: Words;
  options: RememberOption[];
  /** Why the viewer cannot say yes yet, such as a missing answer. */
  notYet?: string;
  editing: boolean;
  edit?: () => void;
  answering: boolean;
  /** Lets the viewer give a result in the tool's place. */
  instead?: () => void;
  sent: boolean;
  approve: (kept: Kept | undefined) => void;
  /** Undefined when one of the answers already ends the call. */
  decline?: (reason: string) => void;
  /** The typed reason. It stays when another person decides first. */
  reason: string;
  setReason: (text: string) => void;
}

const scopes: Partial<Record<RememberScope, string>> = { [RememberScope.RUN]: "this run", [RememberScope.THREAD]: "this thread", [RememberScope.NAMESPACE]: "everybody here" };
const ends: [hours: number, title: string][] = [[8, "8 h"], [24, "24 h"], [168, "7 days"], [720, "30 days"]];

export function Bar(p: Props) {
  const { step, setStep, alone, deliberate, held } = useSteps();
  const [option, setOption] = useState(0), [scope, setScope] = useState<RememberScope>(), [hours, setHours] = useState(24);
  const approve = p.rights.approve?.allowed ?? false, decline = (p.decline && p.rights.decline?.allowed) ?? false, may = approve && !p.notYet && !p.sent;
  const options = p.rights.remember?.allowed ? p.options.slice(0, 9) : [];
  const chosen = scope ?? p.rights.rememberScopes[0] ?? RememberScope.RUN;
  useEffect(() => void (step === "arm" && setStep("rest")), [p.digest, approve]); // disarms when the question changes; a typed reason stays
  useEffect(() => setStep("rest"), [p.sent]);
  const kept = () => (option > 0 && options[option - 1] ? { option: options[option - 1]!.option, scope: chosen, hours } : undefined);
  const yes = () => may && deliberate() && p.approve(kept());

  useKeys({ a: () => may && alone() && setStep("arm"), d: () => decline && !p.sent && alone() && setStep("no"), e: () => p.edit?.(), r: () => p.instead?.() }, step === "rest");
  useKeys({ escape: () => setStep("rest") }, step !== "rest");
  const keep = Object.fromEntries(options.map((_, i) => [String(i + 1), () => setOption(option === i + 1 ? 0 : i + 1)]));
  useKeys({ y: yes, ...keep }, step === "arm");

  if (step === "arm")
    return (
      <div className="act" role="group" aria-label="Decide" onKeyDown={held}>
        <div className="bar2 arm">
          <span className="grow">{p.words.question} <span className="t3 nowrap">asked as <code>{p.digest.slice(0, 8)}</code></span></span>
          {options.length === 0 ? <span className="t3 wide">It counts for this call only.</span> : (
            <>
              <label className="keep">
                <span className="t2">Keep the yes</span>
                <select className="inp auto" value={option} onChange={(e) => setOption(+e.target.value)}>
                  <option value={0}>no, only this call</option>
                  {options.map((o, i) => <option key={o.option} value={i + 1}>{oneLine(o.title || o.option, 80)} [{i + 1}]</option>)}
                </select>
              </label>
              {option > 0 && (
                <>
                  <label className="keep">
                    <span className="t2">for</span>
                    <select className="inp auto" value={chosen} onChange={(e) => setScope(+e.target.value)}>{p.rights.rememberScopes.map((s) => <option key={s} value={s}>{scopes[s]}</option>)}</select>
                  </label>
                  <label className="keep">
                    <span className="t2">until</span>
                    <select className="inp auto" value={hours} onChange={(e) => setHours(+e.target.value)}>{ends.map(([h, title]) => <option key={h} value={h}>{title} from now</option>)}</select>
                  </label>
                </>
              )}
            </>
          )}
          {option > 0 && options[option - 1] && <span className="t2 keeps">From then on this runs without a question: <b><Text most={300}>{options[option - 1]!.title || options[option - 1]!.option}</Text></b></span>}
          <span className="pair">
            <button className="btn lg" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
            <button className="btn lg go" autoFocus disabled={!may} onClick={yes}>{p.words.yes} <kbd>y</kbd></button>
          </span>
        </div>
      </div>
    );
  if (step === "no")
    return (
      <div className="act" role="group" aria-label="Decide" onKeyDown={held}>
        <form className="bar2 no" onSubmit={(e) => (e.preventDefault(), decline && deliberate() && p.decline!(p.reason))}>
          <label className="grow"><span className="nowrap">Reason</span><input className="inp" autoFocus maxLength={1000} value={p.reason} onChange={(e) => p.setReason(e.target.value)} placeholder="The model reads it: what would be right instead?" /></label>
          <span className="pair">
            <button className="btn lg" type="button" onClick={() => setStep("rest")}>Back <kbd>esc</kbd></button>
            <button className="btn lg bad" disabled={!decline}>Decline the call <kbd>enter</kbd></button>
          </span>
        </form>
      </div>
    );
  const why = !approve ? p.rights.approve?.message : p.notYet;
  return (
    <div className="act" role="group" aria-label="Decide" onKeyDown={held}>
      <div className="bar2">
        <button className="btn lg go" disabled={!may} onClick={() => setStep("arm")}>{!p.sent ? p.words.act : approve ? "Sending" : "Sent"} <kbd>a</kbd></button>
        {p.edit && <button className="btn lg" aria-pressed={p.editing} disabled={p.sent} onClick={p.edit}>Edit <kbd>e</kbd></button>}
        {p.instead && <button className="btn lg" aria-pressed={p.answering} disabled={p.sent} onClick={p.instead}>Give the result <kbd>r</kbd></button>}
        {p.decline && <button className="btn lg bad" disabled={!decline || p.sent} onClick={() => setStep("no")}>{p.words.no} <kbd>d</kbd></button>}
        {(why || p.words.help) && <span className={`help ${why ? "t2" : "t3"}`}><Text most={300}>{why || p.words.help}</Text></span>}
      </div>
    </div>
  );
}
