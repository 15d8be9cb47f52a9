// A session without sound, over a WebSocket of the test: what is sent, and what is sent again.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import { afterEach, test } from "node:test";

let sockets = [];
const sessions = [];

// A session that is left open would keep Node running.
afterEach(() => sessions.splice(0).forEach((session) => session.close()));

/** A WebSocket whose server is the test. It answers session.update by itself. */
class Socket {
  readyState = 0;
  bufferedAmount = 0;
  sent = [];

  constructor(address) {
    this.address = new URL(address);
    sockets.push(this);
  }

  send(message) {
    const event = JSON.parse(message);
    this.sent.push(event);
    if (event.type === "session.update" && this.answers) {
      this.tell({ type: "session.updated", session: event.session });
    }
  }

  tell(event) { this.onmessage({ data: JSON.stringify(event) }); }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  end(code) {
    this.readyState = 3;
    this.onclose({ code, reason: "" });
  }

  close() {}

  types(...omitted) {
    return this.sent.map(({ type }) => type).filter((type) => !omitted.includes(type));
  }
}

globalThis.WebSocket = Socket;
globalThis.crypto ??= webcrypto;
const { ParleySession } = await import("../../../.build/js/package/parley.js");

const settled = () => new Promise((resolve) => setImmediate(resolve));
const resume = { handle: "sess_a.x", expires_at: 4e9, epoch: 1 };

async function open(options = {}) {
  sockets = [];
  const session = new ParleySession({ url: "http://server/", ...options });
  sessions.push(session);
  const log = [];
  for (const name of ["error", "closed"]) session.on(name, (error) => log.push(error?.code ?? name));
  const opening = session.open();
  await settled();
  const [socket] = sockets;
  socket.answers = true;
  socket.open();
  socket.tell({ type: "session.created", offset: 1, session: { id: "sess_a" }, resume });
  await opening;
  return { session, socket, log };
}

/** The connection breaks and is back. Returns the new socket, whose mark is not answered yet. */
async function comeBack(socket, { recovered = true, id = "sess_a", epoch = 1 } = {}) {
  socket.end(1006);
  while (sockets.at(-1) === socket) await new Promise((resolve) => setTimeout(resolve, 20));
  const next = sockets.at(-1);
  next.answers = true;
  next.open();
  next.tell({ type: "parley.resumed", recovered, session: { id }, resume: { ...resume, epoch } });
  return next;
}

/** Answers the mark: everything that was missed has come. */
function catchUp(socket) {
  const mark = socket.sent.find(({ type }) => type === "conversation.item.retrieve");
  socket.tell({ type: "error", error: { code: "item_retrieve_invalid_item_id", event_id: mark.event_id } });
}

const marks = ["session.update", "conversation.item.retrieve"];

test("asks for a session with its settings", async () => {
  const { socket } = await open({
    model: "m", session: { instructions: "Be short.", audio: { output: { voice: "ash" } } },
    turnDetection: "semantic_vad",
    tools: { get_time: { description: "The time.", run: () => "noon" } },
  });
  assert.equal(socket.address.href, "ws://server/v1/realtime?model=m&resume=true");
  const { session: asked } = socket.sent[0];
  // Without live audio, replies are text.
  assert.deepEqual(asked.output_modalities, ["text"]);
  assert.equal(asked.instructions, "Be short.");
  assert.equal(asked.audio.output.voice, "ash");
  assert.equal(asked.audio.output.transport, "binary");
  assert.deepEqual(asked.audio.input.turn_detection, { type: "semantic_vad" });
  assert.deepEqual(asked.tools, [{
    type: "function", name: "get_time", description: "The time.", parameters: { type: "object" },
  }]);
});

test("a typed message is an item and a request, and stops the reply before", async () => {
  const { session, socket } = await open();
  session.say("one");
  socket.tell({ type: "response.created", response: { id: "r1" } });
  session.say("two");
  assert.deepEqual(socket.types("session.update"), [
    "conversation.item.create", "response.create", "response.cancel", "conversation.item.create",
    "response.create",
  ]);
  assert.deepEqual(session.transcript.entries.map(({ text }) => text), ["one", "two"]);
  assert.equal(session.activity, "thinking");
});

