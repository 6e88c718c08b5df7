// The panel of the selected frame.
import { Frames } from "./payload.js";
import { fill, fragment, make, outwardLink } from "./elements.js";
import { counted, readableChange, readableCount, readablePart } from "./format.js";
import { lineText, readableTime, shortPath } from "./format.js";
import { callTable, keyList, otherFacts, requests, storageList, terms, variantTable } from "./details.js";
import { valueText } from "./details.js";
import { kSides } from "./tree_line.js";

const kLinesAround = 5;  // Lines of source above and below the marked one.

export class Panel {
  /**
   * @param {Frames} frames
   * @param {() => string} view the name of the current view, for links.
   */
  constructor(frames, view) {
    this.frames = frames;
    this.view = view;
    this.whole = 0;
    for (let row = 0; row < frames.count; row = frames.end[row]) this.whole += frames.time[row];
    this.content = make("div", {class: "content"});
    this.element = make("aside", {class: "panel", tabindex: "-1", "aria-label": "Selected frame"},
                        this.content);
    this.show(-1);
  }

  /** @param {number} row */
  show(row) {
    this.element.scrollTop = 0;
    if (row < 0) {
      const facts = this.frames.payload.header.filter(([label]) => label !== "");
      fill(this.content, terms(facts),
           make("p", {class: "empty"}, "Select a frame for its source, arguments and dispatch. " +
                "Press ? for the keys."));
      return;
    }
    const detail = this.frames.detail(row);
    fill(this.content, this.head(row), this.numbers(row), this.changes(row),
         ...section("Source", this.source(row)),
         ...section("Op", this.op(row, detail)),
         ...section("Dispatch", this.dispatch(row, detail)),
         ...section("Arguments and results", callTable(detail)),
         ...section("Storages", storageList(detail)),
         ...section("Kinds of calls", variantTable(detail)),
         ...section("Calls", this.why(row, detail), ...requests(detail, "calls")),
         ...section("Launches", ...requests(detail, "launches")),
         ...section("Configurations", ...requests(detail, "configurations")),
         ...section("Details", otherFacts(detail, this.frames.isCallExact(row))),
         ...section("Symbol", this.symbol(row)),
         this.path(row));
  }

  /** @param {number} row */
  head(row) {
    const {frames} = this;
    const layer = frames.layerName(row);
    const name = frames.text("name", row), label = frames.text("label", row);
    return make("header", {},
                make("p", {class: "top"},
                     make("span", {class: `tag layer-${layer}`}, layer),
                     make("span", {class: "note"}, frames.text("note", row)),
                     make("a", {
                       href: fragment(this.view(), row), class: "permalink",
                       title: "A link to this frame",
                     }, `frame ${row}`)),
                make("h2", {}, label),
                name === label ? null : make("p", {class: "full-name"}, name));
  }

  /** @param {number} row */
  numbers(row) {
    const {frames} = this;
    const time = frames.number("time", row);
    if (frames.compares) return this.comparedNumbers(row);
    const shortest = frames.number("shortest", row), longest = frames.number("longest", row);
    const calls = frames.number("calls", row);
    const names = frames.payload.thread_names ?? [];
    return terms([
      ["calls", readableCount(calls)],
      ["time", time === 0 ? null :
        `${readableTime(time)}${bracketed(readablePart(time, this.whole))}`],
      ["own time", time > 0 ? readableTime(frames.number("own_time", row)) : null],
      ["a call", calls > 1 && longest > 0 ?
        `${readableTime(shortest)} to ${readableTime(longest)}` : null],
      ["thread", names.length > 1 ? names[frames.number("thread", row)] : null],
      ["ranks", frames.text("ranks", row)],
    ]);
  }

  /** @param {number} row */
  comparedNumbers(row) {
    const {frames} = this;
    const time = frames.number("time", row), timeB = frames.number("time_b", row);
    const side = frames.number("side", row);
    /** @param {number} a @param {number} b @param {(value: number) => string} format */
    const both = (a, b, format) => (side === 1 ? format(a) : side === 2 ? format(b) :
      `${format(a)} → ${format(b)}${bracketed(readableChange(a, b))}`);
    return terms([
      ["difference", kSides[side]?.text ?? null],
      ["calls", both(frames.number("calls", row), frames.number("calls_b", row), readableCount)],
      ["time", time + timeB > 0 ? both(time, timeB, readableTime) : null],
    ]);
  }

