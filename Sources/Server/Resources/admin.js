// The operator's page: it shows the server, its sessions and one of them, live over one WebSocket, and asks
// before it closes or drains. The key is kept for this tab, in sessionStorage.

import { Card } from "./admin/card.js";
import { Chart, History } from "./admin/charts.js";
import { FailureList } from "./admin/failures.js";
import { bytes, count, lag } from "./admin/format.js";
import { Live } from "./admin/live.js";
import { RecordCard } from "./admin/record.js";
import { RecordList, RecordSource } from "./admin/records.js";
import { ServerView } from "./admin/server.js";
import { SessionTable } from "./admin/table.js";

const KEY = "parley-operator-key";
const find = (id) => document.getElementById(id);
const live = new Live();
const history = new History();
const charts = [
  new Chart(find("memory-chart"), "Memory",
    [{ name: "resident_bytes", label: "process" }, { name: "ledger_bytes", label: "clients" }], bytes),
  new Chart(find("sessions-chart"), "Sessions", [{ name: "sessions", label: "sessions" }], count),
  new Chart(find("lag-chart"), "Lag of the event loops", [{ name: "lag_us", label: "lag" }], lag),
];
const server = new ServerView({
  figures: find("figures"), shards: find("shards"), providers: find("providers"),
  noProviders: find("no-providers"), node: find("node"),
});
const table = new SessionTable({
  table: find("sessions"), filter: find("filter"), state: find("filter-state"), search: find("search"),
  range: find("range"), empty: find("no-sessions"), pages: find("pages"),
  pager: {
    first: find("first-page"), previous: find("previous-page"), next: find("next-page"),
    last: find("last-page"),
  },
});
const card = new Card({
  card: find("card"), title: find("card-title"), state: find("card-state"), facts: find("card-facts"),
  parts: find("card-parts").tBodies[0], memory: find("card-memory"), log: find("log"),
  silence: find("silence"), closeSession: find("close-session"),
});
const source = new RecordSource(() => sessionStorage.getItem(KEY) ?? "");
const records = new RecordList(source, {
  table: find("records"), form: find("records-form"), search: find("records-search"),
  older: find("older-records"), empty: find("no-records"),
});
const record = new RecordCard(source, {
  card: find("record"), title: find("record-title"), state: find("record-state"), facts: find("record-facts"),
  answer: find("record-answer"),
  recordings: find("recordings"), noRecording: find("no-recording"), turns: find("record-turns"),
  noTurns: find("no-turns"), log: find("record-log"), silence: find("record-silence"),
  remove: find("delete-record"),
});
const failures = new FailureList({
  table: find("failures"), scroll: find("failures-scroll"), empty: find("no-failures"),
  link: find("failures-link"),
});
/** Sessions of the server, and whether it drains. */
let overview = { sessions: 0, draining: false };
/** Whether the list of ended sessions is shown and renewed. */
let showsRecords = false;

// ---- The connection ----

const STATES = {
  connecting: ["connecting", "Connecting…"], open: ["idle", "Live"], lost: ["lost", "Lost; trying again"],
  refused: ["closed", "Not connected"], closed: ["closed", "Not connected"],
};

function showState() {
  const [mark, text] = STATES[live.state];
  const isDraining = live.state === "open" && overview.draining;
  find("state").dataset.state = isDraining ? "speaking" : mark;
  const shown = isDraining ? `Draining: ${count(overview.sessions)} sessions left` : text;
  if (find("state").textContent !== shown) find("state").textContent = shown;
  find("key-form").hidden = live.state !== "refused";
  find("main").hidden = live.state === "refused" || live.state === "closed";
  find("jump").hidden = find("main").hidden;
  find("sign-out").hidden = !sessionStorage.getItem(KEY);
  find("drain").disabled = live.state !== "open" || overview.draining;
}

live.addEventListener("state", () => {
  if (live.state === "refused") {
    const isFirst = !sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    closeCards();
    showRecords(false);
    // Before a key was typed, its absence is no failure.
    showNotice(isFirst ? "" : live.reason);
  } else if (live.state === "lost") {
    showNotice(live.reason);
  } else if (live.state === "open") {
    showNotice("");
    // The server sends the conversation of the shown session again.
    card.restart();
  }
  showState();
  if (live.state === "refused") find("key").focus();
});

