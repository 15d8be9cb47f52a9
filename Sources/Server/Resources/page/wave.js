// The level of microphone and loudspeaker as a strip of bars: the newest at the right.

/** Bars on the strip at most, and the width of one with the space beside it, in CSS pixels. */
const mostBars = 120;
const barPixels = 8;
/** Milliseconds of one bar. */
const barMilliseconds = 50;

/** Draws levels into a canvas. */
export class Wave {
  #canvas;
  #levels = [];
  #newest = { input: 0, output: 0 };
  #shownAt = 0;
  #timer = 0;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#canvas = canvas;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    new ResizeObserver(() => this.#fit()).observe(canvas);
    this.#fit();
  }

  /** The levels now, 0 to 1. */
  add({ input, output }) {
    this.#newest = { input: Math.max(input, this.#newest.input), output };
    this.#timer ||= setInterval(() => this.#step(), barMilliseconds);
  }

  #step() {
    this.#levels = [...this.#levels, this.#newest].slice(-mostBars);
    const isQuiet = this.#levels.every(({ input, output }) => input + output < 0.0005);
    this.#newest = { input: 0, output: this.#newest.output };
    this.#draw();
    const now = performance.now();
    if (now - this.#shownAt > 500) {
      this.#shownAt = now;
      const { input, output } = this.#levels.at(-1);
      this.#canvas.setAttribute("aria-valuenow", String(Math.round(100 * height(input + output))));
    }
    if (!isQuiet) return;
    clearInterval(this.#timer);
    this.#timer = 0;
  }

  /** Gives the canvas a pixel for each of the screen's. */
  #fit() {
    const { clientWidth, clientHeight } = this.#canvas;
    this.#canvas.width = Math.round(clientWidth * devicePixelRatio);
    this.#canvas.height = Math.round(clientHeight * devicePixelRatio);
    this.#draw();
  }

  #draw() {
    const context = this.#canvas.getContext("2d");
    const { width, height: tall } = this.#canvas;
    const style = getComputedStyle(this.#canvas);
    const bars = Math.min(mostBars, Math.floor(this.#canvas.clientWidth / barPixels));
    const step = width / bars;
    const thin = 2 * devicePixelRatio;
    context.clearRect(0, 0, width, tall);
    for (let index = 0; index < bars; index++) {
      const { input = 0, output = 0 } = this.#levels[this.#levels.length - bars + index] ?? {};
      const speaks = output > input;
      const size = Math.max(thin, tall * height(Math.max(input, output)));
      context.fillStyle = style.getPropertyValue(
        size <= thin ? "--line" : speaks ? "--agent" : "--accent");
      context.beginPath();
      context.roundRect(index * step + step / 4, (tall - size) / 2, step / 2, size, step / 4);
      context.fill();
    }
  }
}

/**
 * The height of a level, 0 to 1: its root. A whisper is seen, and loud syllables differ from each other; the
 * loudest sound that there is just fits.
 */
export function height(level) {
  return Math.sqrt(Math.min(1, level));
}
