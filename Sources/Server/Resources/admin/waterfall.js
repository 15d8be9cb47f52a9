// The hops of a turn as a waterfall: from the end of the user's speech, or the request of a typed turn, to the
// words, the first token and the first sound. `hops` touches no browser interface.

import { hop, when } from "./format.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const NAMES = [["transcript", "Recognised"], ["first_token", "First token"], ["first_audio", "First sound"]];

/**
 * The hops of a turn that were reached, in order.
 * @param latency `latency_ms` of a record: milliseconds from the start until each hop
 * @returns `{name, start, end}` in milliseconds; each hop starts where the one before has ended
 */
export function hops(latency) {
  const reached = [];
  for (const [key, name] of NAMES) {
    const end = latency[key];
    if (end === undefined || end === null) continue;
    // A speculative reply may have its first token before the words are final.
    const start = Math.min(reached.at(-1)?.end ?? 0, end);
    reached.push({ name, start, end });
  }
  return reached;
}

/** Shows turns, all on one scale. */
export function showTurns(list, turns) {
  const longest = Math.max(1, ...turns.flatMap((turn) => hops(turn.latency_ms).map(({ end }) => end)));
  list.replaceChildren(...turns.map((turn, index) => makeTurn(turn, index + 1, longest)));
}

function makeTurn(turn, number, longest) {
  const entry = document.createElement("li");
  const reached = hops(turn.latency_ms);
  const last = reached.at(-1);
  const heading = make("p", "turn-head", "");
  heading.append(
    make("b", "", `Turn ${number}`),
    make("span", "faint", when(turn.started_at)),
    make("span", "turn-total", last ? `${hop(last.end)} in all` : "no times"));
  entry.append(heading);
  const outcome = makeOutcome(turn);
  if (outcome) entry.append(outcome);
  for (const each of reached) entry.append(makeHop(each, longest));
  return entry;
}

/** How a response ended, where that is worth a line; null: as it should. */
function makeOutcome({ status, status_details: details }) {
  const reason = details?.error?.message ?? details?.error?.code ?? details?.reason ?? "no reason is known";
  if (status === "failed") return make("p", "outcome problem", `Failed: ${reason}`);
  if (status === "incomplete") return make("p", "outcome problem", `Incomplete: ${reason}`);
  return status === "cancelled" ? make("p", "outcome faint", "Interrupted") : null;
}

function makeHop({ name, start, end }, longest) {
  const row = make("div", "hop", "");
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", "0 0 100 8");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(NAMESPACE, "rect");
  bar.setAttribute("x", String((100 * start) / longest));
  bar.setAttribute("width", String(Math.max(0.8, (100 * (end - start)) / longest)));
  bar.setAttribute("height", "8");
  svg.append(bar);
  row.append(make("span", "", name), svg, make("span", "hop-time", hop(end - start)));
  return row;
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
