// What is known about a call, as readable fields.
import { make } from "./elements.js";
import { lineText, readableCount, readableTime } from "./format.js";

// What the panel shows in a better place, or the tree already does.
const kShownElsewhere = new Set([
  "step", "schema", "arguments", "results", "key_set", "included", "excluded", "fallthrough",
  "dispatch_key", "kernel", "registered_at", "dispatch", "repeated_calls", "variants", "variants_left_out", "new_tensors",
  "calls",
  "launches", "configurations", "python_name", "tensors", "returned",
]);

/** @type {Record<string, string>} */
const kNames = {
  cpu_capability: "CPU capability", grad_mode: "grad mode", inference_mode: "inference mode",
  dispatch_modes: "dispatch modes", call_lines: "may be called at lines",
  tail_call: "reached by a tail call", inlined: "inlined by the compiler", calls_at_least: "calls are a lower bound",
  reads_device_memory: "reads device memory", calls_by_rank: "calls by rank",
  calls_by_process: "calls by process", duration_ns: "time on the device",
  shared_memory: "shared memory", static_shared_memory: "static shared memory",
  local_memory: "local memory", num_warps: "warps", num_stages: "stages",
};

/** @param {string} key */
function nameOf(key) {
  return kNames[key] ?? key.replaceAll("_", " ");
}

/**
 * Returns `float32 4×3×56×56` for a tensor.
 * @param {any} tensor
 */
function tensorText(tensor) {
  const shape = Array.isArray(tensor.shape) ? tensor.shape.join("×") || "scalar" : "?";
  return `${tensor.dtype ?? "?"} ${shape}`;
}

/**
 * Returns a value of an op record or a library call in one line.
 * @param {any} value
 * @returns {string}
 */
export function valueText(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) {
    const isShape = value.length > 1 && value.every((one) => typeof one === "number");
    return isShape ? value.join("×") : `[${value.map(valueText).join(", ")}]`;
  }
  if (typeof value !== "object") return String(value);
  if (value.tensor) return tensorText(value.tensor);
  if (value.type === "more") return "…";
  if (value.format !== undefined && value.name !== undefined)
    return `${value.name} ${value.type ?? ""} ${value.format}`;
  if (typeof value.type === "string" && Object.keys(value).length <= 2)
    return value.value === undefined ? value.type : valueText(value.value);
  return Object.entries(value).filter(([key]) => key !== "calls")
    .map(([key, one]) => `${nameOf(key)} ${valueText(one)}`).join(", ");
}

/**
 * Returns a list of terms; entries without a value are left out.
 * @param {[string, string | Node | null | undefined][]} entries
 */
export function terms(entries) {
  const list = make("dl", {class: "terms"});
  for (const [name, value] of entries)
    if (value) list.append(make("dt", {}, name), make("dd", {}, value));
  return list;
}

/**
 * Returns what the op records say about a value in addition to its type.
 * @param {any} value
 * @param {string[]} names of the arguments.
 */
function remarks(value, names) {
  const tensor = value?.tensor;
  if (!tensor) return "";
  const parts = [];
  if (tensor.device) parts.push(tensor.device);
  if (Array.isArray(tensor.strides)) parts.push(`strides ${tensor.strides.join(", ") || "none"}`);
  if (tensor.requires_grad) parts.push("requires grad");
  if (value.relation) parts.push(relationText(value, names));
  return parts.join(" · ");
}

/** @param {any} value @param {string[]} names */
function relationText(value, names) {
  if (value.relation === "fresh") return "fresh storage";
  const of = value.of ?? value.argument;
  const name = typeof of === "number" ? names[of] ?? `argument ${of}` : of;
  return name === undefined ? value.relation : `${value.relation} of ${valueText(name)}`;
}

/**
 * Returns a table of the arguments and results of an op's call.
 * @param {any} detail
 */