test("what was lost on its way to the server is sent again, once everything missed has come",
  async () => {
    const { session, socket } = await open();
    session.say("hello");
    const next = await comeBack(socket);
    assert.deepEqual(next.types(), marks);
    catchUp(next);
    assert.deepEqual(next.types(...marks), ["conversation.item.create", "response.create"]);
    assert.equal(next.sent[2].item.id, socket.sent.at(-2).item.id);
    });

test("what the server has is not sent again", async () => {
  const { session, socket } = await open();
  session.say("hello");
  const next = await comeBack(socket);
  next.tell({ type: "conversation.item.added", item: { id: socket.sent.at(-2).item.id } });
  next.tell({ type: "response.created", response: { id: "r1" } });
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
});

test("a conversation that is told again has the answer behind the message", async () => {
  const { session, socket } = await open();
  session.say("hello");
  const { item } = socket.sent.at(-2);
  const next = await comeBack(socket, { recovered: false, epoch: 2 });
  next.tell({ type: "conversation.item.added", item });
  const reply = { id: "r", type: "message", role: "assistant", content: [{ text: "Hi" }] };
  next.tell({ type: "conversation.item.added", item: reply });
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
  assert.deepEqual(session.transcript.entries.map(({ text }) => text), ["hello", "Hi"]);
});

test("another session begins empty", async () => {
  const { session, socket } = await open();
  session.say("hello");
  const next = await comeBack(socket, { recovered: false, id: "sess_b", epoch: 2 });
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
  assert.deepEqual(session.transcript.entries, []);
});

test("functions run beside each other, and the reply to them is asked for once", async () => {
  const release = {};
  const run = (name) => () => new Promise((resolve) => { release[name] = resolve; });
  const { session, socket, log } = await open({
    tools: {
      slow: { description: "", run: run("slow") }, quick: { description: "", run: run("quick") },
      bad: { description: "", run: () => { throw new Error("no such order"); } },
    },
  });
  socket.tell({ type: "response.created", response: { id: "r1" } });
  for (const name of ["slow", "quick", "bad", "unknown"]) {
    socket.tell({
      type: "response.function_call_arguments.done", response_id: "r1", call_id: `c-${name}`, name,
      arguments: "{}",
    });
  }
  await settled();
  release.quick({ state: "shipped" });
  await settled();
  socket.tell({ type: "response.done", response: { id: "r1", status: "completed", output: [] } });
  assert.equal(session.activity, "thinking");
  release.slow("done");
  await settled();
  const outputs = socket.sent.filter(({ item }) => item).map(({ item }) => [item.call_id, item.output]);
  assert.deepEqual(outputs, [
    ["c-bad", '{"error":"no such order"}'], ["c-quick", '{"state":"shipped"}'], ["c-slow", "done"],
  ]);
  assert.equal(socket.types().filter((type) => type === "response.create").length, 1);
  assert.equal(socket.types().at(-1), "response.create");
  assert.deepEqual(log, ["tool_failed"]);
});

test("errors have a code and a sentence", async () => {
  const { session, socket, log } = await open();
  socket.tell({ type: "error", error: { code: "rate_limit_exceeded", message: "20 turns" } });
  socket.tell({ type: "error", error: { code: "response_cancel_not_active", message: "" } });
  socket.tell({
    type: "response.done",
    response: { id: "r", status: "failed", status_details: { error: { code: "upstream_error" } } },
  });
  socket.end(4409);
  await settled();
  assert.deepEqual(log, ["rate_limited", "reply_failed", "session_taken"]);
  assert.equal(session.link, "closed");
});

test("a wrong address is an error of its own", async () => {
  for (const url of ["ftp://server/", "http://"]) {
    await assert.rejects(new ParleySession({ url }).open(), { code: "invalid_address" });
  }
});

test("tool servers are offered beside functions, and can be changed", async () => {
  const server = { type: "mcp", server_label: "parley", require_approval: "never" };
  const tools = { get_time: { description: "The time.", run: () => "noon" } };
  const { session, socket } = await open({ tools, toolServers: [server] });
  const offered = () => socket.sent.findLast(({ type }) => type === "session.update").session.tools;
  assert.deepEqual(offered().map(({ type }) => type), ["function", "mcp"]);
  assert.deepEqual(offered()[1], server);
  session.toolServers = [];
  assert.deepEqual(offered().map(({ type }) => type), ["function"]);
});
