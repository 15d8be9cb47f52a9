// The parts of the operator's page that touch no browser interface: numbers, the history of the charts, what
// is asked of the server, and the transcript of a session that is overheard.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { OverheardTranscript } from "../../../.build/js/page/admin/card.js";
import { History, path, roundUp } from "../../../.build/js/page/admin/charts.js";
import { bytes, hop, hopPair, lag, replyDelay, shortID, span } from "../../../.build/js/page/admin/format.js";
import { Live } from "../../../.build/js/page/admin/live.js";
import { reasonName } from "../../../.build/js/page/admin/records.js";
import { Query } from "../../../.build/js/page/admin/table.js";
import { hops } from "../../../.build/js/page/admin/waterfall.js";

test("numbers are short", () => {
  assert.deepEqual([0, 999, 1000, 999_949, 999_950, 4.5e9, 3e15].map(bytes),
    ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "4.5 GB", "3000.0 TB"]);
  assert.deepEqual([-5, 7_900, 185_000, 7_980_000, 446_400_000].map(span),
    ["0 s", "7 s", "3 m 05 s", "2 h 13 m", "5 d 4 h"]);
  assert.deepEqual([0, 150, 12_300, 1_300_000].map(lag), ["0.0 ms", "0.1 ms", "12 ms", "1.3 s"]);
  assert.deepEqual([null, undefined, 0, 1234].map(hop), ["–", "–", "0 ms", "1,234 ms"]);
  assert.deepEqual([null, { first_audio_ms: null, first_token_ms: 5 },
    { first_audio_ms: 9, first_token_ms: 5 }].map(replyDelay), [null, 5, 9]);
});

test("what all ids have is left out, and a pair has one unit", () => {
  assert.deepEqual(["sess_4zkh", "conn_0_1", "sess_sess_"].map(shortID), ["4zkh", "conn_0_1", "sess_"]);
  assert.deepEqual([hopPair(310, 4500), hopPair(null, null), hopPair(5, null)],
    ["310 / 4,500 ms", "–", "5 / – ms"]);
  assert.deepEqual(["client_closed", "of_a_later_version"].map(reasonName),
    ["closed by its client", "of a later version"]);
});

test("a hop begins where the one before has ended", () => {
  assert.deepEqual(hops({ transcript: 300, first_token: 450, first_audio: 900 }), [
    { name: "Recognised", start: 0, end: 300 }, { name: "First token", start: 300, end: 450 },
    { name: "First sound", start: 450, end: 900 },
  ]);
  assert.deepEqual(hops({ first_token: 20 }), [{ name: "First token", start: 0, end: 20 }]);
  // A reply that was begun before the words were final.
  assert.deepEqual(hops({ transcript: 300, first_token: 200 }).at(-1),
    { name: "First token", start: 200, end: 200 });
  assert.deepEqual(hops({}), []);
});

const point = (time, sessions = 0) => ({
  time, resident_bytes: 1, ledger_bytes: 1, sessions, lag_us: 0,
});

test("the history goes on where the server's own ends", () => {
  const history = new History();
  const fields = ["time", "resident_bytes", "ledger_bytes", "sessions", "lag_us"];
  history.load({ fields, samples: [[100, 1, 2, 3, 4], [110, 1, 2, 3, 4]] });
  for (const time of [111, 112, 112]) history.add(point(time, time));
  assert.deepEqual(history.points.map(({ time }) => time), [100, 110, 111, 112]);
  assert.deepEqual(history.points[0],
    { time: 100, resident_bytes: 1, ledger_bytes: 2, sessions: 3, lag_us: 4 });
  // After a loss of the connection the server sends its samples again.
  history.load({ fields, samples: [[90, 1, 2, 3, 4], [100, 1, 2, 3, 4]] });
  assert.deepEqual(history.points.map(({ time }) => time), [90, 100, 110, 111, 112]);
  assert.deepEqual(history.last(2).map(({ time }) => time), [111, 112]);
});

test("the history has an end", () => {
  const history = new History();
  for (let time = 0; time < 2 * History.span; time += 1) history.add(point(time));
  assert.equal(history.points.length, History.span);
  // The clock of the server was set back.
  history.add(point(5));
  assert.equal(history.points.length, 1);
});

test("a chart keeps its peaks", () => {
  const points = Array.from({ length: 3000 }, (_, time) => point(time + 1, time === 1500 ? 72 : 0));
  const line = path(points, "sessions", { end: 3000, seconds: 3000, top: 72 });
  assert.equal(line.match(/[ML]/g).length, 301);
  assert.match(line, /^M0 72\.0L1 72\.0/);
  assert.match(line, /L150 0\.0L/);
  assert.deepEqual([0, -1, NaN, 1, 3, 51, 1e9].map(roundUp), [1, 1, 1, 1, 5, 100, 1e9]);
});

