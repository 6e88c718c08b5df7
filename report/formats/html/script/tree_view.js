// The tree on the screen: only the lines that are visible have elements.
import { Tree } from "./tree.js";
import { TreeLines, kIndent } from "./tree_line.js";
import { make } from "./elements.js";
import { readableCount } from "./format.js";

const kLineHeight = 21;  // As in tree.css.
const kSpare = 12;  // Lines above and below the visible ones.
// Browsers limit an element's height, Firefox to 17.9 million pixels.
const kMaxHeight = 8e6;
const kMaxPrinted = 3000;

/**
 * @typedef {{select: (row: number) => void, act: (row: number) => void,
 *   mark: () => RegExp | null, isFound: (row: number) => boolean}} TreeUser
 */

export class TreeView {
  /**
   * @param {Tree} tree
   * @param {TreeUser} user
   */
  constructor(tree, user) {
    this.tree = tree;
    this.frames = tree.frames;
    this.user = user;
    this.selected = -1;
    this.maker = new TreeLines(tree, user.mark);
    this.lines = make("div", {class: "lines", role: "presentation"});
    this.spacer = make("div", {class: "spacer", role: "presentation"}, this.lines);
    this.scroller = make("div", {
      class: "tree", role: "tree", tabindex: "0", "aria-label": "Frames",
    }, this.spacer);
    this.empty = make("p", {class: "empty", hidden: true}, "No frame passes the filters.");
    this.element = make("div", {class: "tree-view"}, this.maker.columnNames(),
                        this.scroller, this.empty);
    this.element.classList.toggle("compares", this.frames.compares);
    this.element.classList.toggle("timeless", !this.frames.hasTimes);
    /** Pixels above the window, as if nothing limited the height. */
    this.offset = 0;
    this.scrolledTo = 0;
    /**
     * Elements by line.
     * @type {Map<number, HTMLElement>}
     */
    this.drawn = new Map();
    this.pending = false;
    this.printing = false;
    this.scroller.addEventListener("scroll", () => this.scrolled());
    this.scroller.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("dblclick", (event) => {
      const isCaret = /** @type {Element} */ (event.target).closest(".caret") !== null;
      const row = this.rowOf(event);
      if (row >= 0 && this.selected === row && !isCaret) this.toggle(row);
    });
    new ResizeObserver(() => this.later()).observe(this.scroller);
    tree.listeners.push(() => this.renew());
    this.renew();
  }

  /** All of the tree may have changed. */
  renew() {
    const height = this.tree.shown.length * kLineHeight;
    this.spacer.style.height = `${Math.min(height, kMaxHeight)}px`;
    this.empty.hidden = height > 0;
    this.clear();
    this.later();
  }

  clear() {
    this.lines.replaceChildren();
    this.drawn.clear();
  }

