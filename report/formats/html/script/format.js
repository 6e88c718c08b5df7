// Numbers as a reader wants them; the same as present/readable_numbers.h.

/** @param {number} value @param {string} unit */
function threeDigits(value, unit) {
  return `${Number(value.toPrecision(3))} ${unit}`;
}

/**
 * Returns `12 µs`.
 * @param {number} nanoseconds
 */
export function readableTime(nanoseconds) {
  if (nanoseconds >= 1e9) return threeDigits(nanoseconds / 1e9, "s");
  if (nanoseconds >= 1e6) return threeDigits(nanoseconds / 1e6, "ms");
  if (nanoseconds >= 1e3) return threeDigits(nanoseconds / 1e3, "µs");
  return `${Math.round(nanoseconds)} ns`;
}

/**
 * Returns `12,345`.
 * @param {number} count
 */
export function readableCount(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * Returns `1 call`, `12 calls`.
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${readableCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Returns `1.5 MiB`.
 * @param {number} bytes
 */
export function readableSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; bytes >= 1024 && at + 1 < units.length; ++at) bytes /= 1024;
  return at === 0 ? `${bytes} B` : threeDigits(bytes, units[at]);
}

/**
 * Returns `12 %`; `<0.1 %` for a small part.
 * @param {number} part
 * @param {number} whole
 */
export function readablePart(part, whole) {
  if (whole <= 0 || part <= 0) return "";
  const percent = 100 * part / whole;
  return percent < 0.1 ? "<0.1 %" : `${Number(percent.toPrecision(percent < 10 ? 2 : 3))} %`;
}

/**
 * Returns `+12 %`, or an empty text if there is nothing to compare with.
 * @param {number} before
 * @param {number} after
 */
export function readableChange(before, after) {
  if (before <= 0 || after <= 0 || before === after) return "";
  const percent = 100 * (after - before) / before;
  const text = Math.abs(percent) < 10 ? percent.toFixed(1) : percent.toFixed(0);
  return Number(text) === 0 ? "" : `${percent > 0 ? "+" : ""}${text.replace("-", "−")} %`;
}

/**
 * Returns `123`, or `~123` for an approximate line.
 * @param {number} line
 * @param {boolean} exact
 */
export function lineText(line, exact) {
  return `${exact ? "" : "~"}${line}`;
}

/**
 * Returns the end of a long path, `…/native/Convolution.cpp`: it tells more than the beginning.
 * @param {string} path
 * @param {number} length
 */
export function shortPath(path, length) {
  if (path.length <= length) return path;
  const parts = path.split("/");
  let text = parts.pop() ?? "";
  if (text.length + 2 > length) return `…${text.slice(1 - length)}`;
  while (parts.length > 0 && text.length + parts[parts.length - 1].length + 3 <= length)
    text = `${parts.pop()}/${text}`;
  return `…/${text}`;
}

/**
 * Returns the end of a path that no other path has, as the summary in the terminal shows files.
 * @param {string} path
 * @param {string[]} others May contain the path itself.
 */
export function distinctPath(path, others) {
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    const end = path.slice(slash);
    if (!others.some((other) => other !== path && (other.endsWith(end) || other === end.slice(1))))
      return end.slice(1);
  }
  return path;
}