test("a page is asked for by its place and its order", () => {
  const query = new Query();
  const first = { type: "sessions.watch", sort: "bytes", order: "descending", limit: 50 };
  assert.deepEqual(query.command, first);
  query.turn("next", { first: "9:a", last: "5:b" });
  assert.deepEqual(query.command, { ...first, after: "5:b" });
  query.turn("previous", { first: "4:c", last: "2:d" });
  assert.deepEqual(query.command, { ...first, before: "4:c" });
  query.turn("last", null);
  assert.deepEqual(query.command, { ...first, before: "" });
  // A second click comes before the page does.
  query.turn("first", null);
  query.turn("next", { first: "9:a", last: "5:b" });
  query.turn("next", null);
  query.turn("previous", null);
  assert.deepEqual(query.command, { ...first, after: "5:b" });
  query.sortBy("age");
  query.turn("next", { first: "9:a", last: "5:b" });
  query.sortBy("age");
  assert.deepEqual(query.command, { ...first, sort: "age", order: "ascending" });
  query.filter("speaking", "abc");
  assert.deepEqual(query.command,
    { ...first, sort: "age", order: "ascending", state: "speaking", search: "abc" });
});

test("a page that has become the first or an empty one is asked for anew", () => {
  const query = new Query();
  query.turn("previous", { first: "9:a", last: "5:b" });
  assert.equal(query.settle({ position: 3, data: [1] }), false);
  assert.equal(query.settle({ position: 0, data: [1] }), true);
  assert.equal("before" in query.command, false);
  query.turn("next", { first: "9:a", last: "5:b" });
  assert.equal(query.settle({ position: 60, data: [] }), true);
  assert.equal(query.command.before, "");
  // Without any session the last page is empty, and stays.
  assert.equal(query.settle({ position: 0, data: [] }), false);
});

test("what is said is read from the events and from earlier items", () => {
  const transcript = new OverheardTranscript();
  const tell = (...events) => events.flatMap((event) => transcript.apply(event));
  const added = (item) => ({ type: "conversation.item.added", item });
  const typed = { id: "u1", type: "message", role: "user", status: "completed",
    content: [{ type: "input_text", text: "Hello" }] };
  assert.deepEqual(tell(added(typed)).map(({ role, text, state }) => [role, text, state]),
    [["user", "Hello", "done"]]);
  // Speech has no words when its item comes, and a reply neither.
  const spoken = { ...typed, id: "u2", content: [{ type: "input_audio", transcript: null }] };
  const delta = "conversation.item.input_audio_transcription.delta";
  tell({ type: "input_audio_buffer.speech_started", item_id: "u2" },
    { type: delta, item_id: "u2", delta: "Go" });
  assert.deepEqual(tell(added(spoken)), []);
  const [entry] = tell({ type: delta, item_id: "u2", delta: " on" });
  assert.equal(entry.text, "Go on");
  tell({ type: "response.output_item.added", item: { id: "r", type: "message" } },
    added({ id: "r", type: "message", role: "assistant", status: "in_progress", content: [] }));
  const [reply] = tell({ type: "response.output_text.delta", item_id: "r", delta: "Yes" });
  assert.deepEqual([reply.text, reply.state], ["Yes", "streaming"]);
  const [done] = tell({ type: "response.done", response: { output: [{ id: "r" }] } });
  assert.equal(done.state, "done");
  const call = { type: "function_call", id: "f", call_id: "c", name: "look", arguments: "{}" };
  assert.deepEqual(tell(added({ ...call, status: "in_progress" })), []);
  tell(added({ ...call, status: "completed" }));
  const [answered] = tell(added({ type: "function_call_output", call_id: "c", output: "7" }));
  assert.deepEqual([answered.name, answered.output], ["look", "7"]);
  assert.deepEqual(tell(added({ type: "function_call_output", call_id: "x", output: "7" })), []);
});

test("a call of the server's tools is shown with its result", () => {
  const transcript = new OverheardTranscript();
  const call = { id: "m1", type: "mcp_call", name: "count_sessions", arguments: "{}" };
  const shown = (event) => transcript.apply(event).map(({ name, output, state }) => [name, output, state]);
  assert.deepEqual(shown({ type: "response.output_item.added", item: call }),
    [["count_sessions", undefined, "streaming"]]);
  const done = { ...call, output: '{"sessions_open":1}' };
  assert.deepEqual(shown({ type: "response.output_item.done", item: done }),
    [["count_sessions", '{"sessions_open":1}', "done"]]);
  // One of before.
  assert.deepEqual(shown({ type: "conversation.item.added", item: { ...done, id: "m2", output: "7" } }),
    [["count_sessions", "7", "done"]]);
  // One that the user has approved.
  assert.deepEqual(shown({ type: "conversation.item.done", item: { ...call, id: "m3", error: { message: "No." } } }),
    [["count_sessions", "No.", "done"]]);
});

