// The page's data. docs/html-page.md describes the format.
import { lineText, shortPath } from "./format.js";

/**
 * @typedef {{op: string, calls: number, time: number, own_time: number, work: string,
 *   inputs: string, kinds: number}} OpUsage
 * @typedef {{library: string, name: string, calls: number, time: number}} FunctionUsage
 * @typedef {{file: string, line: number, function: string, calls: number, time: number,
 *   ops: Record<string, number>}} OwnLine
 * @typedef {{direction: string, calls: number, bytes: number}} CopyUsage
 * @typedef {{lines: OwnLine[], ops: OpUsage[], libraries: FunctionUsage[],
 *   kernels: FunctionUsage[], copies: CopyUsage[]}} Summary
 * @typedef {{rule: string, title: string, message: string, why: string, remedy: string,
 *   file: string, line: number, function: string, cost_ns: number, calls: number,
 *   share?: number | null, reason?: string, frames: number[]}} Finding
 * @typedef {{key: string, node: string, line: number,
 *   formulas: {arguments: string[], formula: string}[]}} Derivative
 * @typedef {{schema?: string, file?: string, line?: number, tags?: string[], structured?: boolean,
 *   exact?: boolean, derivatives?: Derivative[]}} OpFacts
 * @typedef {{file: number, first: number, lines: string[]}} Excerpt
 * @typedef {{kind: string, layer: string, path: string[], row?: number, what?: string,
 *   before?: any, after?: any, frames?: number, reaches?: any}} Change
 * @typedef {{first: string, second: string, header: [string, string][], summary: Summary,
 *   same_build?: boolean, conclusive?: boolean,
 *   changes: Change[], not_known: Change[]}} Comparison
 * @typedef {{schema: string, mode: string, header: [string, string][],
 *   layers: string[], threads: number[], thread_names: string[],
 *   processes: {id: number | null, rank: number | null}[], summary: Summary, findings: Finding[],
 *   op_facts: Record<string, OpFacts>, excerpts: Excerpt[], frames: Record<string, number[]>,
 *   strings: string[], details: any[], comparison?: Comparison}} Payload
 * @typedef {Int32Array | Float64Array} Column
 */

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
function fromBase64(text) {
  const native = /** @type {any} */ (Uint8Array);
  if (native.fromBase64) return native.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; ++at) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/**
 * Returns the object in an element that contains the base64 of compressed JSON, and empties the
 * element.
 * @param {Element} element
 * @returns {Promise<Payload>}
 */
export async function readPayload(element) {
  const bytes = fromBase64((element.textContent ?? "").trim());
  element.textContent = "";
  const Decompression = /** @type {any} */ (globalThis).DecompressionStream;
  const stream = new Blob([bytes]).stream().pipeThrough(new Decompression("gzip"));
  return new Response(stream).json();
}

// Columns whose numbers may be larger than 32 bits.
const kWideColumns = new Set(["calls", "time", "own_time", "shortest", "longest", "calls_b",
                              "time_b"]);

/** The frames of a report: columns of numbers with one entry for each frame, in preorder. */
export class Frames {
  /** @param {Payload} payload */
  constructor(payload) {
    this.payload = payload;
    this.strings = payload.strings;
    this.count = payload.frames.layer.length || payload.frames.label.length;
    /** @type {Map<string, Column>} */
    this.columns = new Map();
    for (const [name, numbers] of Object.entries(payload.frames)) {
      const Kind = kWideColumns.has(name) ? Float64Array : Int32Array;
      this.columns.set(name, numbers.length === 0 ? new Kind(this.count) : Kind.from(numbers));
    }
    this.hasTimes = payload.frames.time.length > 0 || (payload.frames.time_b ?? []).length > 0;
    this.compares = payload.mode === "compare";
    /** Row of the parent; -1 for a root. */
    this.parent = new Int32Array(this.count);
    /** Row after the last frame below. */
    this.end = new Int32Array(this.count);
    this.setStructure();
    this.layer = this.column("layer");
    this.calls = this.column("calls");
    this.time = this.column("time");
    payload.frames = {};  // The columns have the numbers now.
  }

  setStructure() {
    const up = this.column("up");
    for (let row = 0; row < this.count; ++row)
      this.parent[row] = up[row] === 0 ? -1 : row - up[row];
    for (let row = this.count - 1; row >= 0; --row) {
      if (this.end[row] === 0) this.end[row] = row + 1;
      const parent = this.parent[row];
      if (parent >= 0 && this.end[parent] < this.end[row]) this.end[parent] = this.end[row];
    }
  }

  /**
   * @param {string} name
   * @returns {Column}
   */
  column(name) {
    return this.columns.get(name) ?? new Int32Array(this.count);
  }

  /** @param {string} name @param {number} row */
  number(name, row) {
    return this.columns.get(name)?.[row] ?? 0;
  }

  /** @param {string} name @param {number} row */
  text(name, row) {
    return this.strings[this.number(name, row)] ?? "";
  }

  /** @param {number} row */
  layerName(row) {
    return this.payload.layers[this.layer[row]] ?? "";
  }

  /** @param {number} row */
  detail(row) {
    return this.payload.details[this.number("detail", row)] ?? {};
  }

  /**
   * Returns `aten/src/ATen/native/Convolution.cpp:940`, only the file if the line is unknown, or an
   * empty text.
   * @param {number} row
   * @param {number} length of the text at most.
   */
  place(row, length = Infinity) {
    const file = this.text("file", row);
    if (file === "") return "";
    const line = this.number("line", row) === 0 ? "" : `:${this.lineText(row)}`;
    return shortPath(file, length - line.length) + line;
  }

  /**
   * Returns the line of the definition, with `~` if it is approximate.
   * @param {number} row
   */
  lineText(row) {
    return lineText(this.number("line", row), this.isExact(row));
  }

  /** @param {number} row */
  isExact(row) {
    return (this.number("approximate", row) & 1) === 0;
  }

  /**
   * Returns whether the line at which the parent calls a frame is exact.
   * @param {number} row
   */
  isCallExact(row) {
    return (this.number("approximate", row) & 2) === 0;
  }

  /**
   * Returns `between lines 120 and 160`; empty if the line is exact or no bounds are known.
   * @param {number} row
   * @param {string} of the column of the line: `line` or `call_line`.
   */
  bounds(row, of) {
    const first = this.number(`${of}_first`, row), last = this.number(`${of}_last`, row);
    return first === 0 ? "" : `between lines ${first} and ${last}`;
  }

  /**
   * Returns the link to the definition, or an empty text. Only https: a link comes from the trace.
   * @param {number} row
   * @param {number} line
   */
  link(row, line = this.number("line", row)) {
    const url = this.text("url", row);
    return !url.startsWith("https://") ? "" : line === 0 ? url : `${url}#L${line}`;
  }

  /**
   * Returns the rows above a frame, outermost first.
   * @param {number} row
   */
  above(row) {
    const rows = [];
    for (let at = this.parent[row]; at >= 0; at = this.parent[at]) rows.push(at);
    return rows.reverse();
  }
}
