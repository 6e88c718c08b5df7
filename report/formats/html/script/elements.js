// Elements of the page. Text from a trace becomes text nodes only, never markup.

/**
 * @typedef {string | Node | null | undefined} Child
 */

/**
 * Returns an element. Attributes named `on...` are listeners; those that are null, undefined or
 * false are left out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/**
 * @param {Child[]} children
 * @returns {(string | Node)[]}
 */
function present(children) {
  return /** @type {(string | Node)[]} */ (children.filter((child) => child));
}

/**
 * Replaces all children of an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/**
 * Returns a link to another site, or the text alone if there is no address.
 * @param {string} address
 * @param {string} text
 */
export function outwardLink(address, text) {
  if (!address.startsWith("https://")) return make("span", {}, text);
  return make("a", {href: address, target: "_blank", rel: "noopener noreferrer"}, text);
}

/**
 * Returns a drop-down list with its label.
 * @param {string} label
 * @param {(HTMLOptionElement | HTMLOptGroupElement)[]} options
 * @param {(value: string) => void} changed
 */
export function makeSelect(label, options, changed) {
  const select = make("select", {"aria-label": label}, ...options);
  select.addEventListener("change", () => changed(select.value));
  return select;
}

/**
 * Returns a button that is on or off.
 * @param {string} text
 * @param {Record<string, any>} attributes
 * @param {(on: boolean) => void} changed
 */
export function makeToggle(text, attributes, changed) {
  const button = make("button", {type: "button", ...attributes}, text);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    changed(on);
  });
  if (!button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", "false");
  return button;
}

/**
 * The fragment of the page's address that shows a view, and in it a frame or the results of a
 * search.
 * @param {string} view
 * @param {number | null} row
 * @param {string} query
 */
export function fragment(view, row = null, query = "") {
  const frame = row === null ? "" : `/${row}`;
  return `#${view}${frame}${query === "" ? "" : `?find=${encodeURIComponent(query)}`}`;
}
