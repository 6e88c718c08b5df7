// The flame graph: the tree drawn to scale, from its roots or from the functions that cost most.
import { Shape, Tree } from "./tree.js";
import { Callers } from "./callers.js";
import { make, makeSelect } from "./elements.js";
import { kSides } from "./tree_line.js";
import { counted, readableCount, readablePart, readableTime } from "./format.js";

const kBoxHeight = 19;
const kLeastWidth = 0.7;  // Pixels; narrower boxes are not drawn.
const kLeastTextWidth = 26;
const kPadding = 4;

/**
 * A drawn box. `node` is a number of the tree's shape, a node of the callers, or null for several.
 * @typedef {{x: number, y: number, width: number, row: number, value: number,
 *   node: number | import("./callers.js").CallerNode | null, label: string, layer: string,
 *   colour: string}} Box
 */

export class FlameView {
  byTime = true;
  inverted = false;
  /** @type {Box['node']} */
  zoomed = null;
  selected = -1;
  /** @type {Box[]} */
  boxes = [];
  levels = 1;
  pending = false;
  /**
   * What the values belong to; null before they are computed.
   * @type {Shape | null}
   */
  shape = null;
  values = new Float64Array(0);
  /** Where each frame begins, in the unit of the values. */
  starts = new Float64Array(0);
  total = 0;
  /** @type {Callers | null} */
  callers = null;
  canvas = make("canvas", {tabindex: "0", role: "img"});
  spacer = make("div", {class: "spacer"}, this.canvas);
  scroller = make("div", {class: "flame-scroller"}, this.spacer);
  status = make("p", {class: "status", role: "status"});
  resetButton = make("button", {
    type: "button", hidden: true, onclick: () => this.zoom(null),
  }, "Zoom out");

  /**
   * @param {Tree} tree
   * @param {(row: number) => void} select
   */
  constructor(tree, select) {
    this.tree = tree;
    this.frames = tree.frames;
    this.selectRow = select;
    this.byTime = this.frames.hasTimes;
    this.element = make("div", {class: "flame-view"}, this.controls(), this.scroller, this.status);
    this.listen();
    tree.listeners.push(() => this.renew());
  }

  controls() {
    const weights = makeSelect("Width of a box", [
      ...(this.frames.hasTimes ? [make("option", {value: "time"}, "by time")] : []),
      make("option", {value: "calls"}, "by calls"),
    ], (value) => { this.byTime = value === "time"; this.restart(); });
    const ends = makeSelect("Direction", [
      make("option", {value: "down"}, "from the roots down"),
      make("option", {value: "callers"}, "from functions to their callers"),
    ], (value) => { this.inverted = value === "callers"; this.restart(); });
    const zoomButton = make("button", {type: "button", onclick: () => this.zoomToSelected()},
                            "Zoom to selected frame");
    return make("div", {class: "filters"}, ends, weights, zoomButton, this.resetButton,
                make("span", {class: "note"}, "double-click to zoom in"));
  }

  listen() {
    this.canvas.addEventListener("mousemove", (event) => this.describe(this.boxAt(event)));
    this.canvas.addEventListener("mouseleave", () => this.describeSelected());
    this.canvas.addEventListener("click", (event) => this.choose(this.boxAt(event)));
    this.canvas.addEventListener("dblclick", (event) => {
      const box = this.boxAt(event);
      if (box !== null) this.zoom(box.node);
    });
    this.canvas.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.press(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
    this.scroller.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later()).observe(this.scroller);
  }

  /** The tree may have other frames. */
  renew() {
    if (this.shape === this.tree.shape) return;
    this.restart();
  }

  /** Forgets what was computed; the next drawing computes it. */
  restart() {
    this.shape = null;
    this.zoomed = null;
    this.resetButton.hidden = true;
    this.scroller.scrollTop = 0;
    this.later();
  }

