// Ended sessions on the operator's page: what the server keeps of them, asked for over HTTP, and their list
// with its search.

import { count, span, when } from "./format.js";
import { SessionRows } from "./rows.js";

/** Time between two looks for sessions that have ended meanwhile, in ms. */
const RENEWAL = 5_000;
/** Pause after a key stroke before the search is asked for, in ms. */
const TYPING_PAUSE = 250;
const REASONS = {
  client_closed: "closed by its client", connection_lost: "connection lost", not_resumed: "did not come back",
  server_closed: "closed by the server", continued_elsewhere: "went on elsewhere", server_lost: "server lost",
};

/** Why a session ended, in words. */
export function reasonName(reason) {
  return REASONS[reason] ?? reason.replaceAll("_", " ");
}

/** Asks the server for what it keeps. A refusal is thrown with the server's words. */
export class RecordSource {
  #key;

  /** @param key gives the operator's key; empty: none is needed */
  constructor(key) {
    this.#key = key;
  }

  /** A page of the list: `{data, next}`. */
  async list(search, after) {
    const query = new URLSearchParams({ limit: "50", ...(search ? { search } : {}), ...(after ? { after } : {}) });
    return (await this.#ask(`admin/records?${query}`)).json();
  }

  /** What is kept of a session: `{documents, recordings}`. */
  async show(id) {
    return (await this.#ask(`admin/records/${encodeURIComponent(id)}`)).json();
  }

  /** Deletes what is kept of a session. */
  async delete(id) {
    await this.#ask(`admin/records/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  /** Bytes of one side of a recording from an offset on: `{bytes, total}`. */
  async piece(name, side, offset) {
    const response = await this.#ask(`admin/recordings/${encodeURIComponent(name)}?side=${side}`, {
      headers: { Range: `bytes=${offset}-` },
    });
    const total = Number(response.headers.get("Content-Range").split("/")[1]);
    return { bytes: await response.arrayBuffer(), total };
  }

  async #ask(path, { method = "GET", headers = {} } = {}) {
    const key = this.#key();
    const response = await fetch(path, {
      method, cache: "no-store", headers: { ...headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    }).catch(() => {
      throw new Error("The server does not answer.");
    });
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    throw new Error(body?.error?.message ?? `The server answers ${response.status}.`);
  }
}

/** The list. Dispatches `choose` for a session, and `problem` where the server refuses, or, with an empty text, does
 *  not any more. */
export class RecordList extends EventTarget {
  /** The rows that are shown. */
  rows;
  #source;
  #view;
  #body;
  #next = null;
  #timer = 0;
  /** Counts what was asked for, so that an answer to an earlier question is dropped. */
  #question = 0;
  /** Whether more than the newest sessions are shown: they are not renewed then. */
  #isExtended = false;
  #isOpen = false;
  /** Why the last list did not come; empty: it came. */
  #problem = "";

  /** @param view the table, the search, the button for older ones and the texts */
  constructor(source, view) {
    super();
    this.#source = source;
    this.#view = view;
    this.#body = view.table.tBodies[0];
    view.search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#renew(), TYPING_PAUSE);
    });
    view.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#renew();
    });
    view.older.addEventListener("click", () => this.#extend());
    this.rows = new SessionRows(
      view.table, (id) => this.dispatchEvent(new CustomEvent("choose", { detail: { id } })));
  }

  /** Shows the newest sessions, and those that end from now on. */
  open() {
    this.#isOpen = true;
    this.#renew();
  }

  /** Shows nothing. */
  close() {
    clearTimeout(this.#timer);
    this.#isOpen = false;
    this.#question += 1;
    for (const id of this.rows.ids) this.remove(id);
  }

  /** A session was deleted. */
  remove(id) {
    this.rows.remove(id);
    this.#showCount();
  }

  async #renew() {
    clearTimeout(this.#timer);
    const page = await this.#ask(null);
    if (page) {
      this.#isExtended = false;
      this.#show(page.data);
      const shown = new Set(page.data.map(({ id }) => id));
      for (const id of this.rows.ids) if (!shown.has(id)) this.remove(id);
      this.#showEnd(page);
    }
    this.#plan();
  }

  async #extend() {
    const page = await this.#ask(this.#next);
    if (!page) return;
    this.#isExtended = true;
    this.#show(page.data);
    this.#showEnd(page);
  }

  /** A search looks through all that was said, so that it is not repeated by itself. */
  #plan() {
    clearTimeout(this.#timer);
    if (!this.#isOpen) return;
    this.#timer = setTimeout(() => {
      if (document.hidden || this.#isExtended || this.#search) this.#plan();
      else this.#renew();
    }, RENEWAL);
  }

  get #search() {
    return this.#view.search.value.trim();
  }

  /** A page of the list; null: it is not wanted any more, or the server has refused. */
  async #ask(after) {
    this.#question += 1;
    const question = this.#question;
    try {
      const page = await this.#source.list(this.#search, after);
      if (question !== this.#question) return null;
      this.#note("");
      return page;
    } catch (error) {
      if (question === this.#question) this.#note(error.message);
      return null;
    }
  }

  /** A problem is told once, and so is its end. */
  #note(text) {
    if (text === this.#problem) return;
    this.#problem = text;
    this.dispatchEvent(new CustomEvent("problem", { detail: { text } }));
  }

  #show(sessions) {
    const isFirst = this.rows.size === 0;
    for (const session of sessions) {
      if (this.rows.get(session.id)) continue;
      const next = isFirst ? null : this.#firstBefore(session.started_at);
      this.#body.insertBefore(this.#makeRow(session), next);
    }
  }

  /** The first row of a session that began before a time; null: there is none. */
  #firstBefore(time) {
    return [...this.#body.rows].find((row) => row.dataset.began < time) ?? null;
  }

  #showEnd({ next }) {
    this.#next = next;
    this.#view.older.hidden = !next;
    this.#showCount();
  }

  #showCount() {
    this.#view.empty.hidden = this.rows.size > 0;
    this.#view.empty.textContent = this.#search ? "No ended session fits." : "No session has ended yet.";
  }

  #makeRow(session) {
    const row = this.rows.make(session.id);
    row.dataset.began = session.started_at;
    const { model, subject, call } = session.session;
    const turns = count(session.turns) + (session.failed_turns ? `, ${count(session.failed_turns)} failed` : "");
    const texts = [
      when(session.started_at), span(Date.parse(session.ended_at) - Date.parse(session.started_at)), turns,
      reasonName(session.end_reason), model || "–", call?.from ?? subject ?? "–",
    ];
    texts.forEach((text, index) => { row.cells[index + 1].textContent = text; });
    if (session.failed_turns) row.cells[3].classList.add("problem");
    return row;
  }
}
