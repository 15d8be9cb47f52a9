// The card of one session on the operator's page: its facts, its memory part by part, and its
// conversation, word by word as it comes.

import { Log } from "../page/log.js";
import { Transcript } from "../parley/conversation.js";
import { bytes, count, hop, span, stateName } from "./format.js";
import { setText, showGroups } from "./server.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/** A transcript for somebody who looks on: items count as what was said, whoever has sent them. */
export class OverheardTranscript {
  #transcript = new Transcript();

  constructor() {
    this.#transcript.retell();
  }

  /** Takes an event of the session; returns the entries that have changed. */
  apply(event) {
    if (event.type === "response.done") return this.#finish(event);
    if (event.type !== "conversation.item.added") return this.#transcript.apply(event);
    const { item } = event;
    // A call that the server makes itself has its result in the item.
    if (item.type === "mcp_call") return this.#transcript.apply(event);
    if (item.type === "function_call") {
      const { call_id, name, arguments: text } = item;
      if (item.status !== "completed") return [];
      return this.#transcript.apply(
        { type: "response.function_call_arguments.done", call_id, name, arguments: text });
    }
    if (item.type === "function_call_output") {
      return [this.#transcript.addOutput(item.call_id, item.output)].filter(Boolean);
    }
    // The words of speech, and of a reply, come in other events.
    return wordsLength(item) > 0 ? this.#transcript.apply(event) : [];
  }

  /** A reply that had begun before anybody looked on is whole at its end, unless it was cut. */
  #finish(event) {
    const changed = this.#transcript.apply(event);
    for (const item of event.response.output ?? []) {
      const entry = this.#transcript.find(item.id);
      if (item.type !== "message" || entry?.cut) continue;
      if (wordsLength(item) <= (entry?.text.length ?? 0)) continue;
      changed.push(...this.#transcript.apply({ type: "conversation.item.added", item }));
    }
    return changed;
  }
}

/** How many characters an item says. */
function wordsLength({ content }) {
  return (content ?? []).reduce(
    (sum, part) => sum + (part.transcript ?? part.text ?? "").length, 0);
}

/** Shows one session. */
export class Card {
  /** The session that is shown; null: none. */
  id = null;
  #view;
  #log;
  #transcript = new OverheardTranscript();

  /** @param view the card's elements */
  constructor(view) {
    this.#view = view;
    this.#log = new Log(view.log, view.silence, "User");
  }

  /** Shows a session of which nothing is known yet. */
  open(id) {
    this.id = id;
    this.restart();
    const { card, title, state, facts, parts, closeSession } = this.#view;
    title.textContent = id;
    state.textContent = "…";
    state.dataset.state = "idle";
    facts.replaceChildren();
    parts.replaceChildren();
    closeSession.disabled = !id.startsWith("sess_");
    card.hidden = false;
    title.focus();
  }

  /** Forgets what was said: it comes again. */
  restart() {
    this.#transcript = new OverheardTranscript();
    this.#log.clear();
  }

  /** Shows nothing. */
  close() {
    this.id = null;
    this.#view.card.hidden = true;
  }

  /** The session is over. What was said stays. */
  end(text) {
    const { title, state, closeSession } = this.#view;
    state.textContent = text;
    state.dataset.state = "closed";
    // A button that is disabled loses the focus.
    if (document.activeElement === closeSession) title.focus();
    closeSession.disabled = true;
  }

  /** The session as it is now. */
  show(session) {
    if (session.id !== this.id) return;
    const { state, facts, parts, memory } = this.#view;
    setText(state, stateName(session.state));
    state.dataset.state = session.state;
    const turn = session.last_turn;
    const call = session.call;
    showGroups(facts, [
      ["Session", [
        ["Model", session.model ?? "–"],
        ["Client", session.client ?? "–"],
        ...(call ? [["Carrier", call.carrier], ["From", call.from ?? "–"], ["To", call.to ?? "–"]] : []),
        ["Turns", count(session.turns)],
        ["Sidebands", count(session.sidebands)],
        ["Shard", `${session.shard}`],
      ]],
      ["Time", [["Age", span(session.age_ms)], ["Idle", span(session.idle_ms)]]],
      ["Last turn", [
        ["Recognised", hop(turn?.transcript_ms)],
        ["First token", hop(turn?.first_token_ms)],
        ["First sound", hop(turn?.first_audio_ms)],
      ]],
    ]);
    setText(memory, bytes(session.bytes));
    showParts(parts, session.parts, session.bytes);
  }

  /** An event of the session has come. */
  hear(event) {
    for (const entry of this.#transcript.apply(event)) this.#log.show(entry);
  }
}

/** Shows the parts of a ledger as bars, the largest first. Parts that hold nothing are left out. */
function showParts(body, parts, total) {
  const held = Object.entries(parts).filter(([, size]) => size > 0).sort(([, a], [, b]) => b - a);
  while (body.rows.length > held.length) body.deleteRow(-1);
  held.forEach(([name, size], index) => {
    const row = body.rows[index] ?? makeRow(body);
    setText(row.cells[0], name.replace("_", " "));
    row.querySelector("rect").setAttribute("width", String(total > 0 ? (100 * size) / total : 0));
    setText(row.cells[2], bytes(size));
  });
}

function makeRow(body) {
  const row = body.insertRow();
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", "0 0 100 8");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(NAMESPACE, "rect"));
  svg.firstChild.setAttribute("height", "8");
  row.insertCell();
  row.insertCell().append(svg);
  row.insertCell();
  return row;
}
