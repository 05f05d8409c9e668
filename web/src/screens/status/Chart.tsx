/** A small chart of the last hour. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

interface Line {
  /** One value for each time; null makes a gap. */
  values: (number | null)[];
  tone?: "fail";
}

interface Props {
  title: string;
  now: string;
  unit: string;
  /** Seconds since 1970. */
  times: number[];
  lines: Line[];
  /** A line across the chart, such as a limit. */
  limit?: number;
  foot?: string;
}

const height = 56;
const hm = (s: number) => new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** Returns the colours of the theme. A canvas cannot use CSS variables, so an element of the page resolves them. */
function colours(at: HTMLElement) {
  const probe = at.appendChild(document.createElement("i"));
  const of = (name: string) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const all = { line: of("--accent"), area: of("--accent-bg"), fail: of("--fail"), grid: of("--line") };
  probe.remove();
  return all;
}

function draw(at: HTMLElement, times: number[], lines: Line[], limit?: number) {
  const c = colours(at);
  const most = Math.max(1, ...lines.flatMap((l) => l.values.map((v) => v ?? 0)));
  // A limit far above the values would make them look flat. Such a limit is only named below the chart.
  const top = limit !== undefined && limit <= 4 * most ? Math.max(most, limit) : most;
  const series: uPlot.Series[] = [{}, ...lines.map((l, i): uPlot.Series => ({ stroke: l.tone ? c.fail : c.line, fill: i === 0 ? c.area : undefined, width: 1.5, points: { show: false } }))];
  const data: (number | null)[][] = [times, ...lines.map((l) => l.values)];
  if (limit !== undefined && limit <= top) {
    series.push({ stroke: c.fail, dash: [4, 3], width: 1, points: { show: false } });
    data.push(times.map(() => limit));
  }
  return new uPlot(
    {
      width: at.clientWidth, height, series, padding: [2, 0, 1, 0],
      cursor: { show: false }, legend: { show: false }, axes: [{ show: false }, { show: false, grid: { stroke: c.grid } }],
      scales: { x: { time: true }, y: { range: [0, top * 1.1] } },
    },
    data as uPlot.AlignedData,
    at,
  );
}

export default function Chart({ title, now, unit, times, lines, limit, foot }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const key = JSON.stringify([times.at(-1), lines, limit]);
  useEffect(() => {
    const at = box.current;
    if (!at || times.length < 2) return;
    let plot = draw(at, times, lines, limit);
    const again = () => {
      plot.destroy();
      plot = draw(at, times, lines, limit);
    };
    const size = new ResizeObserver(() => at.clientWidth !== plot.width && plot.setSize({ width: at.clientWidth, height }));
    size.observe(at);
    const theme = new MutationObserver(again), dark = matchMedia("(prefers-color-scheme: dark)");
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    dark.addEventListener("change", again);
    return () => {
      size.disconnect();
      theme.disconnect();
      dark.removeEventListener("change", again);
      plot.destroy();
    };
  }, [key]);
  return (
    <figure className="chart">
      <figcaption className="t2">{title}</figcaption>
      <div className="v">
        {now} <small>{unit}</small>
      </div>
      <div className="plot" ref={box} role="img" aria-label={`${title}, latest hour: now ${now} ${unit}${foot ? `; ${foot}` : ""}`} />
      <div className="ft">
        <span>{times.length > 1 ? hm(times[0]!) : ""}</span>
        <span>{times.length > 1 ? foot : "the first sample comes within 20 s"}</span>
        <span>{times.length > 1 ? hm(times.at(-1)!) : ""}</span>
      </div>
    </figure>
  );
}
