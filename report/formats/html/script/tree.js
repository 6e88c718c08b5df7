// The tree of frames, without its elements: which frames there are, and which are unfolded.
import { Frames } from "./payload.js";

/** The frames that the filters leave, as a tree of its own, numbered in preorder. */
export class Shape {
  /**
   * @param {Frames} frames
   * @param {Uint8Array | null} kept 1 for each row that is in the tree; null for all rows. The
   *   frames below a row that is not kept take its place.
   */
  constructor(frames, kept) {
    const rows = frames.count;
    /** Number of each row in this tree; for a row that is not kept, that of the one above. */
    const nearest = new Int32Array(rows);
    let count = 0;
    for (let row = 0; row < rows; ++row) if (kept === null || kept[row]) ++count;
    this.count = count;
    this.rows = new Int32Array(count);
    this.parent = new Int32Array(count);
    this.depth = new Int32Array(count);
    /** Number of frames directly below. */
    this.children = new Int32Array(count);
    /** Number among the frames below the same one, from 1. */
    this.position = new Int32Array(count);
    /** How far a frame is indented: the number of branches above it. */
    this.indent = new Int32Array(count);
    this.end = new Int32Array(count);
    this.roots = 0;
    let next = 0;
    for (let row = 0; row < rows; ++row) {
      const above = frames.parent[row] < 0 ? -1 : nearest[frames.parent[row]];
      if (kept !== null && !kept[row]) {
        nearest[row] = above;
        continue;
      }
      nearest[row] = next;
      this.rows[next] = row;
      this.parent[next] = above;
      this.depth[next] = above < 0 ? 0 : this.depth[above] + 1;
      this.position[next] = above < 0 ? ++this.roots : ++this.children[above];
      ++next;
    }
    for (let at = 0; at < count; ++at) {
      const above = this.parent[at];
      this.indent[at] = above < 0 ? 0 : this.indent[above] + (this.children[above] > 1 ? 1 : 0);
    }
    for (let at = count - 1; at >= 0; --at) {
      if (this.end[at] === 0) this.end[at] = at + 1;
      const above = this.parent[at];
      if (above >= 0 && this.end[above] < this.end[at]) this.end[above] = this.end[at];
    }
    this.nearest = nearest;
  }

  /**
   * Returns the number of a row; -1 if it is not in the tree.
   * @param {number} row
   */
  find(row) {
    const at = row < 0 || row >= this.nearest.length ? -1 : this.nearest[row];
    return at >= 0 && this.rows[at] === row ? at : -1;
  }

  /** @param {number} at */
  siblings(at) {
    return this.parent[at] < 0 ? this.roots : this.children[this.parent[at]];
  }
}

// How many frames are shown at first: more are not read before they are asked for.
const kShownAtFirst = 80;
const kSmallTree = 250;

/** The tree as it is shown: with folded frames. */
export class Tree {
  /** @param {Frames} frames */
  constructor(frames) {
    this.frames = frames;
    this.shape = new Shape(frames, null);
    /** 1 for each row that is unfolded. */
    this.open = new Uint8Array(frames.count);
    /** Numbers in `shape` of the frames that are shown. */
    this.shown = new Int32Array(0);
    /** @type {(() => void)[]} */
    this.listeners = [];
    this.openFirst();
  }

  /** @param {Uint8Array | null} kept */
  filter(kept) {
    this.shape = new Shape(this.frames, kept);
    this.refresh();
  }

  /** Unfolds everything in a small tree; in a large one, the frames with the most time. */
  openFirst() {
    const {shape, open, frames} = this;
    if (shape.count <= kSmallTree) {
      open.fill(1);
    } else {
      const weight = frames.hasTimes ? frames.time : frames.calls;
      /** @type {number[]} */
      let candidates = [];
      for (let at = 0; at < shape.count; at = shape.end[at]) candidates.push(at);
      let shown = candidates.length;
      while (candidates.length > 0 && shown < kShownAtFirst) {
        let best = 0;
        for (let other = 1; other < candidates.length; ++other)
          if (weight[shape.rows[candidates[other]]] > weight[shape.rows[candidates[best]]])
            best = other;
        const [at] = candidates.splice(best, 1);
        open[shape.rows[at]] = 1;
        shown += shape.children[at];
        for (let below = at + 1; below < shape.end[at]; below = shape.end[below])
          if (shape.children[below] > 0) candidates.push(below);
      }
    }
    this.refresh();
  }

  /** Renews `shown`. */
  refresh() {
    const {shape, open} = this;
    const shown = new Int32Array(shape.count);
    let count = 0;
    for (let at = 0; at < shape.count;) {
      shown[count++] = at;
      at = open[shape.rows[at]] ? at + 1 : shape.end[at];
    }
    this.shown = shown.subarray(0, count);
    for (const listener of this.listeners) listener();
  }

  /**
   * Returns the line of a row; -1 if it is not shown.
   * @param {number} row
   */
  line(row) {
    const at = this.shape.find(row);
    let low = 0, high = this.shown.length - 1;
    while (at >= 0 && low <= high) {
      const middle = (low + high) >> 1;
      if (this.shown[middle] === at) return middle;
      if (this.shown[middle] < at) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** @param {number} line */
  rowAt(line) {
    return this.shape.rows[this.shown[line]];
  }

  /** @param {number} row */
  isOpen(row) {
    return this.open[row] === 1;
  }

  /** @param {number} row @param {boolean} open */
  setOpen(row, open) {
    this.open[row] = open ? 1 : 0;
    this.refresh();
  }

  /**
   * Folds or unfolds a frame and all frames below it.
   * @param {number} row
   * @param {boolean} open
   */
  setAllBelow(row, open) {
    this.open.fill(open ? 1 : 0, row, this.frames.end[row]);
    this.refresh();
  }

  /**
   * Unfolds the frames above a frame. Returns false if the filters leave it out.
   * @param {number} row
   */
  reveal(row) {
    if (this.shape.find(row) < 0) return false;
    let changed = false;
    for (let at = this.frames.parent[row]; at >= 0; at = this.frames.parent[at]) {
      changed ||= this.open[at] === 0;
      this.open[at] = 1;
    }
    if (changed) this.refresh();
    return true;
  }
}
