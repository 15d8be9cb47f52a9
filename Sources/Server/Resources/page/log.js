// The conversation on the page: a bubble for each message, a line for each call of a function.

import { inWords } from "./values.js";

/** Shows entries of a transcript in an element. */
export class Log {
  #element;
  #welcome;
  #userName;
  #shown = new Map();
  /** Says what struck-through words are, below the first message that has some; null: none has. */
  #legend = null;
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
    for (const element of this.#lines) element.remove();
    this.#shown.clear();
    this.#legend = null;
    this.#welcome.hidden = false;
  }

  /**
   * Another conversation begins. What is shown stays, greyed, above a line that says so.
   * @param {string} text of that line
   * @param {Set<string>} kept ids of the entries that belong to the new conversation
   */
  startOver(text, kept) {
    const own = new Map([...this.#shown].filter(([id]) => kept.has(id)));
    const moved = [...own.values()];
    const past = this.#lines.filter((element) => !moved.includes(element));
    for (const element of past) {
      element.classList.add("past");
      if (element.dataset.state === "pending") element.remove();
    }
    this.#shown = own;
    this.#legend = null;
    if (past.length === 0) return;
    this.#append(make("p", "divider", text));
    this.#element.append(...moved);
    this.#scrollToEnd();
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
    if (entry.cut && !this.#legend) {
      this.#legend = make("p", "aside", "Struck-through words were not heard.");
      element.after(this.#legend);
    }
    if (this.#followsEnd) this.#scrollToEnd();
  }

  /** Everything but the welcome. */
  get #lines() {
    return [...this.#element.children].filter((element) => element !== this.#welcome);
  }

  #add(entry) {
    const element = document.createElement("div");
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

/** Shows a call with its values in words. Where the output is not shown as it came, or arguments are cut, a click
 *  shows both as they came. */
function showCall(element, { name, arguments: text, output }) {
  const given = inWords(text);
  const result = output === undefined ? undefined : inWords(output) || (output && "none");
  const parts = [
    make("span", "unseen", "Function call: "), make("code", "", `${name}(${given})`),
    make("span", "text", result === undefined ? " …" : ` → ${result}`),
  ];
  const isWhole = result === output && !given.endsWith("…");
  if (result === undefined || isWhole) return element.replaceChildren(...parts);
  const [details, summary] = [make("details", "", ""), make("summary", "", "")];
  summary.append(...parts);
  details.append(summary, make("code", "", `${name}(${text}) → ${output}`));
  element.replaceChildren(details);
}

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.textContent = text;
  return element;
}
