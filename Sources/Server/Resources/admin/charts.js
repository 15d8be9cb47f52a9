// The charts of the operator's page: points of an hour at most, drawn as small SVG pictures. `History` and
// `path` touch no browser interface.

const WIDTH = 300;
const HEIGHT = 72;
const NAMESPACE = "http://www.w3.org/2000/svg";

/** The server over time: samples from before the page was opened, then a point each second. */
export class History {
  /** Seconds that are kept. */
  static span = 3600;
  points = [];

  /** The server's own samples, in place of all points that are older than the first one here. */
  load({ fields, samples }) {
    const own = samples.map((sample) => Object.fromEntries(fields.map((name, i) => [name, sample[i]])));
    const first = this.points[0]?.time ?? Infinity;
    this.points = [...own.filter(({ time }) => time < first), ...this.points];
    this.#prune();
  }

  /** The server now. */
  add({ time, resident_bytes, ledger_bytes, sessions, lag_us }) {
    const last = this.points.at(-1);
    // A clock that was set back begins anew.
    if (last && time < last.time) this.points = [];
    if (last?.time === time) this.points.pop();
    this.points.push({ time, resident_bytes, ledger_bytes, sessions, lag_us });
    this.#prune();
  }

  /** The points of the last seconds. */
  last(seconds) {
    const end = this.points.at(-1)?.time ?? 0;
    return this.points.filter(({ time }) => time > end - seconds);
  }

  #prune() {
    const end = this.points.at(-1)?.time ?? 0;
    const first = this.points.findIndex(({ time }) => time > end - History.span);
    if (first > 0) this.points.splice(0, first);
  }
}

/**
 * The line of a series in a picture of WIDTH × HEIGHT. Of the points that share a pixel the highest one is
 * drawn, so that no peak is lost.
 * @param points `{time}` with the series' values, in order
 */
export function path(points, name, { end, seconds, top }) {
  const columns = new Map();
  for (const point of points) {
    const x = Math.round(WIDTH * (1 - (end - point.time) / seconds));
    columns.set(x, Math.max(columns.get(x) ?? 0, point[name]));
  }
  return [...columns].map(([x, value], index) => {
    const y = HEIGHT - HEIGHT * Math.min(1, value / top);
    return `${index ? "L" : "M"}${x} ${y.toFixed(1)}`;
  }).join("");
}

/** A round number that is not below a value: 1, 2 or 5 times a power of ten. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * ([1, 2, 5].find((step) => step * unit >= value) ?? 10);
}

/** One chart in a figure. */
export class Chart {
  #figure;
  #title;
  #series;
  #format;

  /**
   * @param {HTMLElement} figure
   * @param {string} title
   * @param series `{name, label}` of one line or two; the first one's value is the headline
   * @param format makes a text of a value
   */
  constructor(figure, title, series, format) {
    this.#figure = figure;
    this.#title = title;
    this.#series = series;
    this.#format = format;
    const labels = series.length < 2 ? "" : series.map(({ label }, index) =>
      `<span class="legend ${index ? "second" : ""}">${label}</span>`).join("");
    figure.innerHTML = `<figcaption><span>${title}</span><b></b></figcaption>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img">
        <line x1="0" y1="${HEIGHT}" x2="${WIDTH}" y2="${HEIGHT}"/>
        <line x1="0" y1="0" x2="${WIDTH}" y2="0"/>
      </svg>
      <p class="axis" aria-hidden="true"><span></span>${labels}<span></span></p>`;
    const svg = figure.querySelector("svg");
    for (const name of ["area", "first", "second"].slice(0, 1 + series.length)) {
      svg.append(Object.assign(document.createElementNS(NAMESPACE, "path"), {}));
      svg.lastChild.setAttribute("class", name);
    }
  }

  /** Draws the last seconds. */
  draw(history, seconds) {
    const points = history.last(seconds);
    const newest = points.at(-1);
    if (!newest) return;
    const highest = Math.max(...points.flatMap((point) => this.#series.map(({ name }) => point[name])));
    const scale = { end: newest.time, seconds, top: roundUp(highest) };
    const [area, ...lines] = this.#figure.querySelectorAll("path");
    this.#series.forEach(({ name }, index) => {
      lines[index].setAttribute("d", path(points, name, scale));
    });
    const line = lines[0].getAttribute("d");
    const start = line.slice(1).split(" ")[0];
    area.setAttribute("d", `${line}L${WIDTH} ${HEIGHT}L${start} ${HEIGHT}Z`);
    const value = newest[this.#series[0].name];
    this.#figure.querySelector("b").textContent = this.#format(value);
    const axis = this.#figure.querySelector(".axis");
    axis.firstChild.textContent = `${seconds / 60} min ago`;
    axis.lastChild.textContent = `up to ${this.#format(scale.top)}`;
    this.#figure.querySelector("svg").setAttribute("aria-label",
      `${this.#title} over the last ${seconds / 60} minutes: now ${this.#format(value)}, `
      + `at most ${this.#format(highest)}`);
  }
}
