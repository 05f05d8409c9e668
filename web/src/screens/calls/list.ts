/** The list of calls: pages of the daemon that are kept up to date, and the calls that are shown. */
import { create } from "@bufbuild/protobuf";
import { FieldMaskSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import type { ListCallsRequest } from "../../../gen/toold/v1/call_service_pb.ts";
import type { CallEvent, Frame } from "../../../gen/toold/v1/event_pb.ts";
import { calls } from "../../api/clients.ts";
import { after, paths, rowOf, type Row } from "./row.ts";

const pageSize = 100;
/** Maximum number of pages that a refresh reads until it reaches known calls. */
const most = 5;
/** Maximum number of empty pages that a search reads before it asks the viewer. Each empty page means about 2,000 calls that did not match. */
const mostEmpty = 20;

/** Kinds of events after which another call may match the filter. */
const telling = new Set<CallEvent["event"]["case"]>(["accepted", "suspended", "resumed", "statusChanged", "finished"]);

export class CallList {
  private rows = new Map<string, Row>();
  /** `order` contains all ids in the order of the daemon, `shown` those that are shown. New ids wait in `order` until they may be shown. */
  private order: string[] = [];
  private known = new Set<string>();
  shown: readonly string[] = [];
  /** The rows at the time when the view was paused. */
  private frozen?: Map<string, Row>;
  private following = true;
  private token = "";
  /** True when there may be unknown calls between `order` and `shown`, so that `shown` must be replaced. */
  private replaced = false;
  state: "loading" | "ready" | "failed" = "loading";
  error: unknown;
  /** The state at the end of the list: more calls may follow, more are being read, the read failed, a bounded search found none, or there are no more. */
  end: "more" | "reading" | "failed" | "far" | "all" = "more";
  endError: unknown;
  /** `failures` is the number of failed reads of the head since the last successful one. `readAt` is the time of that read. */
  failures = 0;
  readAt = 0;
  /** The ids of calls with damaged records. */
  broken: string[] = [];

  private version = 0;
  private changed = new Set<() => void>();
  private frame = 0;
  private again?: ReturnType<typeof setTimeout>;
  private reading = false;
  private stopped = new AbortController();

  constructor(private readonly request: ListCallsRequest) {}

  subscribe = (changed: () => void) => {
    this.changed.add(changed);
    return () => void this.changed.delete(changed);
  };
  snapshot = () => this.version;

  private change() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.version++;
      this.changed.forEach((c) => c());
    });
  }

  /** Starts reading. The returned function stops all reads. */
  open() {
    this.stopped = new AbortController();
    if (this.order.length === 0) void this.load();
    else void this.refresh();
    return () => {
      this.stopped.abort();
      clearTimeout(this.again);
      this.again = undefined;
    };
  }

  row = (id: string): Row | undefined => (this.frozen ?? this.rows).get(id);

  /** The number of calls that are not shown yet. */
  get fresh() {
    return this.replaced ? this.order.length : this.order.length - this.shown.length;
  }
  get paused() {
    return this.frozen !== undefined;
  }

  pause(on: boolean) {
    this.frozen = on ? new Map(this.rows) : undefined;
    if (!on) this.show();
    this.change();
  }

  /** With `on`, new calls are shown at once. */
  follow(on: boolean) {
    this.following = on;
    if (on && !this.paused && this.fresh > 0) this.show();
  }

  /** Shows all new calls. */
  show() {
    this.shown = this.order;
    this.replaced = false;
    if (this.frozen) this.frozen = new Map(this.rows);
    this.change();
  }

  private async page(pageToken: string) {
    const page = await calls.listCalls({ ...this.request, pageSize, pageToken, readMask: create(FieldMaskSchema, { paths }) }, { signal: this.stopped.signal });
    for (const c of page.calls) {
      const known = this.rows.get(c.callId); // Keeps changes by events that came during the request.
      if (!known || known.sequence < c.lastSequence) this.rows.set(c.callId, rowOf(c));
    }
    for (const id of page.brokenCallIds) if (!this.broken.includes(id)) this.broken = [...this.broken, id];
    return { ids: page.calls.map((c) => c.callId), next: page.nextPageToken };
  }

  load = async () => {
    const { signal } = this.stopped;
    this.state = "loading";
    this.change();
    try {
      const { ids, next } = await this.page("");
      if (signal.aborted) return;
      this.put(ids);
      this.shown = ids;
      this.token = next;
      this.end = next ? "more" : "all";
      this.state = "ready";
      this.readAt = Date.now();
      this.failures = 0;
      if (ids.length === 0 && next) void this.more();
    } catch (e) {
      if (signal.aborted) return;
      this.state = "failed";
      this.error = e;
    }
    this.change();
  };

  /** Reads older calls. */
  more = async () => {
    if (this.end === "reading" || this.end === "all" || this.replaced || this.state !== "ready") return;
    const { signal } = this.stopped;
    this.end = "reading";
    this.change();
    try {
      let found: string[] = [];
      for (let n = 0; n < mostEmpty && found.length === 0 && this.token; n++) {
        const { ids, next } = await this.page(this.token);
        if (signal.aborted || this.replaced) return;
        this.token = next;
        found = ids.filter((id) => !this.known.has(id));
      }
      this.order = [...this.order, ...found];
      found.forEach((id) => this.known.add(id));
      this.shown = [...this.shown, ...found];
      if (this.frozen) found.forEach((id) => this.frozen!.set(id, this.rows.get(id)!));
      this.end = !this.token ? "all" : found.length === 0 ? "far" : "more";
    } catch (e) {
      if (signal.aborted) return;
      this.end = "failed";
      this.endError = e;
    }
    this.change();
  };

  /** Processes a frame from the watch of the namespace. */
  take(frame: Frame) {
    let soon = frame.control.case === "gap" || frame.control.case === "lagged";
    for (const e of frame.events) {
      const row = this.rows.get(e.callId);
      if (row) {
        const next = after(row, e);
        if (next === row) continue;
        this.rows.set(e.callId, next);
        this.change();
      } else if (telling.has(e.event.case)) soon = true;
    }
    if (soon) this.refreshSoon();
  }

  private refreshSoon() {
    this.again ??= setTimeout(() => {
      this.again = undefined;
      void this.refresh();
    }, 500);
  }

  /** Reads the newest calls again. */
  refresh = async () => {
    if (this.reading) return this.refreshSoon();
    if (this.state !== "ready") return;
    const { signal } = this.stopped;
    this.reading = true;
    try {
      let head: string[] = [], next = "", met = false;
      for (let n = 0; n < most && !met; n++) {
        const page = await this.page(next);
        if (signal.aborted) return;
        head = head.concat(page.ids);
        met = page.ids.some((id) => this.known.has(id)) || page.next === "";
        next = page.next;
      }
      if (met || this.order.length === 0) this.merge(head, next);
      else if (head.length < pageSize) this.put([...head, ...this.order]); // few calls match, and the read ones are newer than the known ones
      else {
        this.put(head);
        this.token = next;
        this.end = "more";
        this.replaced = true;
      }
      this.readAt = Date.now();
      this.failures = 0;
      if (this.following && !this.paused) this.show();
    } catch (e) {
      if (signal.aborted) return;
      this.failures++;
      this.error = e;
      if (ConnectError.from(e).code !== Code.Canceled) this.refreshLater();
    } finally {
      this.reading = false;
    }
    this.change();
  };

  private refreshLater() {
    this.again ??= setTimeout(() => {
      this.again = undefined;
      void this.refresh();
    }, 2000);
  }

  /** Inserts new ids before the known id that follows them. */
  private merge(head: string[], next: string) {
    const { known } = this;
    if (!head.some((id) => !known.has(id))) return;
    if (known.size === 0) {
      this.put(head);
      this.token = next;
      this.end = next ? "more" : "all";
      return;
    }
    const before = new Map<string, string[]>();
    let waiting: string[] = [];
    for (const id of head) {
      if (!known.has(id)) waiting.push(id);
      else if (waiting.length > 0) {
        before.set(id, waiting);
        waiting = [];
      }
    }
    this.put([...this.order.flatMap((id) => [...(before.get(id) ?? []), id]), ...(next === "" ? waiting : [])]);
  }

  private put(order: string[]) {
    this.order = order;
    this.known = new Set(order);
  }
}
