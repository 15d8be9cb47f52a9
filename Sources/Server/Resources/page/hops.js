// The hops of the last turns: a row for each turn, with the milliseconds and a bar.

/** Rows that are shown. */
const mostTurns = 5;
/** The bar is at least so long, in ms, so that quick turns look quick. */
const leastScale = 1000;
const svg = "http://www.w3.org/2000/svg";

/** Shows the newest turns in a table. */
export class HopsChart {
  #table;
  #newest;
  #turns = [];

  /**
   * @param {HTMLTableElement} table hidden while there is no turn
   * @param {HTMLElement} newest says when the newest turn's reply began
   */
  constructor(table, newest) {
    this.#table = table;
    this.#newest = newest;
  }

  /** A turn has begun to be measured, or the newest one has reached another hop. */
  show(hops) {
    const newest = this.#turns.at(-1);
    // A hop that the newest turn has already is one of another turn.
    const isSame = newest && Object.keys(hops)
      .every((key) => newest[key] === null || newest[key] === hops[key]);
    if (isSame) this.#turns.pop();
    this.#turns = [...this.#turns, hops].slice(-mostTurns);
    this.#draw();
  }

  /** Forgets every turn. */
  clear() {
    this.#turns = [];
    this.#draw();
  }

  #draw() {
    this.#table.hidden = this.#turns.length === 0;
    const longest = this.#turns.map((hops) => Math.max(...Object.values(hops)));
    const scale = Math.max(leastScale, ...longest);
    const rows = this.#turns.toReversed().flatMap((hops) => [figures(hops), bar(hops, scale)]);
    this.#table.tBodies[0].replaceChildren(...rows);
    this.#newest.textContent = began(this.#turns.at(-1));
  }
}

/** When the reply of a turn began, as a sentence; "": it has not begun. */
function began({ tokenMs = null, soundMs = null } = {}) {
  if (soundMs !== null) return `First sound after ${soundMs} ms`;
  return tokenMs === null ? "" : `First word after ${tokenMs} ms`;
}

function figures(hops) {
  const row = document.createElement("tr");
  for (const key of ["wordsMs", "tokenMs", "soundMs"]) {
    const cell = document.createElement("td");
    const isTyped = key === "wordsMs" && hops[key] === 0;
    cell.textContent = isTyped ? "typed" : hops[key] === null ? "–" : `${hops[key]} ms`;
    row.append(cell);
  }
  return row;
}

function bar(hops, scale) {
  const row = document.createElement("tr");
  row.className = "bar";
  row.setAttribute("aria-hidden", "true");
  const cell = document.createElement("td");
  cell.colSpan = 3;
  const drawing = document.createElementNS(svg, "svg");
  drawing.setAttribute("viewBox", "0 0 100 4");
  drawing.setAttribute("preserveAspectRatio", "none");
  let start = 0;
  for (const name of ["words", "token", "sound"]) {
    const end = hops[`${name}Ms`];
    if (end === null) continue;
    const rect = document.createElementNS(svg, "rect");
    rect.setAttribute("class", name);
    rect.setAttribute("x", String((100 * start) / scale));
    rect.setAttribute("width", String((100 * Math.max(0, end - start)) / scale));
    rect.setAttribute("height", "4");
    drawing.append(rect);
    start = Math.max(start, end);
  }
  cell.append(drawing);
  row.append(cell);
  return row;
}
