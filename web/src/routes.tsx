/** The screens: one line for each address, and the navigation. */
import type { ComponentType } from "react";
import type { IconName } from "./parts/Icon.tsx";
import { Inbox } from "./screens/inbox/Inbox.tsx";

export interface Screen {
  /** A path of wouter, such as `/calls/:id`. */
  path: string;
  component: ComponentType;
}

/** The first path that matches counts. */
export const screens: Screen[] = [
  { path: "/inbox/:id?", component: Inbox },
];

export interface Place {
  to: string;
  name: string;
  icon: IconName;
  /** The second key, after g. */
  key: string;
  /** Below 704 pixels the place is in the menu "More". */
  more?: boolean;
}

export const places: Place[] = [
  { to: "/inbox", name: "Inbox", icon: "inbox", key: "i" },
];
