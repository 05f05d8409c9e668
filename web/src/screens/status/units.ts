/** Formats a number for people. */
export const count = (n: number | bigint) => n.toLocaleString("en");

/** Formats a number of bytes: `2.1 GiB`. */
export function bytes(n: bigint | number): string {
  let f = Number(n);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (f < 1024) return `${unit === "B" || f >= 100 ? Math.round(f) : Math.round(f * 10) / 10} ${unit}`;
    f /= 1024;
  }
  return `${Math.round(f * 10) / 10} TiB`;
}
