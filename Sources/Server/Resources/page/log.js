// The conversation on the page: a bubble for each message, a line for each call of a function.

/** Shows entries of a transcript in an element. */
export class Log {
  #element;
  #welcome;
  #userName;
  #shown = new Map();
  /** Whether the newest line stays in sight: a user who reads further up is not interrupted. */
  #followsEnd = true;
  #height = 0;

  /**
   * @param {HTMLElement} element
   * @param {HTMLElement} welcome what it shows while it is empty
   * @param {string} userName what a screen reader calls the user
   */
  constructor(element, welcome, userName = "You") {
    this.#element = element;
    this.#welcome = welcome;
    this.#userName = userName;
    element.addEventListener("scroll", () => {
      // A scroll in the frame in which the height has changed is not the user's.
      if (element.clientHeight === this.#height) this.#followsEnd = this.#isAtEnd;
    });
    // A notice or a button below takes room from it.
    new ResizeObserver(() => {
      this.#height = element.clientHeight;
      if (this.#followsEnd) this.#scrollToEnd();
    }).observe(element);
  }

  /** Removes every entry. */
  clear() {
    for (const element of this.#element.querySelectorAll(".turn, .aside")) element.remove();
    this.#shown.clear();
    this.#welcome.hidden = false;
  }

  /** Shows a new or changed entry. */
  show(entry) {
    if (entry.isDeleted) {
      this.#shown.get(entry.id)?.remove();
      this.#shown.delete(entry.id);
      return;
    }
    const element = this.#shown.get(entry.id) ?? this.#add(entry);
    if (entry.kind === "call") showCall(element, entry);
    else showMessage(element, entry, this.#userName);
    if (this.#followsEnd) this.#scrollToEnd();
  }

  /** Adds a line of the page's own. */
  note(text) {
    const element = document.createElement("p");
    element.className = "aside";
    element.textContent = text;
    this.#append(element);
  }

  #add(entry) {
    const element = document.createElement(entry.kind === "call" ? "p" : "div");
    element.className = entry.kind === "call" ? "aside call" : `turn ${entry.role}`;
    this.#shown.set(entry.id, element);
    this.#append(element);
    return element;
  }

  #append(element) {
    this.#welcome.hidden = true;
    this.#element.append(element);
    this.#scrollToEnd();
  }

  get #isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.#element;
    return scrollHeight - scrollTop - clientHeight < 60;
  }

  #scrollToEnd() {
    this.#followsEnd = true;
    this.#element.scrollTop = this.#element.scrollHeight;
  }
}

function showMessage(element, { role, text, cut, state }, userName) {
  element.dataset.state = state;
  const missing = role === "user" ? "(no words were heard)" : "(no reply)";
  const waiting = role === "user" ? "Listening…" : "…";
  const shown = text || (cut || state === "streaming" ? "" : state === "pending" ? waiting : missing);
  const parts = [
    make("span", "unseen", role === "user" ? `${userName}: ` : "Agent: "), make("span", "text", shown),
  ];
  const notes = { failed: "Not sent.", unsure: "It may not have been received." };
  if (text && role === "user" && notes[state]) {
    parts.push(make("span", "note", ` ${notes[state]}`));
  }
  if (cut) {
    parts.push(make("span", "unseen", " Not heard: "), make("del", "cut", cut));
  }
  element.replaceChildren(...parts);
}

function showCall(element, { name, arguments: text, output }) {
  element.replaceChildren(
    make("span", "unseen", "Function call: "),
    make("code", "", `${name}(${text === "{}" ? "" : text})`),
    make("span", "text", output === undefined ? " …" : ` → ${output}`));
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
