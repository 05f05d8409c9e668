/**
 * The part of an output stream or a text artifact that the page has in memory, called the window. The window follows the end of the stream, or contains
 * a line that was searched for.
 */
import { calls } from "../../api/clients.ts";
import { hasReason } from "../../api/errors.ts";
import { Ansi, type Piece } from "./ansi.ts";

export interface Line {
  /** Line number, counted from 1. It is below 1 when the real number is not known, because a line is larger than one response. Numbers are unique within a window. */
  no: number;
  pieces: Piece[];
  /** Number of characters that are not shown. */
  rest: number;
}

/** Lines of one request; shown characters of a line; maximum lines that the page keeps; bytes of one request. */
const page = 500, wide = 4000, most = 10_000, tail = 512 << 10;
/** Replaces the number of the first line when that is not known. */
const unknown = -1e9;

export class Stream {
  lines: Line[] = [];
  /** Why the last read failed; "" if it did not. */
  error: unknown = "";
  /** True when the window contains the end of the stored stream. */
  atEnd = false;
  loading = false;
  /** Size of the whole stream in bytes. */
  size = 0;
  version = 0;

  private end = 0; // the offset after the last byte of the window
  private open = new Uint8Array(); // the bytes of the last line, which has no line end yet
  private ansi = new Ansi();
  private readonly changed = new Set<() => void>();

  constructor(
    readonly call: string,
    readonly name: string,
  ) {}

  subscribe = (f: () => void) => {
    this.changed.add(f);
    return () => void this.changed.delete(f);
  };
  snapshot = () => this.version;

  private tell() {
    this.version++;
    this.changed.forEach((f) => f());
  }

  /** Reads the last lines. */
  toEnd = () => this.load(() => this.readEnd(), true);

  private async readEnd() {
    const read = await this.readLines(-page);
    if (read.nextOffset >= read.totalSize) return this.fill(read.data, Number(read.firstLine), read);
    // The last lines are larger than one response. So only their last bytes are read, and it is not known how many lines come before them.
    const offset = read.totalSize > tail ? Number(read.totalSize) - tail : 0;
    this.fill((await calls.readArtifact({ callId: this.call, name: this.name, offset: BigInt(offset), limit: BigInt(tail) })).data, offset ? unknown : 1, { nextOffset: read.totalSize, totalSize: read.totalSize });
  }

  /** Reads the lines around a line. If the line does not exist, it reads the last lines. */
  toLine = (line: number) =>
    this.load(async () => {
      let first = Math.max(1, line - page / 2), read = await this.readLines(first);
      // Long lines before the wanted line filled the response, so it is read again from the wanted line on.
      if (first + Number(read.lineCount) - 1 <= line && read.nextOffset < read.totalSize) read = await this.readLines((first = line));
      await (read.lineCount > 0n ? this.fill(read.data, first, read) : this.readEnd());
    }, true);

  private readLines = (first: number, count = page) => calls.readArtifact({ callId: this.call, name: this.name, lines: { first: BigInt(first), count: BigInt(count) }, limit: BigInt(tail) });

  /** Reads the lines before the window. */
  before = () =>
    this.load(async () => {
      const top = this.lines[0]?.no ?? 1;
      if (top <= 1) return;
      const first = Math.max(1, top - page);
      const read = await this.readLines(first, top - first);
      const { lines } = split(read.data);
      if (lines.length < top - first) return this.fill(read.data, first, read); // the lines before are too large to be added to the window, so they replace it
      const added = lines.map((l, i) => toLine(l, first + i, new Ansi()));
      this.lines = [...added, ...this.lines];
      if (this.lines.length > most) {
        this.lines.length = most;
        this.atEnd = false;
      }
    });

  /** Reads the lines after the window. */
  after = () =>
    this.load(async () => {
      const read = await calls.readArtifact({ callId: this.call, name: this.name, offset: BigInt(this.end), limit: BigInt(tail / 2) });
      this.add(read.data);
      this.atEnd = read.nextOffset >= read.totalSize;
      this.size = Math.max(this.size, Number(read.totalSize)); // an event with more output may have arrived since the request
    });

