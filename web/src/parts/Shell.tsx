/** The frame of every page: navigation, keys, and texts for screen readers. */
import { useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { useCounts } from "../api/counts.ts";
import { signOut, useSession } from "../api/session.tsx";
import { Role } from "../../gen/toold/v1/principal_pb.ts";
import { useKeys } from "../keys.ts";
import { places } from "../routes.tsx";
import { useProblemsBadge } from "../screens/status/problems.ts";
import { toggleTheme } from "../theme.ts";
import { Icon } from "./Icon.tsx";
import { Keys } from "./Keys.tsx";
import { toast } from "./say.ts";
import { Text } from "./Text.tsx";

const roleName = (r: Role) => Role[r].toLowerCase();

/** Numbers beside the entries of the navigation, such as the number of waiting calls. Screens and the shell itself set them. */
const badges = new Map<string, { text: string; hot?: boolean }>();
let version = 0;
const changed = new Set<() => void>();

/** Shows a number beside an entry of the navigation; an empty text removes it. `hot` makes it stand out. */
export function setBadge(place: string, text: string, hot = false) {
  if (badges.get(place)?.text === text && badges.get(place)?.hot === hot) return;
  if (text) badges.set(place, { text, hot });
  else badges.delete(place);
  version++;
  changed.forEach((c) => c());
}

/** Says whether the page is live. The foot of the navigation shows it. */
let live = true;
export function setLive(now: boolean) {
  if (live === now) return;
  live = now;
  version++;
  changed.forEach((c) => c());
}

function useShell() {
  useSyncExternalStore(
    (c) => {
      changed.add(c);
      return () => void changed.delete(c);
    },
    () => version,
  );
}

export function Shell({ children }: { children: ReactNode }) {
  useShell();
  const [at, go] = useLocation();
  const [keys, showKeys] = useState(false);
  const running = useCounts()?.running ?? 0;
  useEffect(() => setBadge("/calls", running > 0 ? `${running} live` : ""), [running]);
  const { me, info } = useSession();
  useProblemsBadge();
  useKeys({
    "?": () => showKeys(true),
    l: () => void navigator.clipboard.writeText(location.href).then(() => toast("Link copied.")),
    "/": () => document.querySelector<HTMLInputElement>(".search input")?.focus(),
    ...Object.fromEntries(places.map((p) => [`g ${p.key}`, () => go(p.to)])),
  });
  const current = (to: string) => (at === to || at.startsWith(to + "/") ? "page" : undefined);
  const link = (p: (typeof places)[number]) => (
    <Link key={p.to} href={p.to} className={`n ${p.more ? "more2" : ""}`} aria-current={current(p.to)}>
      <Icon name={p.icon} />
      <span>{p.name}</span>
      {badges.has(p.to) && <span className={`num ${badges.get(p.to)!.hot ? "hot" : ""}`}>{badges.get(p.to)!.text}</span>}
    </Link>
  );
  return (
    <>
      <a className="skip" href="#main">Skip to content</a>
      <div className="app">
        <nav className="nav" aria-label="Console">
          <Link className="brand" href="/">
            toold <small>{info.namespace}</small>
          </Link>
          {places.map(link)}
          <details className="moren">
            <summary>
              <Icon name="more" />
              More
            </summary>
            <div>
              {places.filter((p) => p.more).map((p) => <Link key={p.to} href={p.to}>{p.name}</Link>)}
              <button className="btn bare" onClick={toggleTheme}>Theme</button>
            </div>
          </details>
          <div className="foot">
            <div className="live">
              <span className={`dot ${live ? "" : "off"}`} />
              <span>{live ? "Live" : "Not live"}</span>
            </div>
            <span>
              <Text>{me.principal?.subject ?? ""}</Text> · {me.principal?.roles.map(roleName).join(", ")}
            </span>
            <button onClick={toggleTheme}>
              <Icon name="theme" small /> Theme
            </button>
            <button onClick={() => showKeys(true)}>
              <kbd>?</kbd> Keys
            </button>
            <button onClick={() => void signOut()}>
              <Icon name="out" small /> Sign out
            </button>
          </div>
        </nav>
        <main className="page" id="main" tabIndex={-1}>
          {children}
        </main>
      </div>
      <Keys open={keys} close={() => showKeys(false)} />
      <div id="say" className="sr" role="status" />
      <div id="say-now" className="sr" role="alert" />
      <div id="toast" className="toast" role="status" hidden />
    </>
  );
}
