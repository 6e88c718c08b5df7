// Sortable tables of ops, kernels, library calls and lines.
import { fill, fragment, make } from "./elements.js";
import { distinctPath, readableCount, readableSize, readableTime } from "./format.js";

/**
 * @template Row
 * @typedef {{title: string, value: (row: Row) => string | number,
 *   text?: (row: Row) => string, link?: (row: Row) => string, bar?: boolean,
 *   hint?: (row: Row) => string, name?: boolean}} TableColumn
 */

/**
 * A table that is sorted by the column whose head is clicked.
 * @template Row
 */
export class SortableTable {
  /**
   * @param {string} caption
   * @param {TableColumn<Row>[]} columns
   * @param {Row[]} rows
   * @param {number} limit the number of rows at most; 0 for all.
   */
  constructor(caption, columns, rows, limit = 0) {
    this.columns = columns;
    this.rows = [...rows];
    this.limit = limit;
    this.sortedBy = -1;
    this.descending = false;
    this.heads = columns.map((column, number) => this.head(column, number));
    this.body = make("tbody");
    this.element = make("table", {class: "data"}, make("caption", {}, caption),
                        make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.show();
  }

  /** @param {TableColumn<Row>} column @param {number} number */
  head(column, number) {
    const text = make("span", {}, column.title);
    const content = this.limit > 0 ? text :
      make("button", {type: "button", onclick: () => this.sort(number)}, text);
    return make("th", {scope: "col", class: this.isNumeric(column) ? "number" : null}, content);
  }

  /** @param {TableColumn<Row>} column */
  isNumeric(column) {
    return this.rows.length > 0 && typeof column.value(this.rows[0]) === "number";
  }

  /** @param {number} number of the column; once more for the other direction. */
  sort(number) {
    const column = this.columns[number];
    this.descending = this.sortedBy === number ? !this.descending : this.isNumeric(column);
    this.sortedBy = number;
    this.rows.sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      const order = x < y ? -1 : x > y ? 1 : 0;
      return this.descending ? -order : order;
    });
    this.heads.forEach((head, at) => {
      const order = this.descending ? "descending" : "ascending";
      if (at === number) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
    this.show();
  }

  show() {
    const shown = this.limit > 0 ? this.rows.slice(0, this.limit) : this.rows;
    const largest = this.columns.map((column) => (column.bar ?
      Math.max(...this.rows.map((row) => Number(column.value(row))), 1) : 0));
    fill(this.body, ...shown.map((row) => make("tr", {}, ...this.columns.map(
      (column, number) => this.cell(column, row, largest[number])))));
  }

  /** @param {TableColumn<Row>} column @param {Row} row @param {number} largest */
  cell(column, row, largest) {
    const value = column.value(row);
    const text = column.text ? column.text(row) : String(value);
    const classes = [typeof value === "number" ? "number" : "", column.name ? "name" : ""];
    const cell = make("td", {
      class: classes.join(" ").trim() || null, title: column.hint?.(row) ?? null,
    }, column.link ? make("a", {href: column.link(row)}, text) : text);
    if (column.bar && Number(value) > 0) {
      const bar = make("i", {class: "bar"});
      bar.style.width = `${100 * Number(value) / largest}%`;
      cell.prepend(bar);
    }
    return cell;
  }
}

/**
 * @typedef {import("./payload.js").Payload} Payload
 * @typedef {import("./payload.js").Summary} Summary
 */

/**
 * @template {{calls: number}} Row
 * @returns {TableColumn<Row>}
 */
function callsColumn() {
  return {title: "calls", value: (row) => row.calls, text: (row) => readableCount(row.calls)};
}

/**
 * @template Row
 * @param {string} title
 * @param {(row: Row) => number} value
 * @returns {TableColumn<Row>}
 */
function timeColumn(title, value) {
  return {title, value, bar: true,
          text: (row) => (value(row) === 0 ? "" : readableTime(value(row)))};
}

/**
 * @param {Summary} summary
 * @param {number} limit
 */
export function opTable(summary, limit = 0) {
  /** @type {TableColumn<import("./payload.js").OpUsage>[]} */
  const columns = [
    {title: "op", name: true, value: (row) => row.op,
     link: (row) => fragment("tree", null, `op:${row.op}`)},
    callsColumn(), timeColumn("own time", (row) => row.own_time),
    timeColumn("time", (row) => row.time),
    {title: "work done by", name: true, value: (row) => row.work, hint: (row) => row.work},
    {title: "inputs", value: (row) => row.inputs, hint: (row) => row.inputs,
     text: (row) => row.inputs + (row.kinds > 1 ? ` and ${row.kinds - 1} more` : "")},
  ];
  return new SortableTable("Ops", columns, summary.ops ?? [], limit);
}

/**
 * @param {string} caption
 * @param {import("./payload.js").FunctionUsage[]} functions
 * @param {number} limit
 */
export function functionTable(caption, functions, limit = 0) {
  /** @type {TableColumn<import("./payload.js").FunctionUsage>[]} */
  const columns = [
    {title: "function", name: true, value: (row) => row.name, hint: (row) => row.name,
     link: (row) => fragment("tree", null, `function:${row.name}`)},
    callsColumn(), timeColumn("time", (row) => row.time),
  ];
  if (functions.some((one) => one.library !== ""))
    columns.splice(1, 0, {title: "library", value: (row) => row.library});
  return new SortableTable(caption, columns, functions, limit);
}

/**
 * @param {Summary} summary
 * @param {number} limit
 */
export function lineTable(summary, limit = 0) {
  const files = [...new Set((summary.lines ?? []).map((line) => line.file))];
  /** @type {TableColumn<import("./payload.js").OwnLine>[]} */
  const columns = [
    {title: "line", name: true, value: (row) => `${row.file}:${row.line}`,
     text: (row) => (row.file === "" ? "" : `${distinctPath(row.file, files)}:${row.line}`),
     hint: (row) => `${row.file}:${row.line}`,
     link: (row) => fragment("tree", null, row.file === "" ? "" : `line:${row.file}:${row.line}`)},
    {title: "in", name: true, value: (row) => row.function},
    callsColumn(), timeColumn("time", (row) => row.time),
    {title: "ops", value: (row) => mainOps(row.ops),
     hint: (row) => Object.keys(row.ops).join(", ")},
  ];
  return new SortableTable("Lines of the program", columns, summary.lines ?? [], limit);
}

/** @param {Record<string, number>} ops */
function mainOps(ops) {
  const names = Object.entries(ops).sort((a, b) => b[1] - a[1])
    .map(([name]) => name.replace(/^aten::/, ""));
  return names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : "");
}

