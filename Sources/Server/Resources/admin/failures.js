// The newest failures on the operator's page: of configured services, of responses and of recognitions.

import { count, shortID, when } from "./format.js";

const KINDS = { service: "Service", response: "Response", transcription: "Recognition" };

/** Shows `server.failures`. Dispatches `choose` for the session of a failure. */
export class FailureList extends EventTarget {
  #view;
  #body;

  /** @param view the table, its place, the text without failures, and the link that has their number */
  constructor(view) {
    super();
    this.#view = view;
    this.#body = view.table.tBodies[0];
    this.#body.addEventListener("click", ({ target }) => {
      const id = target.closest("button")?.dataset.id;
      if (id) this.dispatchEvent(new CustomEvent("choose", { detail: { id } }));
    });
  }

  /** Shows the failures, the newest first. */
  show({ data }) {
    this.#body.replaceChildren(...data.map(makeRow));
    this.#view.scroll.hidden = data.length === 0;
    this.#view.empty.hidden = data.length > 0;
    this.#view.link.textContent = data.length ? `Failures (${count(data.length)})` : "Failures";
  }
}

function makeRow({ kind, source, code, reason, advice, time, count: times }) {
  const row = document.createElement("tr");
  const [last, what, why, often] = [0, 1, 2, 3].map(() => row.insertCell());
  last.textContent = when(time * 1000);
  what.textContent = `${KINDS[kind] ?? kind} `;
  if (kind === "service") what.append(source);
  else what.append(makeLink(source));
  why.className = "words";
  // The words of a service often have its status.
  why.textContent = code && !reason.includes(code) ? `${code}: ${reason}` : reason;
  if (advice) {
    const hint = document.createElement("p");
    hint.className = "faint";
    hint.textContent = advice;
    why.append(hint);
  }
  often.className = "number";
  often.textContent = `${count(times)} ×`;
  return row;
}

function makeLink(id) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.id = id;
  button.title = id;
  button.textContent = shortID(id);
  return button;
}
