/** The screens: one line for each address, and the navigation. */
import type { ComponentType } from "react";
import type { IconName } from "./parts/Icon.tsx";

export interface Screen {
  /** A path of wouter, such as `/calls/:id`. */
  path: string;
  component: ComponentType;
}

/** The first path that matches counts. */
export const screens: Screen[] = [
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
];
