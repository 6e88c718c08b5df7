// The summary: what ran, where the calls come from, what a reader should look at first.
import { Frames } from "./payload.js";
import { fragment, make } from "./elements.js";
import { counted, distinctPath, readableCount, readableTime } from "./format.js";
import { changeText } from "./panel.js";
import { functionTable, lineTable, opTable, ownLines } from "./tables.js";

const kShown = 10;  // Rows of each table.

/** @param {Frames} frames */
export function makeSummary(frames) {
  const {summary, header, comparison: compared} = frames.payload;
  if (compared) return make("div", {class: "summary"}, comparison(compared, header));
  return make("div", {class: "summary"}, facts(header),
              (frames.payload.findings ?? []).length > 0 ? findings(frames) : null,
              ownLines(summary).length > 0 ? part(lineTable(summary, kShown), "lines") : null,
              (summary.ops ?? []).length > 0 ? part(opTable(summary, kShown), "ops") : null,
              (summary.libraries ?? []).length > 0 ?
                part(functionTable("Library calls", summary.libraries, kShown), "libraries") : null,
              (summary.kernels ?? []).length > 0 ?
                part(functionTable("Device kernels", summary.kernels, kShown), "kernels") : null);
}

/** @param {[string, string][]} header */
function facts(header) {
  const list = make("dl", {class: "terms facts"});
  for (const [label, text] of header)
    if (label !== "") list.append(make("dt", {}, label), make("dd", {}, text));
  return list;
}

/**
 * @param {string} letter
 * @param {string} name
 * @param {[string, string][]} header
 */
function comparedReport(letter, name, header) {
  return make("div", {}, make("h2", {}, `${letter}  ${name}`), facts(header));
}

/**
 * @template Row
 * @param {import("./tables.js").SortableTable<Row>} table
 * @param {string} name
 */
function part(table, name) {
  const left = table.rows.length - kShown;
  return make("section", {}, table.element, left <= 0 ? null : make(
    "p", {class: "more"}, make("a", {href: fragment(`tables-${name}`)},
                               `${readableCount(left)} more`)));
}

/** @param {Frames} frames */
function findings(frames) {
  return make("section", {class: "findings"}, make("h2", {}, "Findings"),
              make("ol", {}, ...frames.payload.findings.map((one) => finding(frames, one))));
}

/**
 * Returns `3.4 % of the time in ops, `; nothing if it is not known.
 * @param {number | null} share
 */
function shareOf(share) {
  if (share === null) return "";
  return share < 0.0005 ? "less than 0.1 % of the time in ops, " :
    `${(100 * share).toFixed(1)} % of the time in ops, `;
}

/**
 * @param {Frames} frames
 * @param {import("./payload.js").Finding} one
 */
function finding(frames, one) {
  const files = frames.payload.findings.map((other) => other.file);
  const place = `${distinctPath(one.file, files)}:${one.line}`;
  const cost = one.cost_ns > 0 ? `${readableTime(one.cost_ns)}, ${shareOf(one.share ?? null)}` : "";
  const evidence = (one.frames ?? []).filter((row) => row < frames.count);
  const last = evidence[evidence.length - 1];
  return make("li", {},
              make("p", {class: "top"},
                   make("span", {class: "rule"}, one.rule),
                   make("a", {href: last === undefined ?
                     fragment("tree", null, `line:${one.file}:${one.line}`) :
                     fragment("tree", last), title: one.file}, place),
                   one.function === "" ? null : make("span", {class: "note"}, `in ${one.function}`),
                   make("span", {class: "cost"},
                        cost + counted(one.calls, "call"))),
              make("p", {class: "message"}, one.message),
              one.reason ? make("p", {class: "reason"}, one.reason) : null,
              make("p", {}, one.why), make("p", {class: "remedy"}, one.remedy),
              evidence.length === 0 ? null : make("p", {class: "evidence"}, ...evidence.flatMap(
                (row, at) => [at === 0 ? "" : " › ", make(
                  "a", {href: fragment("tree", row)}, frames.text("label", row))])));
}

/**
 * @param {import("./payload.js").Comparison} found
 * @param {[string, string][]} header of the first report.
 */
function comparison(found, header) {
  const notes = [];
  if (found.conclusive === false)
    notes.push("One of the two lacks a part of what ran, which may hide a difference.");
  if (found.same_build === false)
    notes.push("The builds of PyTorch differ, so only ops, kernels, library calls and the " +
               "program's own functions are compared.");
  return make("section", {class: "comparison"},
              make("div", {class: "both"}, comparedReport("A", found.first, header),
                   comparedReport("B", found.second, found.header ?? [])),
              ...notes.map((note) => make("p", {class: "note"}, note)),
              changeList("Differences", found.changes ?? [], "Nothing differs."),
              (found.not_known ?? []).length === 0 ? null :
                changeList("Differences that a dry run cannot determine", found.not_known, ""));
}

/**
 * @param {string} title
 * @param {import("./payload.js").Change[]} changes
 * @param {string} none
 */
function changeList(title, changes, none) {
  const list = make("ul", {class: "changes"}, ...changes.map((change) => {
    const name = change.path[change.path.length - 1] ?? "";
    const link = change.row === undefined ? make("span", {}, name) :
      make("a", {href: fragment("tree", change.row)}, name);
    return make("li", {}, make("span", {class: `tag layer-${change.layer}`}, change.layer), link,
                make("span", {class: "note"}, changeText(change)));
  }));
  return make("div", {}, make("h2", {}, title), changes.length === 0 ? none : list);
}
