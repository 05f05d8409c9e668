/** The theme, light or dark. It follows the system unless the viewer has chosen one. */

const root = document.documentElement;
const saved = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("theme");
if (saved === "light" || saved === "dark") root.dataset.theme = saved;

/** Switches to the other theme. */
export function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}
