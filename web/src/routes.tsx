/** The screens, one line for each address, and the navigation. */
import { lazy, type ComponentType } from "react";
import type { IconName } from "./parts/Icon.tsx";
import { Inbox } from "./screens/inbox/Inbox.tsx";

export interface Screen {
  /** A path in the syntax of wouter, such as `/calls/:id`. */
  path: string;
  component: ComponentType;
}

/** The screens in order. The first path that matches an address counts. */
export const screens: Screen[] = [
  { path: "/inbox/:id?", component: Inbox },
  { path: "/calls", component: lazy(() => import("./screens/calls/Calls.tsx")) },
  { path: "/tools/:id?/:tab?", component: lazy(() => import("./screens/tools/Tools.tsx")) },
  { path: "/policy/kept", component: lazy(() => import("./screens/policy/Kept.tsx")) },
  { path: "/policy/:part?", component: lazy(() => import("./screens/policy/Policy.tsx")) },
  { path: "/runs", component: lazy(() => import("./screens/runs/Runs.tsx")) },
  { path: "/runs/:id", component: lazy(() => import("./screens/runs/Run.tsx")) },
  { path: "/threads/:id", component: lazy(() => import("./screens/runs/Thread.tsx")) },
  { path: "/calls/:id/*?", component: lazy(() => import("./screens/call/Call.tsx")) },
  { path: "/audit", component: lazy(() => import("./screens/audit/Audit.tsx")) },
  { path: "/status", component: lazy(() => import("./screens/status/Status.tsx")) },
];

export interface Place {
  to: string;
  name: string;
  icon: IconName;
  /** The key after `g` that opens the screen. */
  key: string;
  /** In windows below 704 pixels, the entry is in the menu "More". */
  more?: boolean;
}

export const places: Place[] = [
  { to: "/inbox", name: "Inbox", icon: "inbox", key: "i" },
  { to: "/calls", name: "Calls", icon: "calls", key: "c" },
  { to: "/runs", name: "Runs", icon: "runs", key: "r" },
  { to: "/tools", name: "Tools", icon: "tools", key: "t", more: true },
  { to: "/policy", name: "Policy", icon: "policy", key: "p", more: true },
  { to: "/audit", name: "Audit", icon: "audit", key: "a", more: true },
  { to: "/status", name: "Status", icon: "status", key: "s" },
];