/** @param {Summary} summary */
export function copyTable(summary) {
  /** @type {TableColumn<import("./payload.js").CopyUsage>[]} */
  const columns = [
    {title: "direction", value: (row) => row.direction}, callsColumn(),
    {title: "bytes", value: (row) => row.bytes, text: (row) => readableSize(row.bytes)},
  ];
  return new SortableTable("Memory copied", columns, summary.copies ?? []);
}

/**
 * Returns the tables that have rows, by name.
 * @param {Summary} summary
 * @param {string} suffix of the names.
 * @param {string} of what the rows are of, for titles.
 * @returns {{name: string, title: string, rows: number, make: () => HTMLElement}[]}
 */
function tablesOf(summary, suffix, of) {
  return [
    {name: "ops", title: "Ops", rows: (summary.ops ?? []).length,
     make: () => opTable(summary).element},
    {name: "libraries", title: "Library calls", rows: (summary.libraries ?? []).length,
     make: () => functionTable("Library calls", summary.libraries).element},
    {name: "kernels", title: "Device kernels", rows: (summary.kernels ?? []).length,
     make: () => functionTable("Device kernels", summary.kernels).element},
    {name: "copies", title: "Memory copied", rows: (summary.copies ?? []).length,
     make: () => copyTable(summary).element},
    {name: "lines", title: "Lines of the program", rows: ownLines(summary).length,
     make: () => lineTable(summary).element},
  ].filter((table) => table.rows > 0)
    .map((table) => ({...table, name: table.name + suffix, title: table.title + of}));
}

/**
 * Returns all tables of the page; of a comparison, those of both reports.
 * @param {Payload} payload
 */
export function allTables(payload) {
  const {summary, comparison} = payload;
  if (!comparison) return tablesOf(summary, "", "");
  return [...tablesOf(summary, "_a", " of A"), ...tablesOf(comparison.summary, "_b", " of B")];
}

/** @param {Summary} summary */
export function ownLines(summary) {
  return (summary.lines ?? []).filter((line) => line.file !== "");
}