  /** @param {number} row */
  changes(row) {
    const comparison = this.frames.payload.comparison;
    const list = [...comparison?.changes ?? [], ...comparison?.not_known ?? []]
      .filter((change) => change.row === row);
    const items = list.map((change) => make("li", {}, changeText(change)));
    return items.length === 0 ? null : make("ul", {class: "changes"}, ...items);
  }

  /** @param {number} row */
  source(row) {
    const {frames} = this;
    const parts = [];
    if (frames.text("file", row) !== "")
      parts.push(make("p", {class: "where"}, "defined at ",
                      outwardLink(frames.link(row), frames.place(row)),
                      ...boundsOf(frames.bounds(row, "line"))));
    parts.push(this.excerpt(frames.number("excerpt", row), frames.number("line", row),
                            frames.isExact(row)));
    const line = frames.number("call_line", row), parent = frames.parent[row];
    if (line > 0 && parent >= 0) {
      const exact = frames.isCallExact(row);
      const place = `${frames.text("file", parent)}:${lineText(line, exact)}`;
      parts.push(make("p", {class: "where"}, "called at ",
                      outwardLink(frames.link(parent, line), place),
                      ...boundsOf(frames.bounds(row, "call_line"))));
      parts.push(this.excerpt(frames.number("call_excerpt", row), line, exact));
    }
    const present = parts.filter((part) => part !== null);
    return present.length === 0 ? null : make("div", {}, ...present);
  }

  /**
   * Returns the source around a line, which is marked if it is exact.
   * @param {number} number of the excerpt.
   * @param {number} line
   * @param {boolean} exact
   */
  excerpt(number, line, exact) {
    const excerpt = number === 0 ? undefined : this.frames.payload.excerpts[number - 1];
    if (excerpt === undefined) return null;
    const first = Math.max(excerpt.first, line - kLinesAround);
    const end = Math.min(excerpt.first + excerpt.lines.length, line + kLinesAround + 1);
    const lines = withoutIndentation(excerpt.lines.slice(first - excerpt.first,
                                                         end - excerpt.first));
    const code = make("code", {});
    for (let at = first; at < end; ++at) {
      const text = lines[at - first];
      const element = make(at === line && exact ? "mark" : "span", {class: "code-line"},
                           make("span", {class: "number"}, String(at)), `${text}\n`);
      code.append(element);
    }
    return make("pre", {class: "excerpt", tabindex: "0", "aria-label": "Source lines"}, code);
  }

  /** @param {number} row @param {any} detail */
  op(row, detail) {
    const op = this.frames.text("op", row);
    const layer = this.frames.layerName(row);
    if (op === "" || (layer !== "dispatcher" && layer !== "autograd")) return null;
    const facts = this.frames.payload.op_facts[op] ?? {};
    const schema = facts.schema ?? detail.schema;
    return make("div", {},
                schema ? make("pre", {class: "signature"}, wrapSignature(schema)) : null,
                terms([
                  ["declared at", facts.file ? placeOfOp(facts) : null],
                  ["tags", (facts.tags ?? []).join(", ")],
                  ["structured", facts.structured ? "yes" : null],
                  ["all calls", findOp(op)],
                ]),
                ...(facts.derivatives ?? []).map((one) => derivative(one, facts.exact !== false)));
  }

  /**
   * Returns the line that the tree shows of a frame's requests, if the details don't list them.
   * @param {number} row
   * @param {any} detail
   */
  why(row, detail) {
    const why = this.frames.text("why", row);
    return why === "" || detail.calls || detail.launches ? null : make("p", {class: "why"}, why);
  }

  /** @param {number} row @param {any} detail */
  dispatch(row, detail) {
    const keys = keyList(detail);
    const list = terms([
      ["why", this.frames.text("choice", row)],
      ["chosen key", detail.dispatch_key],
      ["kernel", detail.kernel],
      ["registered at", detail.registered_at],
      ["through", detail.dispatch && detail.dispatch !== "kernel" ? detail.dispatch : null],
      ["keys", keys],
      ["from thread state", listText(detail.included)],
      ["excluded", listText(detail.excluded)],
      ["fallthrough", listText(detail.fallthrough)],
    ]);
    return list.children.length === 0 ? null : list;
  }

