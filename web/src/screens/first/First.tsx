/** The page of an empty inbox before the first call. It offers a command to copy, and then shows the call. */
import { useState } from "react";
import { Link } from "wouter";
import { useSession } from "../../api/session.tsx";
import { Icon } from "../../parts/Icon.tsx";
import { Copy } from "../../parts/small.tsx";
import "./first.css";

type Way = "grpcurl" | "curl" | "Python";

/** Returns the commands that send the same call. `native` is the gRPC address, `http` the URL of the HTTP endpoint. */
function ways(native: string, http: string, tls: boolean): Record<Way, string> {
  const body = `'{"spec":{"tool":"bash","arguments":"{\\"command\\":\\"date\\"}"}}'`;
  const token = `authorization: Bearer $(cat data/token)`;
  return {
    grpcurl: `grpcurl ${tls ? "" : "-plaintext "}-H "${token}" \\\n  -d ${body} \\\n  ${native} toold.v1.CallService/CallTool`,
    curl: `curl -H "${token}" -H 'content-type: application/json' \\\n  -d ${body} \\\n  ${http}/toold.v1.CallService/CallTool`,
    Python: `from toold import Client\ntoken = open("data/token").read().strip()\nprint(Client("${native}", token).call("bash", {"command": "date"}))`,
  };
}

/** `heard` reports that the page is live, so that a new call appears without a reload. */
export default function First({ heard = true }: { heard?: boolean }) {
  const { info } = useSession();
  const [way, choose] = useState<Way>("grpcurl");
  const tcp = info.addresses.find((a) => a.network === "tcp");
  const native = tcp?.address ?? "127.0.0.1:7130";
  const http = info.addresses.find((a) => a.network === "http");
  const same = ways(native, http ? `${http.tls ? "https" : "http"}://${http.address}` : location.origin, tcp?.tls ?? false);
  const command = `toold ${native === "127.0.0.1:7130" ? "" : `--address ${native} `}call bash command='date > hello.txt'`;
  const names = Object.keys(same) as Way[];
  const turn = (e: React.KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const next = names[(names.indexOf(way) + step + names.length) % names.length]!;
    choose(next);
    document.getElementById(`way-${next}`)?.focus();
  };
  return (
    <div className="first">
      <header className="stack tight">
        <h2 className="big">Nothing waits for you</h2>
        <p className="t2">
          Copy this into a terminal where you started toold. The call stops before it runs and appears here: look at it, press <kbd>a</kbd>, then <kbd>y</kbd>. If the terminal
          does not find <code>toold</code>, write the path of the program, such as <code>bin/toold</code>.
        </p>
      </header>
      <div className="copy">
        <code>
          <span className="pr">$ </span>
          {command}
        </code>
        <Copy text={command} />
      </div>
      <div className="ghost" role="status">
        <Icon name="run" className="spin run1" />
        <span>{heard ? "Listening. The call will appear here the moment it is stored." : "Not connected at the moment. The call will appear when the connection is back."}</span>
        <span />
        <span className="skl" aria-hidden="true">
          <span className="sk s1" />
          <span className="sk s2" />
        </span>
      </div>
      <section className="stack tight">
        <h2>Then</h2>
        <ol className="steps">
          <li>
            <span>
              Watch it run under <Link href="/calls">Calls</Link>: every step, its output, and who approved it.
            </span>
          </li>
          <li>
            <span>
              Say which calls need you: <Link href="/policy">Policy</Link> shows the rules in force, and what a rule would have done.
            </span>
          </li>
          <li>
            <span>
              Connect your orchestrator: <code>{native}</code>, with the token in <code>data/token</code>. Each id that you send runs once.
            </span>
          </li>
        </ol>
      </section>
      <section className="stack tight">
        <header className="rowx">
          <h2>The same call</h2>
          <span className="seg" role="tablist" aria-label="Client" onKeyDown={turn}>
            {names.map((w) => (
              <button key={w} id={`way-${w}`} role="tab" aria-selected={w === way} aria-controls="way" tabIndex={w === way ? 0 : -1} onClick={() => choose(w)}>
                {w}
              </button>
            ))}
          </span>
        </header>
        <div className="copy" id="way" role="tabpanel" aria-labelledby={`way-${way}`}>
          <code>{same[way]}</code>
          <Copy text={same[way]} />
        </div>
      </section>
    </div>
  );
}
