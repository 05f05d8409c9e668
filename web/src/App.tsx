import { Suspense } from "react";
import { Link, Redirect, Route, Switch } from "wouter";
import { SignedIn } from "./api/session.tsx";
import { Empty, Skeleton } from "./parts/small.tsx";
import { Shell } from "./parts/Shell.tsx";
import { Keeper } from "./screens/inbox/Keeper.tsx";
import { QuarantineKeeper } from "./screens/tools/quarantine.ts";
import { places, screens } from "./routes.tsx";

export function App() {
  return (
    <SignedIn>
      <Keeper />
      <QuarantineKeeper />
      <Shell>
        <Suspense fallback={<Skeleton />}>
          <Switch>
            {screens.map(({ path, component }) => (
              <Route key={path} path={path} component={component} />
            ))}
            <Route path="/">
              <Redirect to="/inbox" replace />
            </Route>
            <Route>
              <Empty title="There is no such page">
                Go to <Link href={places[0]?.to ?? "/"}>{places[0]?.name ?? "the start"}</Link>.
              </Empty>
            </Route>
          </Switch>
        </Suspense>
      </Shell>
    </SignedIn>
  );
}