export function callTable(detail) {
  const values = Array.isArray(detail.arguments) ? detail.arguments : [];
  const results = Array.isArray(detail.results) ? detail.results : [];
  if (values.length + results.length === 0) return null;
  const names = values.map((/** @type {any} */ one) => one.name ?? "");
  const rows = [
    ...values.map((/** @type {any} */ one) => [one.name ?? "", one.value]),
    ...results.map((/** @type {any} */ one) => ["→", one]),
  ];
  return make("table", {class: "values"}, make("tbody", {}, ...rows.flatMap(([name, value]) => {
    const title = value?.tensor?.keys ? `keys: ${value.tensor.keys.join(", ")}` : null;
    return make("tr", {title}, make("th", {scope: "row"}, name === "→" ? "result" : name),
                make("td", {}, make("div", {}, valueText(value)),
                     make("div", {class: "note"}, remarks(value, names))));
  })));
}

/**
 * Returns where the tensors of a call are: a term for each, and for each copy.
 * @param {any} detail
 */
export function storageList(detail) {
  if (!detail.tensors) return null;
  const {arguments: values = [], results = [], copies = []} = detail.tensors;
  return terms([
    ...[...values, ...results].map((/** @type {any} */ one) => [one.name ?? "result", [
      one.storage === null ? "no storage" : `storage #${one.storage} +${one.offset}`,
      ...(one.written ? ["written in place"] : []),
      ...(one.relation ? [relationText(one, [])] : []),
      ...(one.bytes ? [`${readableCount(one.bytes)} bytes`] : []),
    ].join(" · ")]),
    ...copies.map((/** @type {any} */ one) =>
      ["copy", `storage #${one.from} to #${one.to}, ${one.reason}`]),
  ]);
}

/**
 * Returns the dispatch keys of a call: those that were skipped are struck out, the chosen one is
 * bold.
 * @param {any} detail
 */
export function keyList(detail) {
  if (!Array.isArray(detail.key_set)) return null;
  const skipped = new Set(detail.fallthrough ?? []);
  const list = make("ol", {class: "keys"});
  for (const key of detail.key_set) {
    const isChosen = key === detail.dispatch_key;
    const title = isChosen ? "chosen" : skipped.has(key) ? "skipped: a fallthrough" : null;
    list.append(make("li", {
      title, class: isChosen ? "chosen" : skipped.has(key) ? "skipped" : null,
    }, isChosen ? `▸ ${key}` : key));
  }
  return list;
}

/**
 * Returns the requests to libraries, or the launches of a kernel: one list of terms for each.
 * @param {any} detail
 * @param {string} key
 */
export function requests(detail, key) {
  const list = Array.isArray(detail[key]) ? detail[key] : [];
  return list.map((/** @type {any} */ request) => terms(Object.entries(request)
    .filter(([name, value]) => !(name === "calls" && value === 1))
    .map(([name, value]) => [nameOf(name), fieldText(name, value)])));
}

/**
 * @param {string} name
 * @param {any} value
 */
function fieldText(name, value) {
  if (name === "duration_ns" && typeof value === "object" && value !== null)
    return `${readableTime(value.total ?? 0)} (${readableTime(value.shortest ?? 0)} to ` +
      `${readableTime(value.longest ?? 0)})`;
  return typeof value === "number" ? readableCount(value) : valueText(value);
}

/**
 * Returns the other facts.
 * @param {any} detail
 * @param {boolean} exact the lines at which the frame may be called are exact.
 */
export function otherFacts(detail, exact) {
  const entries = Object.entries(detail).filter(([key]) => !kShownElsewhere.has(key));
  if (entries.length === 0) return null;
  return terms(entries.map(([key, value]) => [
    nameOf(key), key === "call_lines" && Array.isArray(value) ?
      value.map((line) => lineText(line, exact)).join(", ") :
      value === true ? "yes" : fieldText(key, value)]));
}

/**
 * Returns the kinds of calls that took the path.
 * @param {any} detail
 */
export function variantTable(detail) {
  if (!Array.isArray(detail.variants)) return null;
  return make("table", {class: "values"}, make("tbody", {}, ...detail.variants.map(
    (/** @type {any} */ variant) => make(
      "tr", {}, make("th", {scope: "row"}, `×${readableCount(variant.calls)}`),
      make("td", {}, (variant.arguments ?? [])
        .filter((/** @type {any} */ one) => one.value?.tensor || Array.isArray(one.value))
        .map((/** @type {any} */ one) => `${one.name} ${valueText(one.value)}`).join(", ") ||
        variant.dispatch_key || "")))));
}
