// A line of the tree: a frame's layer, name, numbers and place.
import { Tree } from "./tree.js";
import { make, outwardLink } from "./elements.js";
import { readableChange, readableCount, readableTime } from "./format.js";

export const kIndent = 14;  // Pixels; as in tree.css.
const kPlaceLength = 27;

/** How the lines of a comparison are marked; read without colours. */
export const kSides = [
  {sign: "", text: ""},
  {sign: "−", text: "only in A"},
  {sign: "+", text: "only in B"},
  {sign: "≠", text: "differs"},
];

/** Makes the elements of lines. */
export class TreeLines {
  /**
   * @param {Tree} tree
   * @param {() => RegExp | null} mark what to mark in names.
   */
  constructor(tree, mark) {
    this.tree = tree;
    this.frames = tree.frames;
    this.mark = mark;
    this.whole = this.wholeTime();
  }

  /** The time of the whole tree, against which the bars are drawn. */
  wholeTime() {
    let whole = 0;
    const {frames} = this;
    const second = frames.column("time_b");
    for (let row = 0; row < frames.count; row = frames.end[row])
      whole += Math.max(frames.time[row], second[row]);
    return whole;
  }

  columnNames() {
    const names = this.frames.compares ?
      ["calls A", "calls B", "time A", "time B", "change"] : ["calls", "", "time", "own time"];
    return make("div", {class: "line column-names", "aria-hidden": "true"},
                make("span", {class: "tag"}, "layer"), make("span", {class: "path"}, "function"),
                ...names.map((name) => make("span", {class: classOfColumn(name)}, name)),
                make("span", {class: "place"}, "defined at"));
  }

  /**
   * Returns the line of a frame.
   * @param {number} at number of the frame in the tree's shape.
   */
  line(at) {
    const {tree, frames} = this;
    const row = tree.shape.rows[at];
    const layer = frames.layerName(row);
    const hasBelow = tree.shape.children[at] > 0;
    return make("div", {
      class: "line", role: "treeitem", id: `row-${row}`,
      "aria-level": tree.shape.depth[at] + 1, "aria-setsize": tree.shape.siblings(at),
      "aria-posinset": tree.shape.position[at],
      "aria-expanded": hasBelow ? String(tree.isOpen(row)) : null,
    }, ...this.sign(row), make("span", {class: `tag layer-${layer}`}, layer),
       this.path(at, row, hasBelow), ...this.numbers(row), this.place(row));
  }

  /** @param {number} row */
  sign(row) {
    if (!this.frames.compares) return [];
    const side = this.frames.number("side", row);
    const {sign, text} = kSides[side] ?? kSides[0];
    return [make("span", {class: `sign side-${side}`, title: text, "aria-label": text}, sign)];
  }

  /**
   * @param {number} at
   * @param {number} row
   * @param {boolean} hasBelow
   */
  path(at, row, hasBelow) {
    const {frames, tree} = this;
    const side = frames.compares ? ` side-${frames.number("side", row)}` : "";
    const guides = make("span", {class: "guides"});
    guides.style.width = `${tree.shape.indent[at] * kIndent}px`;
    const isStep = tree.isOpen(row) && tree.shape.children[at] === 1;
    const caret = make("span", {class: `caret${isStep ? " step" : ""}`, "aria-hidden": "true"},
                       hasBelow ? (tree.isOpen(row) ? "▾" : "▸") : "");
    const note = frames.text("note", row);
    const why = frames.text("why", row);
    return make("span", {class: `path${side}`}, guides, caret,
                make("span", {class: "name"}, ...this.marked(frames.text("label", row))),
                note === "" ? null : make("span", {class: "note"}, ...this.marked(note)),
                why === "" ? null : make("span", {class: "why"}, ...this.marked(why)));
  }

  /**
   * Returns a text with what the search looks for marked.
   * @param {string} text
   */
  marked(text) {
    const found = this.mark()?.exec(text);
    if (!found || found[0] === "") return [text];
    const end = found.index + found[0].length;
    return [text.slice(0, found.index), make("mark", {}, found[0]), text.slice(end)];
  }

  /** @param {number} row */
  numbers(row) {
    const {frames} = this;
    const calls = frames.number("calls", row), time = frames.number("time", row);
    if (!frames.compares) {
      return [make("span", {class: "calls"}, calls === 1 ? "" : `×${readableCount(calls)}`),
              this.share(time), timeCell("time", time),
              timeCell("own time", frames.number("own_time", row))];
    }
    const side = frames.number("side", row);
    const callsB = frames.number("calls_b", row), timeB = frames.number("time_b", row);
    const inA = side !== 2, inB = side !== 1;
    const differ = inA && inB && calls !== callsB ? " differs" : "";
    return [make("span", {class: "calls"}, inA ? readableCount(calls) : "·"),
            make("span", {class: `calls${differ}`}, inB ? readableCount(callsB) : "·"),
            timeCell("time A", inA ? time : 0), timeCell("time B", inB ? timeB : 0),
            make("span", {class: "change"}, inA && inB ? readableChange(time, timeB) : "")];
  }

  /**
   * Returns a bar for a part of the whole time.
   * @param {number} time
   */
  share(time) {
    const bar = make("i", {class: "bar"});
    bar.style.width = `${100 * Math.min(1, time / Math.max(this.whole, 1))}%`;
    return make("span", {class: "share", "aria-hidden": "true"}, time > 0 ? bar : null);
  }

  /** @param {number} row */
  place(row) {
    const text = this.frames.place(row, kPlaceLength);
    const cell = make("span", {class: "place", title: this.frames.place(row)});
    if (text !== "") cell.append(outwardLink(this.frames.link(row), text));
    for (const link of cell.querySelectorAll("a")) link.tabIndex = -1;
    return cell;
  }
}

/** @param {string} name */
function classOfColumn(name) {
  if (name === "") return "share";
  return name.startsWith("calls") ? "calls" : name === "change" ? "change" : "time";
}

/**
 * @param {string} name that of the column, which a screen reader has to read with it.
 * @param {number} time
 */
function timeCell(name, time) {
  if (time <= 0) return make("span", {class: "time"});
  const text = readableTime(time);
  return make("span", {class: "time", "aria-label": `${name} ${text}`}, text);
}