const HANDLERS = {
  "server.history": (message) => history.load(message),
  "server.overview": (message) => {
    overview = message;
    history.add(message);
    server.show(message);
    drawCharts();
    showState();
    showRecords(message.keeps_records);
  },
  "server.failures": (message) => failures.show(message),
  "sessions.page": (message) => table.show(message),
  "session.card": ({ session }) => card.show(session),
  "session.event": ({ id, event }) => {
    if (id === card.id) card.hear(event);
  },
  "session.ended": ({ id }) => {
    if (id === card.id) endCard("The session has ended.");
  },
  "session.closed": ({ id }) => announce(`The session ${id} was closed.`),
  error: ({ error }) => {
    if (error.session_id && error.session_id === card.id) endCard(error.message);
    else showNotice(error.message);
  },
};

live.addEventListener("message", ({ detail }) => HANDLERS[detail.type]?.(detail));

find("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, find("key").value);
  find("key").value = "";
  live.open(sessionStorage.getItem(KEY));
});

find("sign-out").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  closeCards();
  showRecords(false);
  showNotice("");
  live.open("");
});

// ---- What is shown ----

function drawCharts() {
  for (const chart of charts) chart.draw(history, Number(find("span").value));
}
find("span").addEventListener("change", drawCharts);

table.addEventListener("query", () => live.keep("sessions", table.query.command));
table.addEventListener("choose", ({ detail: { id } }) => {
  closeCards();
  table.rows.mark(id);
  card.open(id);
  live.keep("session", { type: "session.watch", id });
});

function endCard(text) {
  live.drop("session", { type: "session.unwatch" });
  card.end(text);
  announce(text);
}

/** One card is shown at a time. */
function closeCards() {
  if (card.id) closeCard();
  if (record.id) closeRecord();
}

function closeCard() {
  const { id } = card;
  live.drop("session", { type: "session.unwatch" });
  card.close();
  table.rows.mark(null);
  if (!table.rows.focus(id)) find("sessions-title").focus();
}

function closeRecord() {
  const { id } = record;
  record.close();
  records.rows.mark(null);
  if (!records.rows.focus(id)) find("records-title").focus();
}

for (const name of ["close-card", "close-record"]) find(name).addEventListener("click", closeCards);
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && !find("confirm").open) closeCards();
});

// ---- Ended sessions and failures ----

/** Shows the list, or how to have one. */
function showRecords(isKept) {
  if (isKept !== showsRecords) {
    if (isKept) records.open();
    else records.close();
  }
  showsRecords = isKept;
  for (const name of ["records-form", "records-scroll"]) find(name).hidden = !isKept;
  find("records-off").hidden = isKept;
}

async function openRecord(id) {
  closeCards();
  records.rows.mark(id);
  try {
    await record.open(id);
  } catch (error) {
    if (record.id === id) closeRecord();
    showNotice(error.message);
  }
}

for (const list of [records, failures]) {
  list.addEventListener("choose", ({ detail: { id } }) => openRecord(id));
}
records.addEventListener("problem", ({ detail: { text } }) => {
  // A connection that is lost has a notice of its own.
  if (live.state === "open") showNotice(text);
});

find("delete-record").addEventListener("click", async () => {
  const { id } = record;
  const isSure = await confirm(
    "Delete this session?", `The record and the recordings of ${id} are deleted. This cannot be undone.`,
    "Delete the session");
  if (!isSure) return;
  try {
    await source.delete(id);
    closeRecord();
    records.remove(id);
    find("records-title").focus();
    announce(`The session ${id} was deleted.`);
  } catch (error) {
    showNotice(error.message);
  }
});

// ---- What is asked first ----

/** Asks before something is done that cannot be undone. */
function confirm(title, text, action) {
  const dialog = find("confirm");
  find("confirm-title").textContent = title;
  find("confirm-text").textContent = text;
  find("confirm-do").textContent = action;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

find("close-session").addEventListener("click", async () => {
  const { id } = card;
  const isSure = await confirm(
    "Close this session?", `${id} ends at once, in the middle of a reply too.`, "Close the session");
  if (isSure) live.send({ type: "session.close", id });
});

find("drain").addEventListener("click", async () => {
  const isSure = await confirm(
    "Drain this server?",
    `It takes no new sessions, lets the replies of ${count(overview.sessions)} sessions end, and then the `
      + "process ends. This cannot be undone.", "Drain the server");
  if (isSure) live.send({ type: "server.drain" });
});

// ---- Notices ----

function showNotice(text) {
  find("notice").hidden = !text;
  find("notice-text").textContent = text;
}
find("dismiss").addEventListener("click", () => showNotice(""));

function announce(text) {
  find("announcer").textContent = text;
}

live.keep("sessions", table.query.command);
live.open(sessionStorage.getItem(KEY) ?? "");
