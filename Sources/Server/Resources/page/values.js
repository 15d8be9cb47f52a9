// The arguments and the output of a function as words for people. It touches no browser interface.

import { bytes, count } from "../admin/format.js";

/** How a number is shown whose name ends so. */
const units = {
  ms: (number) => `${count(number)} ms`, seconds: (number) => `${count(number)} s`,
  percent: (number) => `${number} %`, bytes,
};

/**
 * The names and values of a JSON object: `{"session_bytes":41230}` becomes `session: 41.2 kB`. Null where
 * the text is no such object, or has values within values.
 */
export function inWords(json) {
  let object;
  try {
    object = JSON.parse(json);
  } catch {
    return null;
  }
  if (!object || typeof object !== "object" || Array.isArray(object)) return null;
  const pairs = Object.entries(object);
  if (pairs.some(([, value]) => value && typeof value === "object")) return null;
  return pairs.map(([name, value]) => pair(name.split("_"), value)).join(", ");
}

function pair(words, value) {
  const unit = words.length > 1 && (typeof value === "number" || value === null)
    ? units[words.at(-1)] : undefined;
  const name = (unit ? words.slice(0, -1) : words).join(" ");
  return `${name}: ${value === null ? "–" : unit ? unit(value) : value}`;
}
