// The connection, with a WebSocket, a clock and a network of the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Connection } from "../../../.build/js/package/parley/connection.js";

const place = { handle: "sess_a.x", expires_at: 2000, epoch: 7 };

/** A browser with one connection at a time. Timers fire when the test says so. */
class Browser {
  now = () => this.time;
  random = () => 1;
  time = 0;
  sockets = [];
  timers = [];
  answers = { "/v1/models": [200, {}], "/readyz": [200, {}] };

  constructor() {
    const browser = this;
    this.WebSocket = class {
      readyState = 0;
      bufferedAmount = 0;
      sent = [];
      constructor(address, protocols) {
        if (protocols.some((each) => each.includes(" "))) {
          throw Object.assign(new Error("subprotocol"), { name: "SyntaxError" });
        }
        Object.assign(this, { address: new URL(address), protocols });
        browser.sockets.push(this);
      }
      send(message) { this.sent.push(message); }
      close(code) { this.closedWith = code; }
      open() {
        this.readyState = 1;
        this.onopen();
      }
      tell(event) { this.onmessage({ data: JSON.stringify(event) }); }
      end(code, reason = "") {
        this.readyState = 3;
        this.onclose({ code, reason });
      }
    };
  }

  get socket() { return this.sockets.at(-1); }
  setTimeout = (action, pause) => this.timers.push({ action, due: this.time + pause });
  clearTimeout = (id) => { if (id) this.timers[id - 1] = null; };
  fetch = async (url) => {
    const [status, body] = this.answers[url.pathname];
    if (status === 0) throw new TypeError("network");
    return { ok: status < 400, status, json: async () => body };
  };

  /** Lets time pass, and what is due happen. */
  async pass(ms) {
    this.time += ms;
    for (let index = 0; index < this.timers.length; index++) {
      const timer = this.timers[index];
      if (!timer || timer.due > this.time) continue;
      this.timers[index] = null;
      timer.action();
    }
    await settled();
  }
}

