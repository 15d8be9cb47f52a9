// A session without sound, over a WebSocket of the test: what is sent, and what is sent again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Socket, begin, catchUp, comeBack, make, marks, open, settled } from "./session_host.mjs";

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
    const { session } = make({ url });
    await assert.rejects(session.open(), { code: "invalid_address" });
    assert.equal(session.link, "closed");
  }
});

// ---- A beginning that fails ----

test("a server that refuses the settings opens no session", async () => {
  // Of an event that it cannot read, the server does not know the id.
  for (const id of ["parley-update", null]) {
    const { session, socket, log, opening } = await begin();
    assert.equal(socket.last("session.update").event_id, "parley-update");
    socket.refuse("session.update", id);
    await settled();
    assert.equal(session.link, "closed");
    await assert.rejects(opening, { code: "server_error", detail: "no session.update" });
    assert.deepEqual([socket.closes, log], [[1000], []]);
  }
});

test("another event that is refused meanwhile changes nothing", async () => {
  const { session, socket, opening } = await begin();
  session.send({ type: "response.create", event_id: "mine" });
  socket.refuse("response.create");
  socket.tell({ type: "session.updated", session: {} });
  await opening;
  assert.equal(session.link, "open");
});

for (const [code, expected] of [[1013, "session_ended"], [4409, "session_taken"]]) {
  test(`close code ${code} before the settings are confirmed is why nothing opens`, async () => {
    const { session, socket, log, opening } = await begin();
    socket.end(code);
    await assert.rejects(opening, { code: expected });
    assert.deepEqual([session.link, log], ["closed", []]);
  });
}

test("a connection that breaks before the settings are confirmed comes back with them", async () => {
  const { session, socket, opening } = await begin();
  await comeBack(socket);
  await opening;
  assert.equal(session.link, "open");
});

test("a session that is closed while it begins does not open", async () => {
  const { session: early, log } = make();
  early.close();
  early.close();
  assert.deepEqual(log, ["closed"]);
  await assert.rejects(early.open(), { code: "session_ended" });
  const { session } = make();
  const opening = session.open();
  session.close();
  await assert.rejects(opening, { code: "session_ended" });
  await settled();
  assert.deepEqual(Socket.all, []);
  const { session: late, socket, opening: last } = await begin();
  late.close();
  await assert.rejects(last, { code: "session_ended" });
  assert.deepEqual(socket.closes, [1000]);
});

test("a listener may close the session as soon as it is open", async () => {
  for (const name of ["link", "updated"]) {
    const { session, socket, log, opening } = await begin();
    session.on(name, () => session.close());
    socket.tell({ type: "session.updated", session: {} });
    assert.equal(session.link, "closed");
    await assert.rejects(opening, { code: "session_ended" });
    assert.deepEqual(log, []);
  }
});

test("a session that did not open does not watch the devices any more", async () => {
  const mediaDevices = new EventTarget();
  Object.defineProperty(globalThis, "navigator", { value: { mediaDevices }, configurable: true });
  const { session } = make({ url: "ftp://server/" });
  let changes = 0;
  session.on("devices", () => { changes += 1; });
  mediaDevices.dispatchEvent(new Event("devicechange"));
  await assert.rejects(session.open());
  mediaDevices.dispatchEvent(new Event("devicechange"));
  delete globalThis.navigator;
  assert.equal(changes, 1);
});

// ---- What the server refuses ----

test("settings that are refused after a return leave the session open", async () => {
  const { session, socket, log } = await open();
  session.say("hello");
  const next = await comeBack(socket, { answers: false });
  assert.equal(session.link, "lost");
  next.refuse("session.update");
  assert.deepEqual([session.link, log], ["open", ["server_error"]]);
  catchUp(next);
  assert.deepEqual(next.types(...marks), ["conversation.item.create", "response.create"]);
});

test("another session that refuses the settings is the end", async () => {
  const { session, socket, log } = await open();
  const other = { recovered: false, id: "sess_b", epoch: 2, answers: false };
  const next = await comeBack(socket, other);
  // It has none of them, also where its connection breaks before it refuses them.
  const last = await comeBack(next, { id: "sess_b", epoch: 2, answers: false });
  last.refuse("session.update");
  assert.deepEqual([session.link, log, last.closes], ["closed", ["server_error"], [1000]]);
});

test("a request that is refused is over, and is not sent again", async () => {
  const { session, socket, log } = await open();
  session.say("hello");
  assert.equal(session.activity, "thinking");
  socket.refuse("conversation.item.create");
  assert.equal(session.activity, "thinking");
  socket.refuse("response.create");
  assert.equal(session.activity, "idle");
  assert.deepEqual(log, ["server_error", "server_error"]);
  const next = await comeBack(socket);
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
});

test("a refused request leaves the reply that is there, and newer requests", async () => {
  const { session, socket } = await open();
  session.say("one");
  const first = socket.last("response.create").event_id;
  session.say("two");
  socket.refuse("response.create", first);
  assert.equal(session.activity, "thinking");
  socket.tell({ type: "response.created", response: { id: "r1" } });
  session.say("three");
  socket.refuse("response.create");
  assert.equal(session.activity, "thinking");
  socket.tell({ type: "response.done", response: { id: "r1", status: "cancelled", output: [] } });
  assert.equal(session.activity, "idle");
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
