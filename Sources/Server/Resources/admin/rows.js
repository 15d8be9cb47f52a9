// The rows of a table of sessions on the operator's page: a row a session, whose first cell has a button with the
// session's id.

import { shortID } from "./format.js";

/** The rows of one table, by the session's id. Where rows stand is up to their table. */
export class SessionRows {
  #table;
  #rows = new Map();
  #chosen = null;

  /**
   * @param {HTMLTableElement} table its headings have the classes of the cells below them
   * @param {(id: string) => void} onChoose a row was clicked
   */
  constructor(table, onChoose) {
    this.#table = table;
    table.tBodies[0].addEventListener("click", ({ target }) => {
      const id = target.closest("tr")?.dataset.id;
      if (id) onChoose(id);
    });
  }

  get size() {
    return this.#rows.size;
  }

  /** The ids of all rows. */
  get ids() {
    return [...this.#rows.keys()];
  }

  /** The row of a session, or undefined. */
  get(id) {
    return this.#rows.get(id);
  }

  /** Makes the row of a session. The table puts it into its place. */
  make(id) {
    const row = document.createElement("tr");
    row.dataset.id = id;
    row.setAttribute("aria-current", String(id === this.#chosen));
    for (const heading of this.#table.tHead.rows[0].cells) row.insertCell().className = heading.className;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = shortID(id);
    button.title = id;
    row.cells[0].append(button);
    this.#rows.set(id, row);
    return row;
  }

  /** Removes the row of a session, if there is one. */
  remove(id) {
    this.#rows.get(id)?.remove();
    this.#rows.delete(id);
  }

  /** Marks the row of a session; null: none. */
  mark(id) {
    this.#chosen = id;
    for (const [other, row] of this.#rows) row.setAttribute("aria-current", String(other === id));
  }

  /** Moves the focus to a session's row. Returns whether it is shown. */
  focus(id) {
    const button = this.#rows.get(id)?.querySelector("button");
    button?.focus();
    return Boolean(button);
  }
}
