// The sessions on the operator's page: one page of the list, which the server sorts. A row belongs to a
// session, and keeps its place while the pointer or the focus is on the rows, so that a click meets the
// session that was aimed at.

import { bytes, count, hop, replyDelay, span, stateName } from "./format.js";
import { SessionRows } from "./rows.js";
import { setText } from "./server.js";

const PAGE_ROWS = 50;
const FIRST_ORDER = { id: "descending" };

/** What is asked of the server: the order, the filter and the place of the page. */
export class Query {
  sort = "bytes";
  order = "descending";
  state = "";
  search = "";
  #start = {};

  /** Sorts by a column; again by the same one: the other way round. */
  sortBy(column) {
    const isSame = column === this.sort;
    this.order = isSame && this.order === "descending" ? "ascending" : "descending";
    this.sort = column;
    this.#start = {};
  }

  /** Shows only some sessions. */
  filter(state, search) {
    this.state = state;
    this.search = search;
    this.#start = {};
  }

  /**
   * Turns to another page: "first", "previous", "next" or "last". `page` is the one that is shown; while
   * none is, the page that was asked for stays the one that is wanted.
   */
  turn(where, page) {
    if (where === "first") this.#start = {};
    if (where === "last") this.#start = { before: "" };
    if (where === "previous" && page?.first) this.#start = { before: page.first };
    if (where === "next" && page?.last) this.#start = { after: page.last };
  }

  /** A page that was to end before a row is the first one now: it begins at the beginning. */
  settle(page) {
    if (this.#start.before && page.position === 0) this.#start = {};
    else if (this.#start.after && page.data.length === 0) this.#start = { before: "" };
    else return false;
    return true;
  }

  /** The command for the server. */
  get command() {
    const { sort, order } = this;
    return {
      type: "sessions.watch", sort, order, limit: PAGE_ROWS, ...this.#start,
      ...(this.state ? { state: this.state } : {}), ...(this.search ? { search: this.search } : {}),
    };
  }
}

/** Shows pages of sessions. Dispatches `query` when another page is wanted, and `choose` for a session. */
export class SessionTable extends EventTarget {
  query = new Query();
  /** The rows that are shown. */
  rows;
  #table;
  #body;
  #view;
  #page = null;

  /** @param view the table, its pager, filter and texts */
  constructor(view) {
    super();
    this.#view = view;
    this.#table = view.table;
    this.#body = view.table.tBodies[0];
    for (const heading of this.#table.querySelectorAll("th[data-sort]")) {
      heading.querySelector("button").addEventListener("click", () => {
        this.query.sortBy(heading.dataset.sort);
        this.#ask();
      });
    }
    for (const [where, button] of Object.entries(view.pager)) {
      button.addEventListener("click", () => {
        this.query.turn(where, this.#page);
        this.#ask();
      });
    }
    view.filter.addEventListener("input", () => {
      this.query.filter(view.state.value, view.search.value.trim());
      this.#ask();
    });
    view.filter.addEventListener("submit", (event) => event.preventDefault());
    this.rows = new SessionRows(
      view.table, (id) => this.dispatchEvent(new CustomEvent("choose", { detail: { id } })));
    this.#showOrder();
  }

  /** Shows a page of the server's. */
  show(page) {
    if (page.sort !== this.query.sort || page.order !== this.query.order) return;
    if (this.query.settle(page)) {
      this.#ask();
      return;
    }
    this.#page = page;
    const isHeld = this.#isHeld;
    const ids = new Set(page.data.map(({ id }) => id));
    for (const id of this.rows.ids) {
      const isGone = !ids.has(id);
      this.rows.get(id).classList.toggle("gone", isGone && isHeld);
      if (isGone && !isHeld) this.rows.remove(id);
    }
    page.data.forEach((session, index) => {
      if (isHeld && !this.rows.get(session.id)) return;
      const row = this.rows.get(session.id) ?? this.#add(session.id);
      showSession(row, session);
      if (!isHeld && this.#body.rows[index] !== row) this.#body.insertBefore(row, this.#body.rows[index]);
    });
    this.#showRange(page);
  }

  /** Whether rows keep their places. */
  get #isHeld() {
    return this.rows.size > 0
      && (this.#body.matches(":hover") || this.#body.contains(document.activeElement));
  }

  #ask() {
    this.#page = null;
    for (const id of this.rows.ids) this.rows.remove(id);
    this.#showOrder();
    this.dispatchEvent(new Event("query"));
  }

  #add(id) {
    const row = this.rows.make(id);
    const mark = document.createElement("span");
    mark.className = "mark";
    row.cells[1].append(mark);
    this.#body.append(row);
    return row;
  }

  #showOrder() {
    for (const heading of this.#table.querySelectorAll("th[data-sort]")) {
      if (heading.dataset.sort === this.query.sort) heading.setAttribute("aria-sort", this.#direction);
      else heading.removeAttribute("aria-sort");
    }
  }

  /** The direction for people: the alphabet ascends. */
  get #direction() {
    const isDown = this.query.order === "descending";
    return isDown === (this.query.sort in FIRST_ORDER) ? "ascending" : "descending";
  }

  #showRange({ position, matching, data, shards, shards_answered }) {
    const { range, pager, empty } = this.#view;
    const missing = shards - shards_answered;
    const without = missing > 0 ? `, without ${missing} of ${shards} shards` : "";
    const last = position + data.length;
    setText(range, data.length
      ? `${count(position + 1)}–${count(last)} of ${count(matching)}${without}` : `0${without}`);
    empty.hidden = data.length > 0;
    setText(empty, this.query.state || this.query.search ? "No session fits." : "No session is open.");
    this.#view.pages.hidden = data.length === 0;
    for (const name of ["first", "previous"]) pager[name].disabled = position === 0;
    for (const name of ["next", "last"]) pager[name].disabled = last >= matching;
  }
}

function showSession(row, session) {
  const [, state, ...texts] = row.cells;
  const mark = state.firstChild;
  if (mark.dataset.state !== session.state) mark.dataset.state = session.state;
  setText(mark, stateName(session.state));
  const values = [
    bytes(session.bytes), hop(replyDelay(session.last_turn)), count(session.turns), span(session.age_ms),
    span(session.idle_ms), session.model ?? "–", session.client ?? "–",
  ];
  values.forEach((value, index) => setText(texts[index], value));
}