  /** @param {number} row */
  symbol(row) {
    const symbol = this.frames.text("symbol", row);
    if (symbol === "") return null;
    return make("div", {}, make("p", {class: "symbol"}, symbol),
                make("p", {class: "note"}, this.frames.text("library", row)));
  }

  /**
   * Returns the frames above, which are listed when a reader opens the list: there may be thousands.
   * @param {number} row
   */
  path(row) {
    const rows = this.frames.above(row);
    if (rows.length === 0) return null;
    const list = make("ol");
    const open = () => fill(list, ...rows.map((above) => make("li", {}, make(
      "a", {href: fragment(this.view(), above)}, this.frames.text("label", above)))));
    return make("details", {class: "path-above", ontoggle: open},
                make("summary", {}, `Path: ${counted(rows.length, "frame")} above`), list);
  }
}

/**
 * @param {string} title
 * @param {...(Node | null)} content
 */
function section(title, ...content) {
  const present = content.filter((part) => part !== null);
  return present.length === 0 ? [] : [make("h3", {}, title), ...present];
}

/**
 * Returns the place of an op's entry in native_functions.yaml.
 * @param {import("./payload.js").OpFacts} facts
 */
function placeOfOp(facts) {
  return `${shortPath(facts.file ?? "", 40)}:${lineText(facts.line ?? 0, facts.exact !== false)}`;
}

/**
 * Returns the element for the bounds of a line, if there are some.
 * @param {string} bounds
 */
function boundsOf(bounds) {
  return bounds === "" ? [] : [" ", make("span", {class: "note"}, bounds)];
}

/**
 * Removes the blanks that all lines begin with.
 * @param {string[]} lines
 */
function withoutIndentation(lines) {
  const indented = lines.filter((line) => line.trim() !== "");
  const least = Math.min(...indented.map((line) => line.length - line.trimStart().length));
  return lines.map((line) => line.slice(Number.isFinite(least) ? least : 0));
}

/** @param {string} op */
function findOp(op) {
  return make("a", {href: fragment("tree", null, `op:${op}`)}, `find ${op}`);
}

/** @param {string} text */
function bracketed(text) {
  return text === "" ? "" : ` (${text})`;
}

/** @param {any} list */
function listText(list) {
  return Array.isArray(list) && list.length > 0 ? list.join(", ") : null;
}

/**
 * Returns a long schema with each argument in a line of its own.
 * @param {string} schema
 */
function wrapSignature(schema) {
  if (schema.length < 60) return schema;
  const open = schema.indexOf("("), close = schema.lastIndexOf(") ->");
  if (open < 0 || close < open) return schema;
  const list = schema.slice(open + 1, close).split(/, (?![^([]*[)\]])/);
  return `${schema.slice(0, open)}(\n  ${list.join(",\n  ")}\n${schema.slice(close)}`;
}

/**
 * @param {import("./payload.js").Derivative} one
 * @param {boolean} exact the line is exact.
 */
function derivative(one, exact) {
  const lines = (one.formulas ?? []).map(
    ({arguments: names, formula}) => `${names.join(", ")}: ${formula}`);
  return make("div", {class: "derivative"},
              make("p", {class: "note"}, `derivative: ${one.node} ` +
                `(derivatives.yaml:${lineText(one.line, exact)})`),
              lines.length === 0 ? null : make("pre", {class: "signature"}, lines.join("\n")));
}

/** @param {import("./payload.js").Change} change */
export function changeText(change) {
  const reached = [change.reaches ?? []].flat().map(valueText).join(", ");
  const reaches = reached === "" ? "" : `, reaches ${reached}`;
  const frames = counted(change.frames ?? 0, "frame");
  if (change.kind === "vanished") return `only in A: ${frames}${reaches}`;
  if (change.kind === "appeared") return `only in B: ${frames}${reaches}`;
  const what = change.kind === "count" ? "calls" : valueText(change.what).replaceAll("_", " ");
  return `${what}: ${valueText(change.before)} → ${valueText(change.after)}`;
}
