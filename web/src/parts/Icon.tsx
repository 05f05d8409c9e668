/** Icons of 16 by 16 pixels in the colour of the text. */
const shapes = {
  again: (
    <>
      <path d="M13 8a5 5 0 1 1-1.5-3.6" />
      <path d="M13.2 2.3v2.9h-2.9" />
    </>
  ),
  ask: (
    <>
      <path d="M2.5 3.5h11v7.5H8l-3 2.5V11H2.5z" />
      <path d="M6.8 6.2c.1-.8.6-1.2 1.3-1.2.8 0 1.3.5 1.3 1.1 0 .9-1.3.9-1.3 1.8M8.1 9.4h.01" />
    </>
  ),
  audit: (
    <>
      <path d="M6.7 9.3 9.3 6.7" />
      <path d="M7.5 4.7 9 3.2a2.7 2.7 0 0 1 3.8 3.8l-1.5 1.5M8.5 11.3 7 12.8a2.7 2.7 0 0 1-3.8-3.8l1.5-1.5" />
    </>
  ),
  bash: (
    <>
      <rect x="1.8" y="2.8" width="12.4" height="10.4" rx="1.5" />
      <path d="m4.5 6 2 2-2 2M8.5 10.2h3" />
    </>
  ),
  calls: (
    <>
      <path d="M2.5 4h11M2.5 8h11M2.5 12h7" />
    </>
  ),
  cancel: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="m4.3 11.7 7.4-7.4" />
    </>
  ),
  clock: (
    <>
      <circle cx="8" cy="8" r="5.7" />
      <path d="M8 4.8V8l2.2 1.5" />
    </>
  ),
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 3.5a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1" />
    </>
  ),
  deny: (
    <>
      <circle cx="8" cy="8" r="6.2" fill="currentColor" stroke="none" />
      <path d="M5 8h6" stroke="var(--bg)" strokeWidth="2" />
    </>
  ),
  dl: (
    <>
      <path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.3h10" />
    </>
  ),
  doubt: (
    <>
      <path d="M8 1.5 15 14H1z" fill="currentColor" stroke="none" />
      <path d="M6.8 7c.1-.7.6-1.1 1.2-1.1.7 0 1.2.4 1.2 1 0 .9-1.2.9-1.2 1.9M8 11.2h.01" stroke="var(--bg)" strokeWidth="1.3" />
    </>
  ),
  down: (
    <>
      <path d="M3.5 6 8 10.5 12.5 6" />
    </>
  ),
  edit: (
    <>
      <path d="M10.8 2.9 13.1 5.2 5.5 12.8 2.7 13.3 3.2 10.5z" />
    </>
  ),
  eye: (
    <>
      <path d="M1.8 8C3.3 5.2 5.5 3.8 8 3.8s4.7 1.4 6.2 4.2c-1.5 2.8-3.7 4.2-6.2 4.2S3.3 10.8 1.8 8z" />
      <circle cx="8" cy="8" r="1.8" />
    </>
  ),
  fail: (
    <>
      <path d="M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4z" fill="currentColor" stroke="none" />
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9 5.9 10.1" stroke="var(--bg)" />
    </>
  ),
  file: (
    <>
      <path d="M4 2h5l3 3v9H4z" />
      <path d="M9 2v3h3" />
    </>
  ),
  filter: (
    <>
      <path d="M2.5 4h11M4.5 8h7M6.5 12h3" />
    </>
  ),
  fork: (
    <>
      <circle cx="4" cy="3.5" r="1.5" />
      <circle cx="4" cy="12.5" r="1.5" />
      <circle cx="12" cy="8" r="1.5" />
      <path d="M4 5v6M4 6c0 1.5 1 2 3 2h3.5" />
    </>
  ),
  globe: (
    <>
      <circle cx="8" cy="8" r="5.7" />
      <path d="M2.3 8h11.4M8 2.3c2 1.7 2.7 3.6 2.7 5.7S10 12 8 13.7C6 12 5.3 10.1 5.3 8S6 4 8 2.3z" />
    </>
  ),
  inbox: (
    <>
      <path d="M2.5 9.5 4.3 3.6h7.4l1.8 5.9v3.4h-11z" />
      <path d="M2.5 9.5h3.2c.3 1.2 1.2 1.8 2.3 1.8s2-.6 2.3-1.8h3.2" />
    </>
  ),
  info: (
    <>
      <circle cx="8" cy="8" r="5.7" />
      <path d="M8 7.3v3.5M8 5.1h.01" />
    </>
  ),
  key: (
    <>
      <circle cx="5.2" cy="10.8" r="2.7" />
      <path d="m7.2 8.8 5.8-5.8M10.5 5.5l2 2" />
    </>
  ),
  left: (
    <>
      <path d="M10 3.5 5.5 8l4.5 4.5" />
    </>
  ),
  lock: (
    <>
      <rect x="3.5" y="7" width="9" height="6.5" rx="1.2" />
      <path d="M5.3 7V5.2a2.7 2.7 0 0 1 5.4 0V7" />
    </>
  ),
  more: (
    <>
      <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2.2" />
    </>
  ),
  new: (
    <>
      <circle cx="8" cy="8" r="5.5" strokeDasharray="2 2.3" />
    </>
  ),
  ok: (
    <>
      <circle cx="8" cy="8" r="6.2" fill="currentColor" stroke="none" />
      <path d="m5.3 8.2 1.9 1.9 3.5-4" stroke="var(--bg)" />
    </>
  ),
  out: (
    <>
      <path d="M9 2.5h4.5V7M13.5 2.5 7.5 8.5M11.5 9.5v4h-9v-9h4" />
    </>
  ),
  pause: (
    <>
      <path d="M5.5 3.5v9M10.5 3.5v9" />
    </>
  ),
  pay: (
    <>
      <rect x="1.8" y="3.8" width="12.4" height="8.4" rx="1.2" />
      <circle cx="8" cy="8" r="1.9" />
    </>
  ),
  policy: (
    <>
      <path d="M8 2.2 3 4v3.6c0 3 2 5 5 6.2 3-1.2 5-3.2 5-6.2V4z" />
      <path d="m5.9 7.9 1.5 1.5 2.8-3" />
    </>
  ),
  resume: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M6.8 5.8 10 8l-3.2 2.2z" fill="currentColor" />
    </>
  ),
  right: (
    <>
      <path d="m6 3.5 4.5 4.5L6 12.5" />
    </>
  ),
  run: (
    <>
      <circle cx="8" cy="8" r="5.5" opacity=".3" />
      <path d="M8 2.5A5.5 5.5 0 0 1 13.5 8" strokeWidth="2" />
    </>
  ),
  runs: (
    <>
      <path d="M2.5 3.5h6M5.5 8h6M8.5 12.5h5" />
      <path d="M5.5 3.5V8M8.5 8v4.5" opacity=".6" />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.3" />
      <path d="m10.3 10.3 3.2 3.2" />
    </>
  ),
  status: (
    <>
      <path d="M2 8.5h2.7l1.6-4.8 3 9 1.7-4.2H14" />
    </>
  ),
  stop: (
    <>
      <rect x="3.8" y="3.8" width="8.4" height="8.4" rx="1" />
    </>
  ),
  theme: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M8 2.5a5.5 5.5 0 0 0 0 11z" fill="currentColor" />
    </>
  ),
  tools: (
    <>
      <path d="M9.8 6.2a3 3 0 0 1 3.7-3.5l-1.9 1.9.4 1.4 1.4.4 1.9-1.9a3 3 0 0 1-3.8 3.7l-5.2 5.2a1.3 1.3 0 0 1-1.9-1.9z" transform="translate(-1 .4)" />
    </>
  ),
  trash: (
    <>
      <path d="M3 4.5h10M6.3 4.5v-2h3.4v2M4.5 4.5l.6 9h5.8l.6-9" />
    </>
  ),
  unknown: (
    <>
      <circle cx="8" cy="8" r="5.7" strokeDasharray="2.2 2" />
      <path d="M6.4 6.3c.1-1 .7-1.5 1.6-1.5.9 0 1.6.6 1.6 1.4 0 1.1-1.6 1.1-1.6 2.2M8 10.7h.01" />
    </>
  ),
  user: (
    <>
      <circle cx="8" cy="5.5" r="2.7" />
      <path d="M2.8 13.5c.6-2.7 2.6-4 5.2-4s4.6 1.3 5.2 4" />
    </>
  ),
  wait: (
    <>
      <path d="M8 1.3 14.7 8 8 14.7 1.3 8z" fill="currentColor" stroke="none" />
      <path d="M6.6 5.9v4.2M9.4 5.9v4.2" stroke="var(--bg)" />
    </>
  ),
  warn: (
    <>
      <path d="M8 2.5 14.2 13.3H1.8z" />
      <path d="M8 6.5v3.3M8 11.5h.01" />
    </>
  ),
  window: (
    <>
      <rect x="2" y="2.8" width="12" height="10.4" rx="1.2" />
      <path d="M2 5.8h12" />
    </>
  ),
  x: (
    <>
      <path d="m4 4 8 8M12 4l-8 8" />
    </>
  ),
};

export type IconName = keyof typeof shapes;

/** Shows an icon. Give `label` unless a word beside the icon has the same meaning. */
export function Icon({ name, small, className = "", label }: { name: IconName; small?: boolean; className?: string; label?: string }) {
  return (
    <svg className={`i ${small ? "s " : ""}${className}`} viewBox="0 0 16 16" role={label ? "img" : undefined} aria-label={label} aria-hidden={label ? undefined : true}>
      {shapes[name]}
    </svg>
  );
}
