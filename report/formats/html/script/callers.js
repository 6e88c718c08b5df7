// The tree from the other end: functions by their own cost, and below each what called it.
import { Shape } from "./tree.js";
import { Frames } from "./payload.js";

/**
 * A function, or a caller of it, with all paths on which it is.
 * @typedef {{label: string, layer: string, value: number, row: number, level: number,
 *   above: CallerNode | null, members: number[], callers: CallerNode[] | null}} CallerNode
 */

export class Callers {
  /**
   * @param {Frames} frames
   * @param {Shape} shape
   * @param {Float64Array} own the cost of each frame of `shape` without those below it.
   */
  constructor(frames, shape, own) {
    this.frames = frames;
    this.shape = shape;
    this.own = own;
    const members = [];
    for (let at = 0; at < shape.count; ++at) if (own[at] > 0) members.push(at);
    /** Frame of each member at the current level. */
    this.functions = this.group(members, members, null);
  }

  /**
   * Returns one node for each name, the most expensive first.
   * @param {number[]} members frames whose cost is counted.
   * @param {number[]} shown for each of them, the frame that names it.
   * @param {CallerNode | null} above
   * @returns {CallerNode[]}
   */
  group(members, shown, above) {
    const {frames, shape, own} = this;
    const labels = frames.column("label");
    /** @type {Map<number, CallerNode & {best: number}>} */
    const groups = new Map();
    members.forEach((member, number) => {
      const at = shown[number];
      if (at < 0) return;
      const row = shape.rows[at];
      const key = labels[row] * 16 + frames.layer[row];
      let node = groups.get(key);
      if (node === undefined) {
        node = {label: frames.text("label", row), layer: frames.layerName(row), value: 0, row,
                level: above === null ? 0 : above.level + 1, above, members: [], callers: null,
                best: 0};
        groups.set(key, node);
      }
      node.value += own[member];
      node.members.push(member);
      if (own[member] > node.best) {
        node.best = own[member];
        node.row = row;
      }
    });
    return [...groups.values()].sort((a, b) => b.value - a.value);
  }

  /**
   * Returns the callers of a node.
   * @param {CallerNode} node
   */
  callersOf(node) {
    if (node.callers === null) {
      const shown = node.members.map((member) => {
        let at = member;
        for (let level = 0; level <= node.level && at >= 0; ++level) at = this.shape.parent[at];
        return at;
      });
      node.callers = this.group(node.members, shown, node);
    }
    return node.callers;
  }
}
