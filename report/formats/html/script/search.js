// Search in names, ops and files.
import { readableCount } from "./format.js";
import { Frames } from "./payload.js";

/** The columns that a search without a field looks at. */
const kSearched = ["label", "note", "why", "name", "op", "file", "library"];

/** @param {string} text */
function escapePattern(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

/**
 * Returns the test for a text, which ignores case. Throws SyntaxError for a wrong pattern.
 * @param {string} text
 * @param {boolean} isPattern
 */
export function textPattern(text, isPattern) {
  return new RegExp(isPattern ? text : escapePattern(text), "i");
}

/**
 * Returns the rows in which one of the columns matches. Each text is tested once.
 * @param {Frames} frames
 * @param {string[]} columns
 * @param {(text: string) => boolean} matches
 */
function rowsWithText(frames, columns, matches) {
  const known = new Int8Array(frames.strings.length);
  const searched = columns.map((name) => frames.column(name));
  const rows = [];
  for (let row = 0; row < frames.count; ++row) {
    for (const column of searched) {
      const text = column[row];
      if (text !== 0 && known[text] === 0) known[text] = matches(frames.strings[text]) ? 1 : -1;
      if (known[text] === 1) {
        rows.push(row);
        break;
      }
    }
  }
  return rows;
}

/**
 * Returns the frames that a line of the program calls; without those, the functions that begin
 * there.
 * @param {Frames} frames
 * @param {string} place `train.py:17`
 */
function rowsAtLine(frames, place) {
  const at = place.lastIndexOf(":");
  const file = frames.strings.indexOf(place.slice(0, at));
  const line = Number(place.slice(at + 1));
  const files = frames.column("file");
  const callLines = frames.column("call_line");
  const lines = frames.column("line");
  const called = [], defined = [];
  for (let row = 0; row < frames.count; ++row) {
    const parent = frames.parent[row];
    if (callLines[row] === line && parent >= 0 && files[parent] === file) called.push(row);
    if (lines[row] === line && files[row] === file) defined.push(row);
  }
  return called.length > 0 ? called : defined;
}

/**
 * @param {Frames} frames
 * @param {string} op
 */
function rowsOfOp(frames, op) {
  return rowsWithText(frames, ["op"], (text) => text === op)
    .filter((row) => frames.layerName(row) === "dispatcher");
}

/**
 * @param {Frames} frames
 * @param {string} name
 */
function rowsNamed(frames, name) {
  return rowsWithText(frames, ["label", "name"], (text) => text === name);
}

/** @type {Record<string, (frames: Frames, value: string) => number[]>} */
const kFields = {"op:": rowsOfOp, "line:": rowsAtLine, "function:": rowsNamed};

/**
 * Returns the rows that a query finds, in the order of the tree. A query is a part of a text,
 * a pattern, or one of `op:NAME`, `function:NAME`, `line:FILE:LINE`, which want the whole name.
 * @param {Frames} frames
 * @param {string} query
 * @param {boolean} isPattern
 */
export function findRows(frames, query, isPattern) {
  if (query === "") return [];
  for (const [field, find] of Object.entries(kFields))
    if (query.startsWith(field)) return find(frames, query.slice(field.length));
  const pattern = textPattern(query, isPattern);
  return rowsWithText(frames, kSearched, (text) => pattern.test(text));
}

/** The search of the page: its results and the current one. */
export class Search {
  /** @param {Frames} frames */
  constructor(frames) {
    this.frames = frames;
    this.query = "";
    this.isPattern = false;
    this.error = "";
    /** @type {number[]} */
    this.found = [];
    /**
     * Rows of `found` that the filters leave.
     * @type {number[]}
     */
    this.rows = [];
  }

  /**
   * @param {string} query
   * @param {boolean} isPattern
   * @param {(row: number) => boolean} isKept
   */
  run(query, isPattern, isKept) {
    this.query = query;
    this.isPattern = isPattern;
    this.error = "";
    try {
      this.found = findRows(this.frames, query, isPattern);
    } catch (error) {
      this.found = [];
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.restrict(isKept);
  }

  /** @param {(row: number) => boolean} isKept */
  restrict(isKept) {
    this.rows = this.found.filter(isKept);
    this.rowSet = new Set(this.rows);
  }

  /** @param {number} row */
  has(row) {
    return this.rowSet?.has(row) ?? false;
  }

  /**
   * Returns the result after (1) or before (-1) a row, and the first or last one beyond the ends;
   * -1 if there is none.
   * @param {number} row
   * @param {1 | -1} direction
   */
  next(row, direction) {
    const {rows} = this;
    if (rows.length === 0) return -1;
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (direction > 0 ? rows[middle] <= row : rows[middle] < row) low = middle + 1;
      else high = middle;
    }
    const at = direction > 0 ? low : low - 1;
    return rows[(at + rows.length) % rows.length];
  }

  /**
   * Returns `3 of 17`, with the number of a row if it is a result.
   * @param {number} row
   */
  summary(row) {
    if (this.error !== "") return "not a valid pattern";
    if (this.query === "") return "";
    const left = this.found.length - this.rows.length;
    const hidden = left === 0 ? "" : `, ${readableCount(left)} filtered out`;
    const count = readableCount(this.rows.length);
    const at = this.has(row) ? `${readableCount(this.rows.indexOf(row) + 1)} of ` : "";
    return this.rows.length === 0 ? `nothing found${hidden}` : `${at}${count} found${hidden}`;
  }

  /** The pattern to mark in a name; null if there is none. */
  mark() {
    if (this.query === "" || this.error !== "") return null;
    if (Object.keys(kFields).some((field) => this.query.startsWith(field))) return null;
    return textPattern(this.query, this.isPattern);
  }
}
