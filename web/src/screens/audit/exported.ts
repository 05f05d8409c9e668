/** Writes records in the format of `toold audit export`, so that `toold audit verify FILE` accepts them. */
import { timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { AuditRecord } from "../../../gen/toold/v1/admin_service_pb.ts";
import { admin } from "../../api/clients.ts";
import { hex, type Filter } from "./record.ts";

/** Formats a time as RFC 3339 with nanoseconds. The link of a record covers exactly this text. */
function nanos(t: Timestamp): string {
  return new Date(Number(t.seconds) * 1000).toISOString().replace(/\.\d+Z$/, `.${String(t.nanos).padStart(9, "0")}Z`);
}

function line(namespace: string, r: AuditRecord): string {
  const call = r.callId ? `"call_id":${JSON.stringify(r.callId)},` : "";
  // The record is copied unchanged, because the link covers its bytes.
  return `{"namespace":${JSON.stringify(namespace)},"position":${r.position},"time":"${nanos(r.time!)}","key":${JSON.stringify(r.key)},${call}"link":"${hex(r.link)}","record":${new TextDecoder().decode(r.record)}}\n`;
}

export const request = (f: Filter) => ({
  principal: f.principal, callId: f.callId, kinds: f.kinds,
  storedAfter: f.storedAfter && timestampFromDate(f.storedAfter), storedBefore: f.storedBefore && timestampFromDate(f.storedBefore),
});

/** Reads all records of a filter, oldest first, and returns them as a file. */
export async function exported(namespace: string, f: Filter, signal: AbortSignal, progress: (n: number) => void): Promise<Blob> {
  const parts: Blob[] = [];
  let n = 0;
  for (let after = 0n; ; ) {
    const page = await admin.readAudit({ ...request(f), after, pageSize: 1000 }, { signal });
    if (page.records.length > 0) parts.push(new Blob([page.records.map((r) => line(namespace, r)).join("")]));
    progress((n += page.records.length));
    if (page.nextPosition === 0n) return new Blob(parts, { type: "application/jsonl" });
    after = page.nextPosition;
  }
}
