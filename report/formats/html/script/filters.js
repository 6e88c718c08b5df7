// Filters: which frames are in the tree and in the flame graph.
import { Frames } from "./payload.js";
import { fill, make, makeSelect, makeToggle } from "./elements.js";
import { readableCount } from "./format.js";

/** @typedef {{name: string, count: number}} Choice */

/**
 * Returns the classes of nn.Module that have calls: frames named `X.forward` below the function
 * that calls a module.
 * @param {Frames} frames
 * @param {number} row
 */
function moduleClass(frames, row) {
  const label = frames.text("label", row);
  if (!label.endsWith(".forward") || frames.parent[row] < 0) return "";
  return /\b_?call_impl$/.test(frames.text("label", frames.parent[row])) ? label.slice(0, -8) : "";
}

/**
 * Returns true if ranks such as `1, 4 to 7` contain one.
 * @param {string} ranks
 * @param {number} wanted
 */
export function containsRank(ranks, wanted) {
  return ranks === "" || ranks.split(",").some((part) => {
    const [first, last] = part.trim().split(" to ").map(Number);
    return first <= wanted && wanted <= (last ?? first);
  });
}

/**
 * @param {Frames} frames
 * @param {(row: number) => string} nameOf
 * @returns {Choice[]} by name.
 */
function choices(frames, nameOf) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (let row = 0; row < frames.count; ++row) {
    const name = nameOf(row);
    if (name !== "") counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => ({name, count}))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * @param {Uint8Array} kept
 * @param {(row: number) => boolean} passes
 */
function keepRows(kept, passes) {
  for (let row = 0; row < kept.length; ++row) if (kept[row] && !passes(row)) kept[row] = 0;
}

/**
 * Keeps the rows that match, and those below them.
 * @param {Frames} frames
 * @param {Uint8Array} kept
 * @param {(row: number) => boolean} matches
 */
function keepSubtrees(frames, kept, matches) {
  for (let row = 0; row < frames.count;) {
    if (matches(row)) row = frames.end[row];
    else kept[row++] = 0;
  }
}

/**
 * Adds the rows that lead to kept ones.
 * @param {Frames} frames
 * @param {Uint8Array} kept
 */
function keepAbove(frames, kept) {
  for (let row = frames.count - 1; row >= 0; --row)
    if (kept[row] && frames.parent[row] >= 0) kept[frames.parent[row]] = 1;
}

/** The state of the filters, and their elements. */
export class Filters {
  /**
   * Numbers of layers that are left out.
   * @type {Set<number>}
   */
  hiddenLayers = new Set();
  op = "";
  /** `c:`, `f:` or `l:` for a class, a file or a library, and its name. */
  module = "";
  thread = -1;
  rank = -1;
  ownCode = false;
  differences = false;
  resetButton = make("button", {
    type: "button", class: "quiet", hidden: true, onclick: () => this.reset(),
  }, "Reset filters");
  element = make("div", {class: "filters", role: "group", "aria-label": "Filters"});

  /**
   * @param {Frames} frames
   * @param {(kept: Uint8Array | null) => void} changed
   */
  constructor(frames, changed) {
    this.frames = frames;
    this.changed = changed;
    this.show();
  }

  reset() {
    this.hiddenLayers.clear();
    this.op = this.module = "";
    this.thread = this.rank = -1;
    this.ownCode = this.differences = false;
    this.show();
    this.apply();
  }

  /** True if some frames are left out. */
  get active() {
    return this.hiddenLayers.size > 0 || this.op !== "" || this.module !== "" ||
      this.thread >= 0 || this.rank >= 0 || this.ownCode || this.differences;
  }

  apply() {
    this.resetButton.hidden = !this.active;
    this.changed(this.active ? this.kept() : null);
  }

  /** Returns 1 for each row that passes all filters. */
  kept() {
    const {frames} = this;
    const kept = new Uint8Array(frames.count).fill(1);
    if (this.op !== "") keepSubtrees(frames, kept, this.rowsOfOp());
    if (this.module !== "") keepSubtrees(frames, kept, this.rowsOfModule());
    const sides = frames.column("side");
    if (this.differences) keepRows(kept, (row) => sides[row] !== 0);
    keepAbove(frames, kept);
    const threads = frames.column("thread"), own = frames.column("own_code");
    if (this.thread >= 0) keepRows(kept, (row) => threads[row] === this.thread);
    if (this.rank >= 0) keepRows(kept, (row) => containsRank(frames.text("ranks", row), this.rank));
    keepRows(kept, (row) => !this.hiddenLayers.has(frames.layer[row]));
    if (this.ownCode) keepRows(kept, (row) => own[row] === 1);
    return kept;
  }

