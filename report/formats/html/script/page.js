// The page: its views, and what connects them.
import { Frames, readPayload } from "./payload.js";
import { fill, fragment, make, makeToggle } from "./elements.js";
import { Filters } from "./filters.js";
import { FlameView } from "./flame.js";
import { Panel } from "./panel.js";
import { Search } from "./search.js";
import { makeSummary } from "./summary.js";
import { allTables } from "./tables.js";
import { Tree } from "./tree.js";
import { TreeView } from "./tree_view.js";

const kSearchDelay = 150;  // Milliseconds after the last key.

/** @type {[string, string][]} */
const kHelp = [
  ["↑ ↓", "previous, next line"], ["→", "unfold; then the first frame below"],
  ["←", "fold; then the frame above"], ["Space", "fold or unfold"],
  ["e  c", "unfold, fold everything below"], ["[  ]", "previous, next frame of the same caller"],
  ["Home  End", "first, last line"], ["Page ↑ ↓", "a screen up, down"],
  ["Enter", "move to the panel of the frame; Escape moves back"],
  ["/", "search"], ["n  N", "next, previous result"],
  ["s  t  f  o", "summary, tree, flame graph, tables"], ["d", "dark or light"], ["?", "this help"],
];

class Page {
  selected = -1;
  view = "";
  input = make("input", {
    type: "search", placeholder: "Search  /", "aria-label": "Search names, ops and files",
    spellcheck: "false", autocomplete: "off",
  });
  patternToggle = makeToggle(".*", {
    title: "Regular expression", "aria-label": "Regular expression",
  }, () => this.find());
  count = make("output", {class: "count", "aria-live": "polite"});
  help = makeHelp();

  /** @param {import("./payload.js").Payload} payload */
  constructor(payload) {
    this.payload = payload;
    this.frames = new Frames(payload);
    this.tree = new Tree(this.frames);
    this.search = new Search(this.frames);
    this.treeView = new TreeView(this.tree, {
      select: (row) => this.select(row), act: () => this.panel.element.focus(),
      mark: () => this.search.mark(), isFound: (row) => this.search.has(row),
    });
    this.flame = new FlameView(this.tree, (row) => this.select(row));
    this.panel = new Panel(this.frames, () => (this.view === "flame" ? "flame" : "tree"));
    this.filters = new Filters(this.frames, (kept) => this.filtered(kept));
    this.tables = allTables(payload);
    this.views = this.makeViews();
    this.tabs = make("nav", {class: "tabs", "aria-label": "Views"}, ...this.makeTabs());
    this.place();
    this.listen();
    this.follow();
  }

  /** Puts the elements into the document. */
  place() {
    const {header, comparison} = this.payload;
    const title = comparison ? `${comparison.first} ↔ ${comparison.second}` :
      header.find(([label]) => label === "")?.[1] ?? "optrace";
    document.title = `${title} · optrace`;
    const theme = make("button", {
      type: "button", class: "quiet", title: "Dark or light (d)", "aria-label": "Dark or light",
      onclick: () => this.switchTheme(),
    }, "◐");
    const help = make("button", {
      type: "button", class: "quiet", title: "Keys (?)", "aria-label": "Keys",
      onclick: () => this.help.showModal(),
    }, "?");
    document.body.append(
      make("header", {class: "top-bar"}, make("span", {class: "mark"}, "optrace"),
           make("h1", {title}, title), this.makeSearch(), theme, help),
      make("div", {class: "toolbar"}, this.tabs, this.filters.element),
      make("div", {class: "body"}, make("main", {}, ...Object.values(this.views)),
           this.panel.element),
      this.help);
  }

  /** @returns {Record<string, HTMLElement>} */
  makeViews() {
    return {
      summary: make("section", {class: "view", "aria-label": "Summary"}, makeSummary(this.frames)),
      tree: make("section", {class: "view", "aria-label": "Tree"}, this.treeView.element),
      flame: make("section", {class: "view", "aria-label": "Flame graph"}, this.flame.element),
      tables: make("section", {class: "view", "aria-label": "Tables"}),
    };
  }

  makeTabs() {
    const names = {summary: "Summary", tree: "Tree", flame: "Flame graph", tables: "Tables"};
    return Object.entries(names)
      .filter(([view]) => view !== "tables" || this.tables.length > 0)
      .map(([view, name]) => make("a", {href: `#${view}`, id: `tab-${view}`}, name));
  }

  makeSearch() {
    const previous = make("button", {
      type: "button", title: "Previous result (N)", "aria-label": "Previous result",
      onclick: () => this.goToResult(-1),
    }, "↑");
    const next = make("button", {
      type: "button", title: "Next result (n)", "aria-label": "Next result",
      onclick: () => this.goToResult(1),
    }, "↓");
    return make("div", {class: "search", role: "search"}, this.count, this.input,
                this.patternToggle, previous, next);
  }