test("a reply that had begun before anybody looked on is whole at its end", () => {
  const transcript = new OverheardTranscript();
  const spoken = "response.output_audio_transcript";
  const reply = (id, transcript) => ({ id, type: "message", role: "assistant", status: "completed",
    content: [{ type: "output_audio", transcript }] });
  const done = (...output) => transcript.apply({ type: "response.done", response: { output } });
  // No word of it came, or the last ones only.
  assert.deepEqual(done(reply("r1", "Good morning.")).map(({ text, state }) => [text, state]),
    [["Good morning.", "done"]]);
  transcript.apply({ type: `${spoken}.delta`, item_id: "r2", delta: "evening." });
  assert.equal(done(reply("r2", "Good evening.")).at(-1).text, "Good evening.");
  // What was cut stays cut.
  transcript.apply({ type: `${spoken}.delta`, item_id: "r3", delta: "One, two" });
  transcript.apply(
    { type: "conversation.item.truncated", item_id: "r3", transcript: "One," });
  done(reply("r3", "One, two, three"));
  const [entry] = transcript.apply(
    { type: "conversation.item.truncated", item_id: "r3", transcript: "One," });
  assert.deepEqual([entry.text, entry.cut], ["One,", " two"]);
});

// ---- The connection ----

let sockets = [];
/** What the server answers when it is asked about a key. */
let judgement = {};

beforeEach(() => {
  sockets = [];
  judgement = { ok: true };
  mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.location = { href: "http://localhost/admin" };
  globalThis.fetch = async () => judgement;
  globalThis.WebSocket = class {
    constructor(address, protocols) {
      Object.assign(this, { address, protocols, sent: [] });
      sockets.push(this);
    }

    send(text) { this.sent.push(JSON.parse(text)); }

    close() { this.isClosed = true; }
  };
});
afterEach(() => mock.timers.reset());

/** Lets the answer to a request arrive. */
const settle = () => new Promise((resolve) => { setImmediate(resolve); });

async function connected(key = "") {
  const live = new Live();
  live.keep("sessions", { type: "sessions.watch" });
  live.open(key);
  await settle();
  sockets.at(-1).onopen();
  return live;
}

test("a server that says nothing counts as lost, and is asked again", async () => {
  const live = await connected();
  assert.equal(live.state, "open");
  for (let second = 0; second < 30; second += 1) {
    mock.timers.tick(1000);
    sockets[0].onmessage({ data: "{}" });
  }
  assert.equal(live.state, "open");
  mock.timers.tick(9_999);
  assert.equal(live.state, "open");
  mock.timers.tick(1);
  assert.deepEqual([live.state, sockets[0].isClosed], ["lost", true]);
  // What the old connection does now is nobody's business.
  sockets[0].onclose({ reason: "late" });
  assert.match(live.reason, /nothing for ten seconds/);
  mock.timers.tick(1000);
  await settle();
  assert.equal(sockets.length, 2);
  sockets[1].onopen();
  assert.deepEqual([live.state, sockets[1].sent], ["open", [{ type: "sessions.watch" }]]);
  live.close();
});

test("a server that does not open the connection is asked again", async () => {
  const live = new Live();
  live.open("");
  await settle();
  mock.timers.tick(10_000);
  assert.deepEqual([live.state, sockets.length, sockets[0].isClosed], ["lost", 1, true]);
  live.close();
  mock.timers.tick(60_000);
  await settle();
  assert.deepEqual([live.state, sockets.length], ["closed", 1]);
});

test("another key is tried while the first one is judged", async () => {
  const live = new Live();
  live.open("sk-first");
  live.open("sk-second");
  await settle();
  assert.deepEqual(sockets.map(({ protocols }) => protocols[1]), ["openai-insecure-api-key.sk-second"]);
  live.close();
});

test("a key that no browser can send is refused", async () => {
  const live = new Live();
  for (const key of ["sk-a/b", "sk-a=", "sk a", "sk-\u00e9"]) {
    live.open(key);
    await settle();
    assert.deepEqual([live.state, sockets.length], ["refused", 0]);
    assert.match(live.reason, /cannot send this key/);
  }
  live.open("sk-a.b_c-0~");
  await settle();
  assert.deepEqual(sockets[0].protocols, ["parley-operator", "openai-insecure-api-key.sk-a.b_c-0~"]);
  live.close();
});