/** Lets everything asynchronous happen that is ready. */
async function settled() {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function make(token = "") {
  const browser = new Browser();
  const connection = new Connection("ws://server/v1/realtime?model=m", token, browser);
  const log = [];
  connection.onEvent = ({ type }) => log.push(type);
  connection.onLost = () => log.push("lost");
  connection.onReturn = (what) => log.push(what);
  connection.onEnd = (error) => log.push(error?.code ?? "closed");
  return { browser, connection, log };
}

async function opened(token) {
  const made = make(token);
  const opening = made.connection.open();
  await settled();
  made.browser.socket.open();
  made.browser.socket.tell(
    { type: "session.created", offset: 1, session: { id: "sess_a" }, resume: place });
  await opening;
  return made;
}

test("pauses double up to a limit, and each is a part of its bound", () => {
  const backoff = new Backoff({ first: 100, last: 400, random: () => 0.5 });
  assert.deepEqual([1, 2, 3, 4].map(() => backoff.next()), [50, 100, 200, 200]);
  backoff.reset();
  assert.equal(backoff.next(), 50);
});

test("asks for a session that can be resumed, with the credential as a subprotocol", async () => {
  const { browser } = await opened(async () => "ek_1");
  assert.equal(browser.socket.address.search, "?model=m&resume=true");
  assert.deepEqual(browser.socket.protocols, ["realtime", "openai-insecure-api-key.ek_1"]);
});

test("comes back with what it has, and gets what it missed", async () => {
  const { browser, connection, log } = await opened();
  browser.socket.tell({ type: "response.created", offset: 2 });
  connection.played = () => ({ item: "i", ms: 1239.9999 });
  browser.socket.end(1006);
  await browser.pass(500);
  const query = Object.fromEntries(browser.socket.address.searchParams);
  assert.deepEqual(query, {
    model: "m", resume: "sess_a.x", epoch: "7", offset: "2", item_id: "i", audio_end_ms: "1240",
  });
  assert.equal(connection.send({ type: "x" }), false);
  browser.socket.open();
  browser.socket.tell({
    type: "parley.resumed", recovered: true, session: { id: "sess_a" }, resume: place,
  });
  assert.deepEqual(
    log, ["session.created", "response.created", "lost", "recovered", "parley.resumed"]);
});

test("another epoch of the same session is told again; another session is a new one", async () => {
  const { browser, log } = await opened();
  for (const [id, epoch, what] of [["sess_a", 8, "retold"], ["sess_b", 9, "anew"]]) {
    browser.socket.end(1012);
    await browser.pass(10_000);
    browser.socket.open();
    browser.socket.tell({
      type: "parley.resumed", recovered: false, session: { id }, resume: { ...place, epoch },
    });
    assert.equal(log.at(-2), what);
  }
});

test("a token is asked for again for each connection", async () => {
  let number = 0;
  const { browser } = await opened(() => `ek_${++number}`);
  browser.socket.end(1006);
  await browser.pass(500);
  assert.equal(browser.socket.protocols[1], "openai-insecure-api-key.ek_2");
});

test("an attempt that is refused ends the session, and one that meets no server does not", async () => {
  const { browser, log } = await opened("ek");
  browser.socket.end(1006);
  await browser.pass(500);
  browser.answers["/v1/models"] = [0];
  browser.socket.end(1006);
  await browser.pass(10_000);
  assert.equal(log.at(-1), "lost");
  browser.answers["/v1/models"] = [401, { error: { message: "expired" } }];
  browser.socket.end(1006);
  await settled();
  assert.equal(log.at(-1), "credential_refused");
});

test("gives up when the session cannot be there any more", async () => {
  const { browser, log } = await opened();
  browser.answers["/v1/models"] = [0];
  // The handle is good until 2,000 s on the server's clock, and the session waits for half an hour.
  browser.socket.end(1006);
  await browser.pass(500);
  browser.time += 2_000_000;
  browser.socket.end(1006);
  await settled();
  assert.equal(log.at(-1), "network_lost");
});

for (const [code, expected] of [[4409, "session_taken"], [1000, "session_ended"],
  [1013, "session_ended"]]) {
  test(`close code ${code} is the end`, async () => {
    const { browser, log } = await opened();
    browser.socket.end(code);
    await settled();
    assert.equal(log.at(-1), expected);
    assert.equal(browser.sockets.length, 1);
  });
}

const refusals = [
  [{ "/v1/models": [401, { error: {} }] }, "credential_refused"],
  [{ "/v1/models": [403, { error: { code: "origin_not_allowed" } }] }, "origin_refused"],
  [{ "/v1/models": [429, { error: {} }] }, "rate_limited"],
  [{ "/readyz": [503, {}] }, "server_full"],
  [{ "/v1/models": [0] }, "network_lost"],
];
for (const [answers, code] of refusals) {
  test(`a first connection that does not open is ${code}`, async () => {
    const { browser, connection } = make();
    Object.assign(browser.answers, answers);
    const opening = connection.open();
    await settled();
    browser.socket.end(1006);
    await assert.rejects(opening, { name: "ParleyError", code });
  });
}

test("a credential that no subprotocol can have is refused here", async () => {
  await assert.rejects(make("a b").connection.open(), { code: "invalid_credential" });
});

test("a network that is back is used at once, also where the old connection only seems open",
  async () => {
    const { browser, connection, log } = await opened();
    connection.hurry();
    await settled();
    assert.equal(browser.sockets.length, 2);
    assert.equal(browser.socket.address.searchParams.get("resume"), "sess_a.x");
    assert.equal(log.at(-1), "lost");
  });

test("bytes that do not leave show a dead network", async () => {
  const { browser } = await opened();
  browser.socket.bufferedAmount = 5000;
  for (let second = 0; second < 9; second++) await browser.pass(1000);
  assert.equal(browser.sockets.length, 1);
  for (let second = 0; second < 3; second++) await browser.pass(1000);
  assert.equal(browser.sockets.length, 2);
});

test("a slow network is not taken for a dead one", async () => {
  const { browser } = await opened();
  for (let second = 0; second < 30; second++) {
    browser.socket.bufferedAmount = 5000 + second;
    browser.socket.tell({ type: "rate_limits.updated" });
    await browser.pass(1000);
  }
  assert.equal(browser.sockets.length, 1);
});

test("close ends the session and nothing comes back", async () => {
  const { browser, connection, log } = await opened();
  connection.close();
  assert.equal(browser.socket.closedWith, 1000);
  browser.socket.end(1000);
  await browser.pass(60_000);
  assert.deepEqual([browser.sockets.length, log.at(-1)], [1, "closed"]);
});
