// The server on the operator's page: its figures, shards and providers.

import { bytes, count, hopPair, lag } from "./format.js";

/** Shows `server.overview`. */
export class ServerView {
  #figures;
  #shards;
  #providers;
  #noProviders;
  #node;

  constructor({ figures, shards, providers, noProviders, node }) {
    this.#figures = figures;
    this.#shards = shards.tBodies[0];
    this.#providers = providers;
    this.#noProviders = noProviders;
    this.#node = node;
  }

  /** Shows the server as it is now. */
  show(server) {
    this.#node.textContent = server.node;
    showGroups(this.#figures, facts(server));
    showRows(this.#shards, server.shards.map((shard) => [
      shard.shard, `${(shard.busy_permille / 10).toFixed(1)} %`, lag(shard.lag_us), count(shard.sessions),
      count(shard.connections), bytes(shard.ledger_bytes), count(shard.agent_tasks),
    ]));
    this.#noProviders.hidden = server.providers.length > 0;
    setText(this.#noProviders, server.agent === "model"
      ? "The model of this server counts no providers." : "No model configured: the demo agent answers.");
    showRows(this.#providers.tBodies[0], server.providers.map((provider) => [
      provider.name, health(provider), count(provider.in_flight), count(provider.waiting),
      count(provider.completed), count(provider.failed), count(provider.refused),
    ]));
  }
}

function facts(server) {
  const { states, turns, workers } = server;
  const turn = ({ p50_ms, p95_ms }) => hopPair(p50_ms, p95_ms);
  return [
    ["Sessions", [
      ["Open", `${count(server.sessions)} of ${count(server.max_sessions)}`],
      ["Speaking", count(states.speaking)],
      ["Replying", count(states.replying)],
      ["Connections", count(server.connections)],
    ]],
    ["Memory", [
      ["Process", bytes(server.resident_bytes)],
      ["Held by clients", bytes(server.ledger_bytes)],
      ["Limit", server.memory_limit_bytes ? bytes(server.memory_limit_bytes) : "none"],
    ]],
    ["Delay of a turn: median / 95\u00a0%", [
      ["Recognised", turn(turns.transcript)],
      ["First token", turn(turns.first_token)],
      ["First sound", turn(turns.first_audio)],
    ]],
    ["Jobs of the workers", [
      ["Running", count(workers.running)],
      ["Waiting", count(workers.queued)],
      ["Refused", count(workers.refused)],
    ]],
  ];
}

/** How a provider does: a mark and a word. */
function health({ paused, failed, completed }) {
  const element = document.createElement("span");
  element.className = "mark";
  element.dataset.state = paused ? "paused" : failed > 0 && failed >= completed ? "listening" : "well";
  element.textContent = paused ? "Paused" : failed > 0 && failed >= completed ? "Failing" : "Well";
  return element;
}

/** Shows groups of names and values, `[title, [[name, value]…]]`, whose elements it keeps. */
export function showGroups(place, groups) {
  while (place.childElementCount > groups.length) place.lastChild.remove();
  groups.forEach(([title, facts], index) => {
    let group = place.children[index];
    if (!group) {
      group = document.createElement("div");
      group.className = "group";
      group.append(document.createElement("h3"), document.createElement("dl"));
      place.append(group);
    }
    setText(group.firstChild, title);
    showFacts(group.lastChild, facts);
  });
}

/** Shows names and values in a list of descriptions, whose elements it keeps. */
function showFacts(list, facts) {
  while (list.childElementCount > facts.length) list.lastChild.remove();
  facts.forEach(([name, value], index) => {
    let pair = list.children[index];
    if (!pair) {
      pair = document.createElement("div");
      pair.append(document.createElement("dt"), document.createElement("dd"));
      list.append(pair);
    }
    setText(pair.firstChild, name);
    setText(pair.lastChild, value);
  });
}

/** Shows rows of texts or elements in the body of a table, whose rows it keeps. */
function showRows(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    cells.forEach((cell, column) => {
      const place = row.cells[column] ?? row.insertCell();
      if (cell instanceof Element) place.replaceChildren(cell);
      else setText(place, String(cell));
    });
  });
}

/** Changes a text only where it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
