// The connection, with a WebSocket, a clock and a network of the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Backoff, Connection } from "../../../.build/js/package/parley/connection.js";
import { ParleyError } from "../../../.build/js/package/parley/errors.js";

const place = { handle: "sess_a.x", expires_at: 2000, epoch: 7 };

/** A browser with one connection at a time. Timers fire when the test says so. */
class Browser {
  now = () => this.time;
  random = () => 1;
  time = 0;
  sockets = [];
  timers = [];
  answers = { "/v1/models": [200, {}], "/readyz": [200, {}] };
  /** The credentials of requests. */
  credentials = [];

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
      close(code) {
        this.readyState = 2;
        this.closedWith = code ?? "no code";
      }
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
  fetch = async (url, { headers = {}, signal }) => {
    const [status, body] = this.answers[url.pathname];
    if (headers.Authorization) this.credentials.push(headers.Authorization);
    if (status === 0) throw new TypeError("network");
    if (status === "silence") {
      await new Promise((_, reject) => { signal.onabort = () => reject(signal.reason); });
    }
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

function make(token = "", window = undefined) {
  const browser = Object.assign(new Browser(), { window });
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

test("tells how long it waits, and comes back sooner when it is told to", async () => {
  const { browser, connection } = await opened();
  const waits = [];
  connection.onWait = (milliseconds) => waits.push(milliseconds);
  browser.socket.end(1006);
  await settled();
  assert.deepEqual([waits, browser.sockets.length], [[500], 1]);
  connection.hurry();
  await settled();
  assert.equal(browser.sockets.length, 2);
  await browser.pass(500);
  assert.equal(browser.sockets.length, 2);
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
  [{ "/v1/models": [502, {}] }, "network_lost"],
  [{ "/v1/models": [421, { error: { code: "host_not_allowed" } }] }, "host_refused"],
  [{ "/v1/models": [404, {}] }, "no_server"],
  [{}, "websocket_blocked"],
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

test("a page whose origin is refused may send no credential, and finds out without it", async () => {
  const { browser, connection } = make("ek");
  const { fetch } = browser;
  browser.answers["/v1/models"] = [403, { error: { code: "origin_not_allowed" } }];
  browser.fetch = async (url, options) => {
    // The preflight fails.
    if (options.headers?.Authorization) throw new TypeError("Failed to fetch");
    return fetch(url, options);
  };
  const opening = connection.open();
  await settled();
  browser.socket.end(1006);
  await assert.rejects(opening, { code: "origin_refused" });
});

test("what the browser blocks itself has a reason of its own", async () => {
  const page = Object.assign(new EventTarget(), { document: new EventTarget(), location: {} });
  const blocked = make("", page);
  const opening = blocked.connection.open();
  await settled();
  const violation = Object.assign(new Event("securitypolicyviolation"), {
    blockedURI: "ws://server", disposition: "enforce", effectiveDirective: "connect-src",
  });
  page.document.dispatchEvent(violation);
  blocked.browser.socket.end(1006);
  await assert.rejects(opening, { code: "policy_blocked", detail: "connect-src ws://server" });
  // A policy that only reports blocks nothing.
  const reported = make("", page);
  const second = reported.connection.open();
  await settled();
  page.document.dispatchEvent(Object.assign(violation, { disposition: "report" }));
  reported.browser.socket.end(1006);
  await assert.rejects(second, { code: "websocket_blocked" });
  const secure = make("", {
    ...page, addEventListener() {}, removeEventListener() {}, location: { protocol: "https:" } });
  secure.browser.WebSocket = class {
    constructor() { throw Object.assign(new Error("insecure"), { name: "SecurityError" }); }
  };
  await assert.rejects(secure.connection.open(), { code: "insecure_address" });
});

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

test("an attempt that another one replaces does not open later, and open connections are kept",
  async () => {
    const { browser, connection } = await opened();
    for (let attempt = 0; attempt < 3; attempt++) {
      connection.hurry();
      await settled();
      // The third attempt opens, but is not answered.
      if (attempt === 1) browser.socket.open();
    }
    connection.hurry();
    await settled();
    const [first, second, third, fourth, fifth] = browser.sockets;
    assert.deepEqual([second, fourth].map(({ closedWith }) => closedWith), ["no code", "no code"]);
    assert.deepEqual([second.onopen, fourth.onopen], [null, null]);
    assert.deepEqual([first, third].map(({ closedWith }) => closedWith), [undefined, undefined]);
    // The end of the session is theirs, too: the server may have it at any of them.
    connection.close();
    assert.deepEqual([first, third, fifth].map(({ closedWith }) => closedWith), [1000, 1000, 1000]);
  });

test("the server closes what was replaced once the session is back", async () => {
  const { browser, connection } = await opened();
  const [first] = browser.sockets;
  connection.hurry();
  await settled();
  browser.socket.open();
  browser.socket.tell(
    { type: "parley.resumed", recovered: true, session: { id: "sess_a" }, resume: place });
  connection.close();
  assert.deepEqual([first.closedWith, browser.socket.closedWith], [undefined, 1000]);
});

test("an attempt that does not open in time is over, and the next one is made", async () => {
  const { browser } = await opened();
  browser.socket.end(1006);
  await browser.pass(500);
  const { socket } = browser;
  await browser.pass(9_999);
  assert.equal(socket.closedWith, undefined);
  await browser.pass(1);
  assert.deepEqual([socket.closedWith, socket.onopen], ["no code", null]);
  await browser.pass(1_000);
  assert.equal(browser.sockets.length, 3);
  browser.socket.open();
  await browser.pass(60_000);
  assert.deepEqual([browser.sockets.length, browser.socket.closedWith], [3, undefined]);
});

test("a first attempt that does not open in time is a lost network", async () => {
  const { browser, connection } = make();
  const opening = connection.open();
  await settled();
  await browser.pass(10_000);
  // The server answers requests, and a WebSocket does not open.
  await assert.rejects(opening, { code: "websocket_blocked" });
});

for (const path of ["/v1/models", "/readyz"]) {
  test(`a request to ${path} that is not answered in time is a lost network`, async () => {
    const { browser, connection } = make();
    browser.answers[path] = ["silence"];
    const opening = connection.open();
    await settled();
    browser.socket.end(1006);
    await settled();
    await browser.pass(10_000);
    await assert.rejects(opening, { code: "network_lost" });
  });
}

test("one token is made for an attempt and for the reason of its failure", async () => {
  let number = 0;
  const { browser } = await opened(() => `ek_${++number}`);
  browser.socket.end(1006);
  await browser.pass(500);
  browser.socket.end(1006);
  await settled();
  assert.deepEqual([number, browser.credentials], [2, ["Bearer ek_2"]]);
});

test("what gets the token may fail while there is no network", async () => {
  let fails = false;
  const { browser, log } = await opened(async () => {
    if (fails) throw new TypeError("network");
    return "ek";
  });
  fails = true;
  browser.socket.end(1006);
  await browser.pass(500);
  await browser.pass(1000);
  assert.deepEqual([browser.sockets.length, log.at(-1)], [1, "lost"]);
  fails = false;
  await browser.pass(2000);
  assert.equal(browser.sockets.length, 2);
});

test("a token that comes to nothing behind a newer attempt changes nothing", async () => {
  let tokens = null;
  const { browser, connection, log } = await opened(
    () => tokens ? new Promise((resolve, reject) => tokens.push({ resolve, reject })) : "ek");
  tokens = [];
  connection.hurry();
  connection.hurry();
  tokens[1].resolve("ek");
  await settled();
  tokens[0].reject(new ParleyError("credential_refused"));
  await settled();
  assert.deepEqual([browser.sockets.length, log.at(-1)], [2, "lost"]);
});

test("a newer attempt is not overtaken by the failure of the one before", async () => {
  let token = "ek";
  const { browser, connection } = await opened(() => token);
  browser.answers["/v1/models"] = ["silence"];
  browser.socket.end(1006);
  await browser.pass(500);
  browser.socket.end(1006);
  await settled();
  // A network is back while the failure is examined, and the token takes longer than that.
  let resolve;
  token = new Promise((settle) => { resolve = settle; });
  connection.hurry();
  await browser.pass(10_000);
  resolve("ek");
  await settled();
  assert.equal(browser.sockets.length, 3);
  browser.socket.open();
  await browser.pass(60_000);
  assert.equal(browser.sockets.length, 3);
});

/** What was asked for as a sign of life. */
const pings = ({ sent }) => sent.filter((text) => JSON.parse(text).type === "parley.ping").length;

test("a connection without signs of life is left, also while the first answer is awaited", async () => {
  const { browser, connection, log } = await opened();
  connection.awaits = () => true;
  for (let half = 0; half < 13; half++) await browser.pass(500);
  assert.deepEqual([browser.sockets.length, pings(browser.socket)], [1, 1]);
  await browser.pass(500);
  assert.deepEqual([browser.sockets.length, log.at(-1)], [2, "lost"]);
  assert.equal(browser.socket.address.searchParams.get("resume"), "sess_a.x");
  // The next one opens, and is silent, too.
  browser.socket.open();
  for (let half = 0; half < 18; half++) await browser.pass(500);
  assert.equal(browser.sockets.length, 3);
  const first = make();
  const opening = first.connection.open();
  await settled();
  first.browser.socket.open();
  for (let half = 0; half < 18; half++) await first.browser.pass(500);
  await assert.rejects(opening, { code: "websocket_blocked" });
});

test("the answer to a question is a sign of life, and no event of the session", async () => {
  const { browser, log } = await opened();
  for (let second = 0; second < 60; second++) {
    await browser.pass(1000);
    if (pings(browser.socket) > second / 11) browser.socket.tell({ type: "parley.pong" });
  }
  assert.deepEqual([browser.sockets.length, log], [1, ["session.created"]]);
  assert.ok(pings(browser.socket) >= 4);
});

test("bytes that do not leave show a dead network", async () => {
  const { browser } = await opened();
  browser.socket.bufferedAmount = 5000;
  for (let half = 0; half < 13; half++) await browser.pass(500);
  assert.equal(browser.sockets.length, 1);
  await browser.pass(500);
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

test("what has ended does not open", async () => {
  const { connection } = make();
  connection.close();
  await assert.rejects(connection.open(), { code: "session_ended" });
});

test("close ends the session and nothing comes back", async () => {
  const { browser, connection, log } = await opened();
  connection.close();
  assert.equal(browser.socket.closedWith, 1000);
  browser.socket.end(1000);
  await browser.pass(60_000);
  assert.deepEqual([browser.sockets.length, log.at(-1)], [1, "closed"]);
});