  rowsOfOp() {
    const ops = this.frames.column("op");
    const op = this.frames.strings.indexOf(this.op);
    return (/** @type {number} */ row) => ops[row] === op;
  }

  rowsOfModule() {
    const {frames} = this;
    const [kind, name] = [this.module.slice(0, 1), this.module.slice(2)];
    if (kind === "c") return (/** @type {number} */ row) => moduleClass(frames, row) === name;
    const column = frames.column(kind === "l" ? "library" : "file");
    const text = frames.strings.indexOf(name);
    return (/** @type {number} */ row) => column[row] === text;
  }

  show() {
    const {frames} = this;
    const own = frames.column("own_code").includes(1) && makeToggle(
      "own code only", {title: "Only the program's own Python functions"},
      (on) => { this.ownCode = on; this.apply(); });
    const differences = frames.compares && makeToggle(
      "differences only", {title: "Only frames that differ, and those that lead to them"},
      (on) => { this.differences = on; this.apply(); });
    fill(this.element, this.layerButtons(), differences || null, own || null, this.opSelect(),
         this.moduleSelect(), this.threadSelect(), this.rankSelect(), this.resetButton);
  }

  layerButtons() {
    const group = make("span", {class: "layers", role: "group", "aria-label": "Layers"});
    const present = new Set(this.frames.layer);
    this.frames.payload.layers.forEach((name, number) => {
      if (!present.has(number)) return;
      const title = `Show or leave out frames of the layer ${name}`;
      group.append(makeToggle(name, {
        title, "aria-pressed": "true", class: `layer layer-${name}`,
      }, (on) => {
        if (on) this.hiddenLayers.delete(number);
        else this.hiddenLayers.add(number);
        this.apply();
      }));
    });
    return group;
  }

  opSelect() {
    const ops = choices(this.frames, (row) => this.frames.text("op", row));
    return this.select("op", "all ops", optionsOf(ops), (value) => { this.op = value; });
  }

  moduleSelect() {
    const {frames} = this;
    const classes = choices(frames, (row) => moduleClass(frames, row));
    const files = choices(frames, (row) => (frames.layerName(row) === "python" ?
      frames.text("file", row) : ""));
    const libraries = choices(frames, (row) => frames.text("library", row));
    const groups = [
      make("optgroup", {label: "nn.Module"}, ...optionsOf(classes, "c:")),
      make("optgroup", {label: "Python file"}, ...optionsOf(files, "f:")),
      make("optgroup", {label: "shared library"}, ...optionsOf(libraries, "l:")),
    ].filter((group) => group.children.length > 0);
    return this.select("module", "all modules", groups, (value) => { this.module = value; });
  }

  threadSelect() {
    const names = this.frames.payload.thread_names ?? [];
    const options = names.map((name, number) => make("option", {value: number}, name));
    if (options.length < 2) return null;
    return this.select("thread", "all threads", options,
                       (value) => { this.thread = value === "" ? -1 : Number(value); });
  }

  rankSelect() {
    const options = (this.frames.payload.processes ?? []).map(({id, rank}) => make(
      "option", {value: rank ?? id}, rank === null ? `process ${id}` : `rank ${rank}`));
    if (options.length < 2) return null;
    return this.select("rank", "all ranks", options,
                       (value) => { this.rank = value === "" ? -1 : Number(value); });
  }

  /**
   * @param {string} label
   * @param {string} all
   * @param {(HTMLOptionElement | HTMLOptGroupElement)[]} options
   * @param {(value: string) => void} set
   */
  select(label, all, options, set) {
    if (options.length === 0) return null;
    return makeSelect(label, [make("option", {value: ""}, all), ...options], (value) => {
      set(value);
      this.apply();
    });
  }
}

/**
 * @param {Choice[]} list
 * @param {string} prefix
 */
function optionsOf(list, prefix = "") {
  return list.map(({name, count}) => make(
    "option", {value: prefix + name}, `${name} (${readableCount(count)})`));
}