  listen() {
    window.addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.pressed(event));
    let timer = 0;
    this.input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.find(), kSearchDelay);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(timer);
        if (this.search.query !== this.input.value) this.find();
        else this.goToResult(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.input.value = "";
        this.find();
        this.focusView();
      }
    });
    this.panel.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.focusView();
    });
    window.addEventListener("beforeprint", () => this.treeView.beforePrint());
    window.addEventListener("afterprint", () => this.treeView.afterPrint());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.flame.later());
  }

  /** Shows what the fragment of the address names: `#tree/17`, `#tree?find=...`. */
  follow() {
    const [path, query] = location.hash.slice(1).split("?", 2);
    const [name, row] = path.split("/", 2);
    const [view, table] = name.split("-", 2);
    this.show(Object.hasOwn(this.views, view) ? view : this.firstView(), table);
    if (query?.startsWith("find=")) {
      this.input.value = decoded(query.slice(5));
      this.patternToggle.setAttribute("aria-pressed", "false");
      this.find();
    }
    const number = Number(row);
    if (row && Number.isInteger(number) && number >= 0 && number < this.frames.count)
      this.select(number);
    this.focusView();
  }

  firstView() {
    const {findings, summary, comparison} = this.payload;
    const isProgram = (summary.lines ?? []).some((line) => line.file !== "");
    return isProgram || comparison || (findings ?? []).length > 0 ? "summary" : "tree";
  }

  /** @param {string} view @param {string} table */
  show(view, table = "") {
    this.view = view;
    document.body.dataset.view = view;
    for (const [name, element] of Object.entries(this.views)) element.hidden = name !== view;
    for (const tab of this.tabs.children) {
      if (tab.id === `tab-${view}`) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    if (view === "tables") this.showTable(table);
    this.treeView.later();
    this.flame.later();
  }

  /** @param {string} name */
  showTable(name) {
    const table = this.tables.find((one) => one.name === name) ?? this.tables[0];
    if (table === undefined) return;
    fill(this.views.tables, make("nav", {class: "tabs", "aria-label": "Tables"}, ...this.tables.map(
      (one) => make("a", {
        href: fragment(`tables-${one.name}`), "aria-current": one === table ? "page" : null,
      }, `${one.title} (${one.rows})`))), table.make());
  }

  focusView() {
    if (this.view === "tree") this.treeView.scroller.focus({preventScroll: true});
    else if (this.view === "flame") this.flame.canvas.focus({preventScroll: true});
  }

  /** @param {number} row */
  select(row) {
    this.selected = row;
    document.body.dataset.frame = row < 0 ? "" : String(row);
    this.treeView.select(row);
    this.flame.select(row);
    this.panel.show(row);
    this.count.textContent = this.search.summary(row);
    if (row < 0) return;
    const place = this.view === "flame" ? "flame" : "tree";
    try {
      if (this.view === place) history.replaceState(null, "", fragment(place, row));
    } catch {
      // A page without an address of its own, as in a notebook, has no links to its frames.
    }
  }

  /** @param {Uint8Array | null} kept */
  filtered(kept) {
    this.tree.filter(kept);
    this.search.restrict((row) => this.tree.shape.find(row) >= 0);
    this.treeView.select(this.selected);
    this.count.textContent = this.search.summary(this.selected);
  }

  find() {
    const isPattern = this.patternToggle.getAttribute("aria-pressed") === "true";
    this.search.run(this.input.value, isPattern, (row) => this.tree.shape.find(row) >= 0);
    this.input.setAttribute("aria-invalid", String(this.search.error !== ""));
    this.input.title = this.search.error;
    this.treeView.renew();
    if (this.search.rows.length > 0 && !this.search.has(this.selected)) this.goToResult(1);
    this.count.textContent = this.search.summary(this.selected);
  }

  /** @param {1 | -1} direction */
  goToResult(direction) {
    const row = this.search.next(this.selected, direction);
    if (row < 0) return;
    if (this.view !== "flame") this.show("tree");
    this.select(row);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const target = /** @type {Element} */ (event.target);
    const isTyping = target.closest("input, select, textarea, dialog") !== null;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.pressInPage(event.key) || this.pressInTree(event.key, target)) event.preventDefault();
  }

  /** @param {string} key */
  pressInPage(key) {
    /** @type {Record<string, () => void>} */
    const actions = {
      "/": () => this.input.select(), n: () => this.goToResult(1), N: () => this.goToResult(-1),
      s: () => this.open("summary"), t: () => this.open("tree"), f: () => this.open("flame"),
      o: () => this.open("tables"), d: () => this.switchTheme(), "?": () => this.help.showModal(),
    };
    if (!Object.hasOwn(actions, key)) return false;
    actions[key]();
    return true;
  }

  /** @param {string} key @param {Element} target */
  pressInTree(key, target) {
    const isControl = target.closest("button, a, summary, .panel") !== null;
    return this.view === "tree" && !isControl && this.treeView.press(key);
  }

  switchTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" :
      matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    this.flame.later();
  }

  /** @param {string} view */
  open(view) {
    const hasFrame = this.selected >= 0 && (view === "tree" || view === "flame");
    location.hash = fragment(view, hasFrame ? this.selected : null);
  }
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function makeHelp() {
  const list = make("dl", {class: "terms"});
  for (const [keys, meaning] of kHelp)
    list.append(make("dt", {}, make("kbd", {}, keys)), make("dd", {}, meaning));
  return make("dialog", {"aria-label": "Keys"}, make("h2", {}, "Keys"), list,
              make("p", {class: "note"}, "A search for op:NAME, function:NAME or line:FILE:LINE " +
                                         "finds the whole name."),
              make("form", {method: "dialog"}, make("button", {}, "Close")));
}

const payloadElement = document.getElementById("payload");
try {
  if (payloadElement === null) throw new Error("The page has no data.");
  new Page(await readPayload(payloadElement));
  document.body.dataset.ready = "true";
} catch (error) {
  const text = error instanceof Error ? error.message : String(error);
  document.body.append(make("p", {role: "alert"}, `The report cannot be shown: ${text}`));
  throw error;
}