  /** Computes the value of each frame: its own, or that of the frames below if they have more. */
  prepare() {
    const {frames} = this;
    const shape = this.shape = this.tree.shape;
    const first = frames.column(this.byTime ? "time" : "calls");
    const second = frames.column(this.byTime ? "time_b" : "calls_b");
    this.values = new Float64Array(shape.count);
    this.starts = new Float64Array(shape.count);
    const below = new Float64Array(shape.count);
    this.total = 0;
    for (let at = shape.count - 1; at >= 0; --at) {
      const row = shape.rows[at];
      this.values[at] = Math.max(first[row], second[row], below[at]);
      if (shape.parent[at] >= 0) below[shape.parent[at]] += this.values[at];
      else this.total += this.values[at];
    }
    const own = new Float64Array(shape.count);
    const next = new Float64Array(shape.count);
    let root = 0;
    for (let at = 0; at < shape.count; ++at) {
      own[at] = this.values[at] - below[at];
      const above = shape.parent[at];
      this.starts[at] = next[at] = above < 0 ? root : next[above];
      if (above < 0) root += this.values[at];
      else next[above] += this.values[at];
    }
    this.callers = this.inverted ? new Callers(frames, shape, own) : null;
    const what = `${counted(shape.count, "frame")} by ${this.byTime ? "time" : "calls"}`;
    const direction = this.inverted ? "from functions to their callers" : "from the roots down";
    this.canvas.setAttribute("aria-label", `Flame graph of ${what}, ${direction}. The tree has the ` +
      "same frames as text. Arrow keys move the selection, Enter zooms in, Escape zooms out.");
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  draw() {
    const width = this.scroller.clientWidth, height = this.scroller.clientHeight;
    if (width === 0 || height === 0) return;
    if (this.shape === null) this.prepare();
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    context.scale(scale, scale);
    this.boxes = [];
    this.levels = 1;
    if (this.callers === null) this.layDown(width);
    else this.layCallers(width);
    this.spacer.style.height = `${Math.max(this.levels * kBoxHeight, height)}px`;
    this.paint(context, height);
    this.describeSelected();
  }

  /** @param {number} width of all boxes. */
  layDown(width) {
    const {tree: {shape}, frames, values, starts} = this;
    const zoomed = typeof this.zoomed === "number" ? this.zoomed : -1;
    const above = [];
    for (let at = zoomed < 0 ? -1 : shape.parent[zoomed]; at >= 0; at = shape.parent[at])
      above.unshift(at);
    const begin = zoomed < 0 ? 0 : starts[zoomed];
    const unit = width / Math.max(zoomed < 0 ? this.total : values[zoomed], 1e-9);
    /** @param {number} at @param {number} x @param {number} level @param {number} size */
    const add = (at, x, level, size) => {
      const row = shape.rows[at];
      this.levels = Math.max(this.levels, level + 1);
      const layer = frames.layerName(row), side = frames.number("side", row);
      const sign = side === 0 ? "" : `${kSides[side]?.sign} `;
      this.boxes.push({x, y: level * kBoxHeight, width: size, row, value: values[at], node: at,
                       label: sign + frames.text("label", row), layer,
                       colour: !frames.compares ? layer : side === 0 ? "runtime" : `side-${side}`});
    };
    above.forEach((at, level) => add(at, 0, level, width));
    const firstDepth = zoomed < 0 ? 0 : shape.depth[zoomed] - above.length;
    const end = zoomed < 0 ? shape.count : shape.end[zoomed];
    for (let at = Math.max(zoomed, 0); at < end;) {
      const size = values[at] * unit;
      if (size < kLeastWidth) {
        at = shape.end[at];
        continue;
      }
      add(at, (starts[at] - begin) * unit, shape.depth[at] - firstDepth, size);
      ++at;
    }
  }

  /** @param {number} width of all boxes. */
  layCallers(width) {
    const {callers} = this;
    if (callers === null) return;
    const zoomed = this.zoomed !== null && typeof this.zoomed === "object" ? this.zoomed : null;
    /** @type {import("./callers.js").CallerNode[]} */
    const above = [];
    for (let node = zoomed?.above ?? null; node !== null; node = node.above) above.unshift(node);
    const whole = zoomed === null ? callers.functions.reduce((sum, one) => sum + one.value, 0) :
      zoomed.value;
    const unit = width / Math.max(whole, 1e-9);
    /** @param {import("./callers.js").CallerNode} node @param {number} x @param {number} size */
    const add = (node, x, size) => {
      this.levels = Math.max(this.levels, node.level + 1);
      this.boxes.push({x, y: node.level * kBoxHeight, width: size, row: node.row,
                       value: node.value, node, label: node.label, layer: node.layer,
                       colour: node.layer});
    };
    for (const node of above) add(node, 0, width);
    const pending = [{nodes: zoomed === null ? callers.functions : [zoomed], x: 0}];
    for (let work = pending.pop(); work !== undefined; work = pending.pop()) {
      let {x} = work;
      for (const node of work.nodes) {
        const size = node.value * unit;
        if (size < kLeastWidth) {  // The largest come first.
          this.addRest(work.nodes, node, x, unit);
          break;
        }
        add(node, x, size);
        if (size >= 2) pending.push({nodes: callers.callersOf(node), x});
        x += size;
      }
    }
  }

  /**
   * Adds one box for functions that are too narrow for a box each.
   * @param {import("./callers.js").CallerNode[]} nodes
   * @param {import("./callers.js").CallerNode} first of them.
   * @param {number} x
   * @param {number} unit
   */
  addRest(nodes, first, x, unit) {
    const rest = nodes.slice(nodes.indexOf(first));
    const value = rest.reduce((sum, one) => sum + one.value, 0);
    if (value * unit < kLeastWidth) return;
    this.boxes.push({x, y: first.level * kBoxHeight, width: value * unit, row: first.row, value,
                     node: null, label: `${readableCount(rest.length)} more`, layer: "",
                     colour: "runtime"});
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} height
   */
  paint(context, height) {
    const style = getComputedStyle(this.element);
    const top = this.scroller.scrollTop;
    /** @type {Map<string, string>} */
    const colours = new Map();
    /** @param {string} name */
    const colour = (name) => {
      let value = colours.get(name);
      if (value === undefined) colours.set(name, value = style.getPropertyValue(name).trim());
      return value;
    };
    context.font = `11.5px ${colour("--mono")}`;
    context.textBaseline = "middle";
    const letter = context.measureText("m").width;
    for (const box of this.boxes) {
      const y = box.y - top;
      if (y + kBoxHeight < 0 || y > height) continue;
      context.fillStyle = colour(`--box-${box.colour}`) || colour("--box-runtime");
      const gap = box.width > 3 ? 1 : 0;
      context.fillRect(box.x, y, box.width - gap, kBoxHeight - 1);
      if (box.row === this.selected) {
        context.strokeStyle = colour("--text");
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, y + 1, Math.max(box.width - gap - 2, 1), kBoxHeight - 3);
      }
      if (box.width < kLeastTextWidth) continue;
      const room = Math.floor((box.width - 2 * kPadding) / letter);
      const text = box.label.length <= room ? box.label : `${box.label.slice(0, room - 1)}…`;
      context.fillStyle = colour("--text");
      context.fillText(text, box.x + kPadding, y + kBoxHeight / 2);
    }
  }