  later() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.draw();
    });
  }

  get maxOffset() {
    return Math.max(0, this.tree.shown.length * kLineHeight - this.scroller.clientHeight);
  }

  get maxScroll() {
    return Math.max(0, this.spacer.offsetHeight - this.scroller.clientHeight);
  }

  /**
   * A tall tree is scaled to the height of its element. Small movements are exact; large ones, with
   * the scroll bar, go to the same part of the tree.
   */
  scrolled() {
    const top = this.scroller.scrollTop;
    const moved = top - this.scrolledTo;
    this.scrolledTo = top;
    const scale = this.maxScroll === 0 ? 1 : this.maxOffset / this.maxScroll;
    const isSmall = Math.abs(moved) < 2 * this.scroller.clientHeight;
    const atEnd = top <= 0 || top >= this.maxScroll - 1;
    if (scale <= 1 || !isSmall || atEnd) this.offset = top * Math.max(scale, 1);
    else this.offset = Math.min(Math.max(this.offset + moved, 0), this.maxOffset);
    this.later();
  }

  /** @param {number} offset */
  moveTo(offset) {
    this.offset = Math.min(Math.max(offset, 0), this.maxOffset);
    const scale = this.maxOffset === 0 ? 1 : this.maxScroll / this.maxOffset;
    this.scroller.scrollTop = this.offset * Math.min(scale, 1);
    this.scrolledTo = this.scroller.scrollTop;
    this.later();
  }

  draw() {
    const {shown} = this.tree;
    const height = this.scroller.clientHeight;
    if (height === 0 || this.printing) return;
    this.offset = Math.min(this.offset, this.maxOffset);
    const first = Math.max(0, Math.floor(this.offset / kLineHeight) - kSpare);
    const end = Math.min(shown.length, Math.ceil((this.offset + height) / kLineHeight) + kSpare);
    for (const [line, element] of this.drawn) {
      if (line >= first && line < end) continue;
      element.remove();
      this.drawn.delete(line);
    }
    let next = this.lines.firstChild;  // The elements are in the order of the tree.
    for (let line = first; line < end; ++line) {
      let element = this.drawn.get(line);
      if (element === undefined) {
        element = this.makeLine(line);
        this.drawn.set(line, element);
        this.lines.insertBefore(element, next);
      }
      next = element.nextSibling;
      element.style.transform = `translateY(${(line - first) * kLineHeight}px)`;
    }
    const top = this.scroller.scrollTop - this.offset + first * kLineHeight;
    this.lines.style.transform = `translateY(${top}px)`;
    this.shiftDeepLines(first, end);
  }

  /**
   * Moves lines to the left that are all far down the tree, so that their names are in view.
   * @param {number} first
   * @param {number} end
   */
  shiftDeepLines(first, end) {
    const {shape, shown} = this.tree;
    let least = Infinity, most = 0;
    for (let line = first; line < end; ++line) {
      least = Math.min(least, shape.indent[shown[line]]);
      most = Math.max(most, shape.indent[shown[line]]);
    }
    const isDeep = most * kIndent > this.scroller.clientWidth / 4;
    const shift = isDeep ? Math.max(0, Math.floor((least - 1) / 4) * 4) : 0;
    this.lines.style.setProperty("--shift", `${-shift * kIndent}px`);
  }

  /** @param {number} line */
  makeLine(line) {
    const row = this.tree.rowAt(line);
    const element = this.maker.line(this.tree.shown[line]);
    element.setAttribute("aria-selected", String(row === this.selected));
    element.classList.toggle("found", this.user.isFound(row));
    return element;
  }

  /** @param {Event} event */
  rowOf(event) {
    const line = /** @type {Element} */ (event.target).closest("[role=treeitem]");
    return line === null ? -1 : Number(line.id.slice(4));
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = this.rowOf(event);
    if (row < 0 || target.closest("a") !== null) return;
    if (target.closest(".caret") !== null) this.toggle(row);
    this.user.select(row);
  }

  /** @param {number} row */
  toggle(row) {
    this.tree.setOpen(row, !this.tree.isOpen(row));
  }

  /**
   * Marks a frame as selected and scrolls to it, if the filters leave it.
   * @param {number} row
   */
  select(row) {
    this.selected = row;
    if (row >= 0 && this.tree.reveal(row)) this.scrollTo(this.tree.line(row));
    this.scroller.setAttribute("aria-activedescendant", row < 0 ? "" : `row-${row}`);
    for (const element of this.drawn.values())
      element.setAttribute("aria-selected", String(element.id === `row-${row}`));
  }

  /** @param {number} line */
  scrollTo(line) {
    const top = line * kLineHeight, height = this.scroller.clientHeight;
    const isNear = top > this.offset - height && top < this.offset + 2 * height;
    if (top >= this.offset && top + kLineHeight <= this.offset + height) return;
    if (!isNear) this.moveTo(top - height / 3);
    else if (top < this.offset) this.moveTo(top - kLineHeight);
    else this.moveTo(top + 2 * kLineHeight - height);
    this.draw();
  }

  /**
   * Selects the line some lines further down.
   * @param {number} lines
   */
  move(lines) {
    const {shown} = this.tree;
    if (shown.length === 0) return;
    const line = Math.max(this.tree.line(this.selected), lines > 0 ? -1 : 0);
    this.user.select(this.tree.rowAt(Math.min(Math.max(line + lines, 0), shown.length - 1)));
  }

  /** Selects the frame above, below or beside the selected one. */
  moveOut() {
    const at = this.tree.shape.find(this.selected);
    if (at < 0) return this.move(0);
    const isOpen = this.tree.isOpen(this.selected) && this.tree.shape.children[at] > 0;
    const above = this.tree.shape.parent[at];
    if (isOpen) this.toggle(this.selected);
    else if (above >= 0) this.user.select(this.tree.shape.rows[above]);
  }

  moveIn() {
    const at = this.tree.shape.find(this.selected);
    if (at < 0) return this.move(0);
    if (this.tree.shape.children[at] === 0) return;
    if (this.tree.isOpen(this.selected)) this.move(1);
    else this.toggle(this.selected);
  }

  /** @param {1 | -1} direction */
  moveToSibling(direction) {
    const {shape} = this.tree;
    const at = shape.find(this.selected);
    if (at < 0) return this.move(0);
    if (direction > 0) {
      const next = shape.end[at];
      if (next < shape.count && shape.parent[next] === shape.parent[at])
        this.user.select(shape.rows[next]);
      return;
    }
    let before = -1;
    for (let other = shape.parent[at] + 1; other < at; other = shape.end[other]) before = other;
    if (before >= 0) this.user.select(shape.rows[before]);
  }

  /**
   * Does what a key stands for. Returns false for other keys.
   * @param {string} key
   */
  press(key) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / kLineHeight) - 1);
    const all = this.tree.shown.length;
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowDown: () => this.move(1), ArrowUp: () => this.move(-1),
      ArrowRight: () => this.moveIn(), ArrowLeft: () => this.moveOut(),
      PageDown: () => this.move(page), PageUp: () => this.move(-page),
      Home: () => this.move(-all), End: () => this.move(all),
      Enter: () => this.user.act(this.selected), " ": () => this.toggle(this.selected),
      e: () => this.tree.setAllBelow(this.selected, true),
      c: () => this.tree.setAllBelow(this.selected, false),
      "]": () => this.moveToSibling(1), "[": () => this.moveToSibling(-1),
    };
    if (!Object.hasOwn(actions, key)) return false;
    const needsFrame = ["Enter", " ", "e", "c"].includes(key);
    if (!needsFrame || this.selected >= 0) actions[key]();
    return true;
  }

  /** Lays the shown lines out for paper. */
  beforePrint() {
    this.printing = true;
    this.clear();
    const count = Math.min(this.tree.shown.length, kMaxPrinted);
    for (let line = 0; line < count; ++line) this.lines.append(this.makeLine(line));
    const left = this.tree.shown.length - count;
    if (left > 0) this.lines.append(make("p", {}, `… and ${readableCount(left)} more frames`));
  }

  afterPrint() {
    this.printing = false;
    this.clear();
    this.draw();
  }
}
