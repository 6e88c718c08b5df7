// The tree on the screen: only the lines that are visible have elements.
import { Tree } from './tree.js';
import { make, outwardLink } from './elements.js';
import { readableChange, readableCount, readableTime } from './format.js';

const kLineHeight = 21;  // As in page.css.
const kSpare = 12;  // Lines above and below the visible ones.
const kIndent = 14;
// Browsers limit an element's height, Firefox to 17.9 million pixels.
const kMaxHeight = 8e6;
const kMaxPrinted = 3000;
const kPlaceLength = 29;

/** How the lines of a comparison are marked; read without colours. */
export const kSides = [
  {sign: '', text: ''},
  {sign: '−', text: 'only in A'},
  {sign: '+', text: 'only in B'},
  {sign: '≠', text: 'differs'},
];

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
    this.whole = this.wholeTime();
    this.lines = make('div', {class: 'lines', role: 'presentation'});
    this.spacer = make('div', {class: 'spacer', role: 'presentation'}, this.lines);
    this.scroller = make('div', {
      class: 'tree', role: 'tree', tabindex: '0', 'aria-label': 'Frames',
    }, this.spacer);
    this.empty = make('p', {class: 'empty', hidden: true}, 'No frame passes the filters.');
    this.element = make('div', {class: 'tree-view'}, this.columnNames(), this.scroller, this.empty);
    this.element.classList.toggle('compares', this.frames.compares);
    this.element.classList.toggle('timeless', !this.frames.hasTimes);
    /** Pixels above the window, as if nothing limited the height. */
    this.offset = 0;
    this.scrolledTo = 0;
    /**
     * Elements by line.
     * @type {Map<number, HTMLElement>}
     */
    this.drawn = new Map();
    this.pending = false;
    this.scroller.addEventListener('scroll', () => this.scrolled());
    this.scroller.addEventListener('click', (event) => this.clicked(event));
    this.scroller.addEventListener('dblclick', (event) => {
      const row = this.rowOf(event);
      if (row >= 0 && this.selected === row) this.toggle(row);
    });
    new ResizeObserver(() => this.later()).observe(this.scroller);
    tree.listeners.push(() => this.renew());
    this.renew();
  }

  /** The time of the whole tree, against which the bars are drawn. */
  wholeTime() {
    let whole = 0;
    const {frames} = this;
    const second = frames.column('time_b');
    for (let row = 0; row < frames.count; row = frames.end[row])
      whole += Math.max(frames.time[row], second[row]);
    return whole;
  }

  columnNames() {
    const names = this.frames.compares ?
      ['calls A', 'calls B', 'time A', 'time B', 'change'] : ['calls', '', 'time', 'own time'];
    return make('div', {class: 'line column-names', 'aria-hidden': 'true'},
                make('span', {class: 'tag'}, 'layer'), make('span', {class: 'path'}, 'function'),
                ...names.map((name) => make('span', {class: classOfColumn(name)}, name)),
                make('span', {class: 'place'}, 'defined at'));
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
    if (height === 0) return;
    this.offset = Math.min(this.offset, this.maxOffset);
    const first = Math.max(0, Math.floor(this.offset / kLineHeight) - kSpare);
    const end = Math.min(shown.length, Math.ceil((this.offset + height) / kLineHeight) + kSpare);
    for (const [line, element] of this.drawn) {
      if (line >= first && line < end) continue;
      element.remove();
      this.drawn.delete(line);
    }
    for (let line = first; line < end; ++line) {
      let element = this.drawn.get(line);
      if (element === undefined) {
        element = this.makeLine(line);
        this.drawn.set(line, element);
        this.lines.append(element);
      }
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
    this.lines.style.setProperty('--shift', `${-shift * kIndent}px`);
  }

  /** @param {number} line */
  makeLine(line) {
    const {tree, frames} = this;
    const at = tree.shown[line];
    const row = tree.shape.rows[at];
    const layer = frames.layerName(row);
    const hasBelow = tree.shape.children[at] > 0;
    const element = make('div', {
      class: 'line', role: 'treeitem', id: `row-${row}`,
      'aria-level': tree.shape.depth[at] + 1, 'aria-setsize': tree.shape.siblings(at),
      'aria-posinset': tree.shape.position[at], 'aria-selected': String(row === this.selected),
      'aria-expanded': hasBelow ? String(tree.isOpen(row)) : null,
    }, ...this.sign(row), make('span', {class: `tag layer-${layer}`}, layer),
       this.path(at, row, hasBelow), ...this.numbers(row), this.place(row));
    if (this.user.isFound(row)) element.classList.add('found');
    return element;
  }

  /** @param {number} row */
  sign(row) {
    if (!this.frames.compares) return [];
    const side = this.frames.number('side', row);
    const {sign, text} = kSides[side] ?? kSides[0];
    return [make('span', {class: `sign side-${side}`, title: text, 'aria-label': text}, sign)];
  }

  /**
   * @param {number} at
   * @param {number} row
   * @param {boolean} hasBelow
   */
  path(at, row, hasBelow) {
    const {frames, tree} = this;
    const side = frames.compares ? ` side-${frames.number('side', row)}` : '';
    const guides = make('span', {class: 'guides'});
    guides.style.width = `${tree.shape.indent[at] * kIndent}px`;
    const isStep = tree.isOpen(row) && tree.shape.children[at] === 1;
    const caret = make('span', {class: `caret${isStep ? ' step' : ''}`, 'aria-hidden': 'true'},
                       hasBelow ? (tree.isOpen(row) ? '▾' : '▸') : '');
    const note = frames.text('note', row);
    const why = frames.text('why', row);
    return make('span', {class: `path${side}`}, guides, caret,
                make('span', {class: 'name'}, ...this.marked(frames.text('label', row))),
                note === '' ? null : make('span', {class: 'note'}, ...this.marked(note)),
                why === '' ? null : make('span', {class: 'why'}, ...this.marked(why)));
  }

  /**
   * Returns a text with what the search looks for marked.
   * @param {string} text
   */
  marked(text) {
    const found = this.user.mark()?.exec(text);
    if (!found || found[0] === '') return [text];
    const end = found.index + found[0].length;
    return [text.slice(0, found.index), make('mark', {}, found[0]), text.slice(end)];
  }

  /** @param {number} row */
  numbers(row) {
    const {frames} = this;
    const calls = frames.number('calls', row), time = frames.number('time', row);
    if (!frames.compares) {
      return [make('span', {class: 'calls'}, calls === 1 ? '' : `×${readableCount(calls)}`),
              this.share(time), timeCell(time), timeCell(frames.number('own_time', row))];
    }
    const side = frames.number('side', row);
    const callsB = frames.number('calls_b', row), timeB = frames.number('time_b', row);
    const inA = side !== 2, inB = side !== 1;
    const differ = inA && inB && calls !== callsB ? ' differs' : '';
    return [make('span', {class: 'calls'}, inA ? readableCount(calls) : '·'),
            make('span', {class: `calls${differ}`}, inB ? readableCount(callsB) : '·'),
            timeCell(inA ? time : 0), timeCell(inB ? timeB : 0),
            make('span', {class: 'change'}, inA && inB ? readableChange(time, timeB) : '')];
  }

  /**
   * Returns a bar for a part of the whole time.
   * @param {number} time
   */
  share(time) {
    const bar = make('i', {class: 'bar'});
    bar.style.width = `${100 * Math.min(1, time / Math.max(this.whole, 1))}%`;
    return make('span', {class: 'share', 'aria-hidden': 'true'}, time > 0 ? bar : null);
  }

  /** @param {number} row */
  place(row) {
    const text = this.frames.place(row, kPlaceLength);
    const cell = make('span', {class: 'place', title: this.frames.place(row)});
    if (text !== '') cell.append(outwardLink(this.frames.link(row), text));
    for (const link of cell.querySelectorAll('a')) link.tabIndex = -1;
    return cell;
  }

  /** @param {Event} event */
  rowOf(event) {
    const line = /** @type {Element} */ (event.target).closest('[role=treeitem]');
    return line === null ? -1 : Number(line.id.slice(4));
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = this.rowOf(event);
    if (row < 0 || target.closest('a') !== null) return;
    if (target.closest('.caret') !== null) this.toggle(row);
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
    this.scroller.setAttribute('aria-activedescendant', row < 0 ? '' : `row-${row}`);
    for (const element of this.drawn.values())
      element.setAttribute('aria-selected', String(element.id === `row-${row}`));
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
    const line = this.tree.line(this.selected);
    const next = line < 0 ? 0 : Math.min(Math.max(line + lines, 0), shown.length - 1);
    this.user.select(this.tree.rowAt(next));
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
      Enter: () => this.user.act(this.selected), ' ': () => this.toggle(this.selected),
      e: () => this.tree.setAllBelow(this.selected, true),
      c: () => this.tree.setAllBelow(this.selected, false),
      ']': () => this.moveToSibling(1), '[': () => this.moveToSibling(-1),
    };
    if (!Object.hasOwn(actions, key)) return false;
    const needsFrame = ['Enter', ' ', 'e', 'c'].includes(key);
    if (!needsFrame || this.selected >= 0) actions[key]();
    return true;
  }

  /** Lays the shown lines out for paper. */
  beforePrint() {
    this.clear();
    const count = Math.min(this.tree.shown.length, kMaxPrinted);
    for (let line = 0; line < count; ++line) this.lines.append(this.makeLine(line));
    const left = this.tree.shown.length - count;
    if (left > 0) this.lines.append(make('p', {}, `… and ${readableCount(left)} more frames`));
  }

  afterPrint() {
    this.clear();
    this.draw();
  }
}

/** @param {string} name */
function classOfColumn(name) {
  if (name === '') return 'share';
  return name.startsWith('calls') ? 'calls' : name === 'change' ? 'change' : 'time';
}

/** @param {number} time */
function timeCell(time) {
  return make('span', {class: 'time'}, time > 0 ? readableTime(time) : '');
}
