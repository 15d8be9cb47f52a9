// The card of an ended session on the operator's page: its facts, what its agent's model has answered about
// it, its recording, the hops of its turns, and its conversation.

import { Log } from "../page/log.js";
import { cutOff } from "../parley/conversation.js";
import { OverheardTranscript } from "./card.js";
import { bytes, count, span, when } from "./format.js";
import { Player } from "./player.js";
import { reasonName } from "./records.js";
import { showGroups } from "./server.js";
import { showTurns } from "./waterfall.js";

/** Shows what is kept of one session. */
export class RecordCard {
  /** The session that is shown; null: none. */
  id = null;
  #source;
  #view;
  #log;
  #players = [];

  /** @param view the card's elements */
  constructor(source, view) {
    this.#source = source;
    this.#view = view;
    this.#log = new Log(view.log, view.silence, "User");
  }

  /** Shows a session. A refusal is thrown. */
  async open(id) {
    this.close();
    this.id = id;
    const { card, title, state, facts, answer, turns, remove } = this.#view;
    title.textContent = id;
    state.textContent = "…";
    facts.replaceChildren();
    answer.hidden = true;
    turns.replaceChildren();
    remove.disabled = true;
    card.hidden = false;
    card.scrollTop = 0;
    title.focus();
    const record = await this.#source.show(id);
    if (this.id === id) this.#show(record);
  }

  /** Shows nothing. */
  close() {
    this.id = null;
    for (const player of this.#players) player.close();
    this.#players = [];
    this.#view.recordings.replaceChildren();
    this.#log.clear();
    this.#view.card.hidden = true;
  }

  #show({ documents, recordings }) {
    // Each server that has had the session has a document; the last one has the whole conversation.
    const first = documents[0];
    const last = documents.at(-1);
    const { state, facts, answer, turns, noTurns, remove } = this.#view;
    state.textContent = last.end ? `Ended: ${reasonName(last.end.reason)}` : "Still open";
    remove.disabled = !last.end;
    showGroups(facts, factsOf(first, last));
    answer.hidden = last.after_call === undefined;
    if (!answer.hidden) answer.lastElementChild.textContent = wordsOf(last.after_call);
    this.#showRecordings(recordings);
    const all = documents.flatMap((document) => document.turns);
    showTurns(turns, all);
    noTurns.hidden = all.length > 0;
    this.#showWords(last.items);
  }

  #showRecordings(recordings) {
    const { recordings: place, noRecording } = this.#view;
    noRecording.hidden = recordings.length > 0;
    place.replaceChildren(...recordings.map((recording) => {
      const element = document.createElement("div");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = `Play the recording (${bytes(recording.user_bytes + recording.agent_bytes)})`;
      const player = new Player(element, (...piece) => this.#source.piece(...piece));
      this.#players.push(player);
      button.addEventListener("click", () => player.play(recording).catch((error) => {
        element.replaceChildren(button, document.createTextNode(` ${error.message}`));
      }));
      element.append(button);
      return element;
    }));
  }

  #showWords(items) {
    const transcript = new OverheardTranscript();
    for (const { item, speech } of items) {
      // Of a reply that was cut the item has what was heard, which may be nothing.
      const written = speech?.written;
      const shown = written ? { ...item, content: [{ type: "output_text", text: written }] } : item;
      for (const entry of transcript.apply({ type: "conversation.item.added", item: shown })) {
        if (written) {
          const heard = item.content.map(({ transcript: words = "" }) => words).join(" ");
          Object.assign(entry, { text: heard, cut: cutOff(written, heard) });
        }
        this.#log.show(entry);
      }
    }
  }
}

/** What came of the question about a session: a text, or a line for each fact; null: it is being asked. */
function wordsOf(answer) {
  if (!answer) return "The model has not answered yet.";
  const { text, data, error } = answer;
  if (error) return `No answer: ${error.message}`;
  if (text !== undefined || typeof data !== "object") return text ?? data;
  const shown = (value) => typeof value === "string" ? value : JSON.stringify(value);
  return Object.entries(data).map(([name, value]) => `${name}: ${shown(value)}`).join("\n");
}

function factsOf(first, last) {
  const { model, voice, agent, subject, call } = last.session;
  const end = last.ended_at ?? last.items.at(-1)?.added_at ?? last.started_at;
  return [
    ["Session", [
      ["Began", when(first.started_at)],
      ["Lasted", span(Date.parse(end) - Date.parse(first.started_at))],
      ["Model", model || "–"],
      ["Voice", voice || "–"],
      ...(agent ? [["Agent", agent]] : []),
      ...(subject ? [["Key", subject]] : []),
      ...(call ? [["Carrier", call.carrier], ["From", call.from ?? "–"], ["To", call.to ?? "–"]] : []),
    ]],
    ["Use", [
      ["User heard", `${last.audio_in_seconds.toFixed(1)} s`],
      ["Agent spoke", `${last.audio_out_seconds.toFixed(1)} s`],
      ["Tokens in", count(last.usage.input_tokens ?? 0)],
      ["Tokens out", count(last.usage.output_tokens ?? 0)],
      ["Memory at most", bytes(last.memory_peak_bytes)],
    ]],
  ];
}
