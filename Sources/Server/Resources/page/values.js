// The arguments and the output of a function as words for people. It touches no browser interface.

import { bytes, count } from "../admin/format.js";

/** How a number is shown whose name ends so. */
const units = {
  ms: (number) => `${count(number)} ms`, seconds: (number) => `${count(number)} s`,
  percent: (number) => `${number} %`, bytes,
};

/** Characters that are shown at most: the whole text is a click away. */
const mostCharacters = 200;

/**
 * The names and values of a JSON object or array: `{"session_bytes":41230}` becomes `session: 41.2 kB`, and
 * `{"slots":[{"day":"Monday","hour":9}]}` becomes `slots: (day: Monday, hour: 9)`. Another text stays as it is.
 * What is long ends with `…`.
 */
export function inWords(text) {
  const shown = wordsOf(text) ?? text;
  if (shown.length <= mostCharacters) return shown;
  // No half of a character that takes two places.
  return `${shown.slice(0, mostCharacters - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}

function wordsOf(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" ? words(value) : null;
  } catch {
    return null;
  }
}

function words(value) {
  if (value === null) return "–";
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.map(nested).join(", ");
  return Object.entries(value).map(([name, each]) => pair(name.split("_"), each)).join(", ");
}

/** A value within another. */
function nested(value) {
  if (value === null || typeof value !== "object") return words(value);
  return Object.keys(value).length > 0 ? `(${words(value)})` : "none";
}

function pair(names, value) {
  const unit = names.length > 1 && (typeof value === "number" || value === null)
    ? units[names.at(-1)] : undefined;
  const name = (unit ? names.slice(0, -1) : names).join(" ");
  if (unit && value !== null) return `${name}: ${unit(value)}`;
  return `${name}: ${Array.isArray(value) && value.length > 0 ? words(value) : nested(value)}`;
}
