// The notice that there is no connection: why, the seconds to the next attempt, and a button that makes it
// at once.

/** How often the seconds are looked at, in ms. */
const lookEvery = 250;

/** The notice. */
export class LostNotice {
  #element;
  #text;
  #next;
  #dueAt = 0;
  #timer = 0;

  /** @param {HTMLElement} element the notice. @param {() => void} onRetry the user has pressed the button */
  constructor(element, onRetry) {
    this.#element = element;
    [this.#text, this.#next] = element.querySelectorAll("span");
    element.querySelector("button").addEventListener("click", () => {
      this.expect(0);
      onRetry();
    });
  }

  /** Shows the notice. A screen reader says the text, and not the seconds. */
  show(text) {
    this.#element.hidden = false;
    if (this.#text.textContent !== text) this.#text.textContent = text;
  }

  /** The next attempt begins in so many milliseconds. */
  expect(milliseconds) {
    this.#dueAt = performance.now() + milliseconds;
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#count(), lookEvery);
    this.#count();
  }

  /** There is a connection, or will be none. */
  hide() {
    clearInterval(this.#timer);
    this.#element.hidden = true;
    this.#text.textContent = "";
  }

  #count() {
    const seconds = Math.ceil((this.#dueAt - performance.now()) / 1000);
    this.#next.textContent = seconds > 0 ? `Next try in ${seconds} s.` : "Trying…";
    if (seconds <= 0) clearInterval(this.#timer);
  }
}