  /** @param {MouseEvent} event */
  boxAt(event) {
    const edge = this.canvas.getBoundingClientRect();
    const x = event.clientX - edge.left;
    const y = event.clientY - edge.top + this.scroller.scrollTop;
    return this.boxes.find((box) => x >= box.x && x < box.x + box.width &&
      y >= box.y && y < box.y + kBoxHeight) ?? null;
  }

  /** @param {Box | null} box */
  choose(box) {
    if (box !== null) this.selectRow(box.row);
  }

  /** @param {number} row */
  select(row) {
    this.selected = row;
    this.later();
  }

  /** Shows the selected frame even if its box is too narrow or above the zoomed one. */
  zoomToSelected() {
    const at = this.tree.shape.find(this.selected);
    if (at < 0) return;
    if (this.callers === null) return this.zoom(at);
    const box = this.boxes.find((one) => one.row === this.selected);
    if (box !== undefined) this.zoom(box.node);
  }

  /** @param {Box['node']} node */
  zoom(node) {
    this.zoomed = node;
    this.resetButton.hidden = node === null;
    this.later();
  }

  /** @param {Box | null} box */
  describe(box) {
    this.canvas.style.cursor = box === null ? "default" : "pointer";
    if (box === null) return this.describeSelected();
    const amount = this.byTime ? readableTime(box.value) : `×${readableCount(box.value)}`;
    const part = readablePart(box.value, this.total);
    this.status.textContent = `${box.layer}  ${box.label}  ${amount}${part && `  (${part})`}`;
  }

  describeSelected() {
    const box = this.boxes.find((one) => one.row === this.selected);
    if (box !== undefined) this.describe(box);
    else this.status.textContent = "";
  }

  /**
   * Does what a key stands for. Returns false for other keys.
   * @param {string} key
   */
  press(key) {
    const box = this.boxes.find((one) => one.row === this.selected) ?? null;
    if (key === "Escape") {
      if (this.zoomed === null) return false;
      this.zoom(null);
      return true;
    }
    if (key === "Enter") {
      if (box !== null) this.zoom(box.node);
      return true;
    }
    if (!key.startsWith("Arrow")) return false;
    this.choose(box === null ? this.boxes[0] ?? null : this.beside(box, key));
    return true;
  }

  /**
   * Returns the box next to another one.
   * @param {Box} box
   * @param {string} key
   */
  beside(box, key) {
    const level = key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0;
    const row = this.boxes.filter((one) => one.y === box.y + level * kBoxHeight)
      .sort((a, b) => a.x - b.x);
    if (level !== 0)
      return row.find((one) => one.x + one.width > box.x + 0.01) ?? null;
    const at = row.indexOf(box) + (key === "ArrowRight" ? 1 : -1);
    return row[at] ?? null;
  }
}
