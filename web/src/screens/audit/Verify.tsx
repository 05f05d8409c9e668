/**
 * Verifies the audit chain: its newest part when the page opens, and the whole chain on request. It can also compare the chain with checkpoints that are
 * stored elsewhere.
 */
import { ConnectError } from "@connectrpc/connect";
import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { useEffect, useId, useRef, useState } from "react";
import type { AuditFinding } from "../../../gen/toold/v1/status_pb.ts";
import { toFailure } from "../../api/errors.ts";
import { admin } from "../../api/clients.ts";
import { Icon } from "../../parts/Icon.tsx";
import { alertNow } from "../../parts/say.ts";
import { Text } from "../../parts/Text.tsx";
import { clock, exact, Time } from "../../parts/Time.tsx";
import { count } from "../status/units.ts";

interface Result {
  records: number;
  checkpoints: number;
  from?: Timestamp;
  signed?: Timestamp;
  trimmed: boolean;
  findings: AuditFinding[];
  done: boolean;
  /** True when the beginning of the chain was verified too. */
  whole: boolean;
  elsewhere: boolean;
  at: Date;
  error?: unknown;
}

/** Verifies the chain part by part, and reports the total result after each part. */
async function verify(whole: boolean, checkpoints: string, signal: AbortSignal, report: (r: Result) => void) {
  const r: Result = { records: 0, checkpoints: 0, trimmed: false, findings: [], done: false, whole, elsewhere: checkpoints !== "", at: new Date() };
  let request: Parameters<typeof admin.verifyAudit>[0] = { fromCheckpoint: !whole, checkpoints };
  try {
    while (!r.done) {
      const part = await admin.verifyAudit(request, { signal });
      r.records += Number(part.records);
      r.checkpoints += part.checkpoints;
      r.from ??= part.from;
      r.signed = part.newest?.time ?? r.signed;
      r.trimmed ||= part.trimmed;
      r.findings = [...r.findings, ...part.findings].slice(0, 100);
      r.done = part.done;
      r.at = new Date();
      request = { after: part.position, link: part.link, checkpoints };
      report({ ...r });
    }
  } catch (error) {
    if (!signal.aborted) report({ ...r, error });
  }
}

export function Verify({ on }: { on: boolean }) {
  const [result, show] = useState<Result>();
  const [comparing, compare] = useState(false);
  const running = useRef<AbortController>(undefined);
  const start = (whole: boolean, checkpoints = "") => {
    running.current?.abort();
    running.current = new AbortController();
    show(undefined);
    void verify(whole, checkpoints, running.current.signal, (r) => {
      if (r.done && r.findings.length > 0) alertNow(`The chain was changed: ${r.findings.length} findings.`);
      show(r);
    });
  };
  useEffect(() => {
    start(false);
    return () => running.current?.abort();
  }, []);
  const empty = result?.done && result.records === 0 && result.findings.length === 0 && !result.error;
  const tone = !result || empty ? "" : result.error || result.findings.length > 0 ? "fail" : result.done ? "ok" : "";
  return (
    <div className="pad stack verify">
      <div className={`note ${tone}`}>
        <Icon name={tone === "fail" ? "deny" : tone === "ok" ? "ok" : empty ? "info" : "run"} />
        <div className="grow">
          <Outcome result={result} on={on} />
        </div>
        <span className="rowx">
          {!result?.whole && <button className="btn sm" onClick={() => start(true)}>Verify the whole chain</button>}
          <button className="btn sm" aria-expanded={comparing} onClick={() => compare(!comparing)}>Compare with a checkpoint</button>
        </span>
      </div>
      {comparing && <Compare start={(lines) => start(true, lines)} />}
    </div>
  );
}

function Outcome({ result: r, on }: { result?: Result; on: boolean }) {
  if (!r) return <span aria-busy="true">Verifying the chain …</span>;
  if (r.error) {
    const { code, message } = r.error instanceof ConnectError ? toFailure(r.error) : { code: "ERROR", message: String(r.error) };
    return (
      <>
        <b>The chain was not verified.</b> <code>{code}</code> <Text most={500}>{message}</Text>
      </>
    );
  }
  if (r.findings.length > 0) {
    return (
      <>
        <b>The chain was changed after it was recorded.</b> <span className="t2">Keep a copy of the store. Only forgery or a broken disk can cause this.</span>
        <ul className="found">
          {r.findings.map((f, i) => (
            <li key={i}>
              <code>{f.kind}</code> <Text most={500}>{f.text}</Text>
            </li>
          ))}
        </ul>
      </>
    );
  }
  const n = count(r.records);
  if (!r.done) return <span aria-busy="true">Verifying: {n} records hold so far …</span>;
  if (r.records === 0) return on ? <>The chain is empty. Each call adds records to it.</> : <>The audit is off: calls leave no records. Set <code>audit.enabled: true</code> and start the daemon again.</>;
  const from = r.from && timestampDate(r.from);
  return (
    <>
      {r.whole ? "The chain holds" : "The newest part of the chain holds"}: {n} {r.records === 1 ? "record" : "records"}
      {from && (
        <>
          {" "}
          since <time dateTime={from.toISOString()} title={exact(from)}>{exact(from).slice(0, 16)}</time>
        </>
      )}
      , verified at {clock(r.at)}
      {r.signed ? (
        <>
          {" "}
          and compared with {count(r.checkpoints)} {r.checkpoints === 1 ? "checkpoint" : "checkpoints"}, the newest signed <Time at={r.signed} />.
        </>
      ) : (
        "; no checkpoint was signed yet."
      )}
      {r.trimmed && " Retention removed older records."}{" "}
      <span className="t2">{r.elsewhere ? "Your checkpoints were among them." : "Records after the last checkpoint that you keep elsewhere are as safe as the store."}</span>
    </>
  );
}

const maxLines = 1 << 20;

function Compare({ start }: { start: (lines: string) => void }) {
  const [lines, set] = useState("");
  const id = useId();
  return (
    <form
      className="stack tight"
      onSubmit={(e) => {
        e.preventDefault();
        start(lines);
      }}
    >
      <label htmlFor={id}>Lines of a file of checkpoints that you keep on another machine, at most 1 MiB</label>
      <textarea id={id} className="input ed" rows={4} spellCheck={false} value={lines} placeholder='{"store_id":"…","namespace":"…","position":…}' onChange={(e) => set(e.target.value.slice(0, maxLines))} />
      <span className="rowx">
        <button className="btn" disabled={!lines.trim()}>Compare</button>
        <span className="t3">
          <code>toold audit checkpoints -o jsonl | jq -r .line</code> prints them.
        </span>
      </span>
    </form>
  );
}