  /** Reads the end of the stream again, after a read failed or a crash lost the end. A window that does not contain the end stays unchanged. */
  again() {
    this.size = 0;
    if (this.atEnd || this.lines.length === 0) void this.toEnd();
  }

  /** Adds the output of an event. Bytes that the window already has are skipped. Missing bytes are read. */
  take(offset: number, data: Uint8Array, length: number) {
    this.size = Math.max(this.size, offset + length);
    if (!this.atEnd || this.loading || offset + length <= this.end) return this.tell();
    if (offset > this.end || data.length < length) return void this.after();
    this.add(data.subarray(this.end - offset));
    this.tell();
  }

  private waiting?: () => Promise<void>; // the read that begins when the current read ends

  /** Makes one read at a time. During a read, another read with `later` waits, and only the newest one is kept. A read without `later` is dropped. */
  private async load(read: () => Promise<void>, later = false) {
    if (this.loading) return void (later && (this.waiting = read));
    this.loading = true;
    const { end, size } = this;
    for (let next: typeof this.waiting = read; next; next = this.waiting) {
      this.waiting = undefined;
      this.error = "";
      try {
        await next();
      } catch (e) {
        // The stream has no output yet. Its output will be read from the first byte.
        if (hasReason(e, "ARTIFACT_NOT_FOUND")) this.fill(new Uint8Array(), 1, { nextOffset: 0n, totalSize: 0n });
        else this.error = e;
      }
    }
    this.loading = false;
    this.tell();
    if (this.atEnd && this.end < this.size && (this.end !== end || this.size !== size)) void this.after();
  }

  private fill(data: Uint8Array, first: number, read: { nextOffset: bigint; totalSize: bigint }) {
    this.lines = [];
    this.open = new Uint8Array();
    this.partial = false;
    this.hidden = 0;
    this.ansi = new Ansi();
    this.next = first;
    this.add(data);
    this.end = Number(read.nextOffset);
    this.size = Math.max(this.size, Number(read.totalSize));
    this.atEnd = read.nextOffset >= read.totalSize;
  }

  private next = 1; // the number of the line that begins after the window
  private partial = false; // `open` is the last line of the window
  private hidden = 0; // number of bytes of the open line that are not kept

  private add(data: Uint8Array) {
    this.end += data.length;
    const { lines, rest } = split(data, this.open);
    if (this.partial) this.lines.pop();
    for (const l of lines) {
      this.lines.push(toLine(l, this.next++, this.ansi, this.hidden));
      this.hidden = 0;
    }
    this.open = rest.slice(0, 4 * wide);
    this.hidden += rest.length - this.open.length;
    this.partial = rest.length > 0;
    if (this.partial) this.lines.push(toLine(rest, this.next, this.ansi.copy(), this.hidden));
    if (this.lines.length > most) this.lines.splice(0, this.lines.length - most);
  }
}

const decoder = new TextDecoder();

function toLine(bytes: Uint8Array, no: number, ansi: Ansi, hidden = 0): Line {
  // A character has at most 4 bytes.
  const text = decoder.decode(bytes.subarray(0, 4 * wide)).replace(/\r$/, "");
  const cut = text.slice(0, wide);
  return { no, pieces: ansi.read(cut), rest: text.length - cut.length + Math.max(0, bytes.length - 4 * wide) + hidden };
}

/** Splits bytes, which continue the bytes of `open`, into whole lines and the rest. */
function split(data: Uint8Array, open: Uint8Array = new Uint8Array()): { lines: Uint8Array[]; rest: Uint8Array } {
  const all = new Uint8Array(open.length + data.length);
  all.set(open);
  all.set(data, open.length);
  const lines: Uint8Array[] = [];
  let from = 0;
  for (let at = all.indexOf(10); at >= 0; at = all.indexOf(10, from)) {
    lines.push(all.subarray(from, at));
    from = at + 1;
  }
  return { lines, rest: all.slice(from) };
}
