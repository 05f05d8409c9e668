/** The ticket of a sign-in: the page, who gets the access, and what the access permits. */
import type { Suspension } from "../../../gen/toold/v1/suspension_pb.ts";
import { Icon } from "../../parts/Icon.tsx";
import { oneLine, Text } from "../../parts/Text.tsx";
import { Exact } from "../../parts/Exact.tsx";
import { isObject, tryParse, type Json } from "./json.ts";

const text = (v: Json | undefined) => (typeof v === "string" ? v : "");

/** Returns the URL of a web page. It returns undefined for any other address, which is shown as text, not as a link. */
function page(v: string): URL | undefined {
  const u = URL.canParse(v) ? new URL(v) : undefined;
  return u && (u.protocol === "https:" || u.protocol === "http:") && !u.username && !u.password ? u : undefined;
}
const hostOf = (v: string) => (URL.canParse(v) ? new URL(v).host : v);

/** `open` reports that the viewer may still sign in. */
export function SignIn({ s, open }: { s: Suspension; open: boolean }) {
  const p = tryParse(s.parameters);
  if (!isObject(p)) return null;
  const urls = [text(p.url), ...(Array.isArray(p.pages) ? p.pages.map((x) => (isObject(x) ? text(x.url) : "")) : [])].filter((u, i, all) => u && all.indexOf(u) === i);
  const scopes = Array.isArray(p.scopes) ? p.scopes.map(text).filter(Boolean) : undefined;
  if (urls.length === 0) return null;
  return (
    <section className="sec">
      <header><h2>{text(p.receiver) ? "Look at both names before you agree" : "Look at the name before you open it"}</h2></header>
      <dl className="facts">
        {urls.map((u) => <div key={u} className="pairrow"><dt>{text(p.receiver) ? "You sign in at" : "It opens"}</dt><dd><b><Text most={253}>{hostOf(u)}</Text></b></dd></div>)}
        {text(p.receiver) && <><dt>Who gets the sign-in</dt><dd><b><Text most={253}>{text(p.receiver)}</Text></b></dd></>}
        {text(p.resource) && <><dt>It is for</dt><dd><Text most={500}>{text(p.resource)}</Text></dd></>}
        {scopes && <><dt>It may then</dt><dd>{scopes.length ? scopes.map((x) => <code key={x} className="scope"><Text most={200}>{x}</Text></code>) : "what the server grants without a scope"}</dd></>}
      </dl>
      {open && (
        <ol className="steps">
          <li>Look at the names above, open the page and sign in there.</li>
          <li>Come back here and press “I have signed in”: the tool runs again.</li>
        </ol>
      )}
      {open && urls.map((u) => {
        const to = page(u);
        return to ? (
          <div className="rowx" key={u}>
            <a className="btn go" href={to.href} target="_blank" rel="noopener noreferrer"><Icon name="out" small /> Open {oneLine(to.host, 80)}</a>
            <span className="t3">opens a new tab</span>
          </div>
        ) : (
          <p key={u} className="t2">This is not the address of a web page, so it is not a link: <code><Exact>{u}</Exact></code></p>
        );
      })}
    </section>
  );
}
