// A session without sound, over a WebSocket of the test: what is sent, and what is sent again.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Socket, begin, catchUp, comeBack, make, marks, open, resume, settled,
} from "./session_host.mjs";

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

test("the rest of an unheard reply is no answer to a message that the server does not have", async () => {
  const { session, socket } = await open();
  session.say("hello");
  const next = await comeBack(socket);
  next.tell({ type: "response.created", response: { id: "rest" } });
  const rest = { id: "r", type: "message", role: "assistant", content: [] };
  next.tell({ type: "conversation.item.added", item: rest });
  catchUp(next);
  assert.deepEqual(next.types(...marks), ["conversation.item.create", "response.create"]);
});

test("a message goes out once, also where it comes before the session is open or has caught up",
  async () => {
    const { session } = make();
    session.say("one");
    const opening = session.open();
    await settled();
    const [socket] = Socket.all;
    socket.open();
    socket.tell({ type: "session.created", offset: 1, session: { id: "sess_a" }, resume });
    await settled();
    session.say("two");
    const first = ["session.update"];
    assert.deepEqual(socket.types(), first);
    socket.tell({ type: "session.updated", session: {} });
    await opening;
    const request = ["conversation.item.create", "response.create"];
    assert.deepEqual(socket.types(...first), ["conversation.item.create", ...request]);
    for (const { item } of socket.sent.filter(({ item }) => item)) {
      socket.tell({ type: "conversation.item.added", item });
    }
    socket.tell({ type: "response.created", response: { id: "r1" } });
    socket.tell({ type: "response.done", response: { id: "r1", status: "completed", output: [] } });
    const next = await comeBack(socket);
    session.say("three");
    assert.deepEqual(next.types(...marks), []);
    catchUp(next);
    assert.deepEqual(next.types(...marks), request);
  });

test("a reply that has ended meanwhile is not waited for", async () => {
  const { session, socket } = await open();
  session.say("hello");
  const { item } = socket.sent.at(-2);
  socket.tell({ type: "response.created", response: { id: "r1" } });
  const next = await comeBack(socket, { recovered: false, epoch: 2 });
  next.tell({ type: "conversation.item.added", item });
  catchUp(next);
  assert.equal(session.activity, "idle");
});

// ---- Stopping ----

test("a second message stops the reply to the first before it has begun", async () => {
  const { session, socket, log } = await open();
  session.say("one");
  session.say("two");
  assert.deepEqual(socket.types("session.update"), [
    "conversation.item.create", "response.create", "response.cancel", "conversation.item.create",
    "response.create",
  ]);
  socket.tell({ type: "response.created", response: { id: "r1" } });
  // By its name: another reply may have begun by then.
  assert.equal(socket.sent.at(-1).response_id, "r1");
  socket.tell({ type: "response.done", response: { id: "r1", status: "cancelled", output: [] } });
  assert.equal(session.activity, "thinking");
  socket.tell({ type: "response.created", response: { id: "r2" } });
  assert.equal(socket.types().filter((type) => type === "response.cancel").length, 2);
  socket.tell({ type: "response.done", response: { id: "r2", status: "completed", output: [] } });
  assert.deepEqual([session.activity, log], ["idle", []]);
});

test("the reply to a spoken turn can be stopped before it begins, and the next one is wanted",
  async () => {
    const { session, socket } = await open();
    const turn = () => {
      socket.tell({ type: "input_audio_buffer.speech_started", item_id: "u" });
      socket.tell({ type: "input_audio_buffer.speech_stopped", item_id: "u", audio_end_ms: 0 });
    };
    const cancelled = () => socket.sent.filter(({ type }) => type === "response.cancel")
      .map(({ response_id: id }) => id);
    turn();
    session.interrupt();
    assert.equal(session.activity, "idle");
    socket.tell({ type: "response.created", response: { id: "r1" } });
    assert.deepEqual([session.activity, cancelled()], ["idle", ["r1"]]);
    socket.tell({ type: "response.done", response: { id: "r1", status: "cancelled", output: [] } });
    turn();
    session.interrupt();
    turn();
    socket.tell({ type: "response.created", response: { id: "r2" } });
    assert.deepEqual([session.activity, cancelled()], ["thinking", ["r1"]]);
  });

test("a stop while a function is at work leaves its output without a reply", async () => {
  let release;
  const run = () => new Promise((resolve) => { release = resolve; });
  const { session, socket } = await open({
    tools: { slow: { description: "", run }, quick: { description: "", run: () => "" } },
  });
  const call = (id, name) => {
    socket.tell({ type: "response.created", response: { id } });
    socket.tell({
      type: "response.function_call_arguments.done", response_id: id, call_id: `c-${id}`, name,
      arguments: "{}",
    });
    socket.tell({ type: "response.done", response: { id, status: "completed", output: [] } });
  };
  call("r1", "slow");
  assert.equal(session.activity, "thinking");
  session.interrupt();
  assert.equal(session.activity, "idle");
  // The reply to another function does not wait for it.
  call("r2", "quick");
  await settled();
  const answered = ["conversation.item.create", "response.create"];
  assert.deepEqual(socket.types("session.update"), answered);
  release("done");
  await settled();
  assert.deepEqual(socket.types("session.update"), [...answered, "conversation.item.create"]);
});

test("what is still said of a stopped reply is no hop of the next turn", async () => {
  const { session, socket } = await open();
  const hops = [];
  session.on("hops", ({ tokenMs }) => hops.push(tokenMs));
  session.say("one");
  socket.tell({ type: "response.created", response: { id: "r1" } });
  session.say("two");
  const delta = (id) => socket.tell(
    { type: "response.output_text.delta", response_id: id, item_id: `i-${id}`, delta: "a" });
  delta("r1");
  assert.deepEqual(hops, []);
  socket.tell({ type: "response.done", response: { id: "r1", status: "cancelled", output: [] } });
  socket.tell({ type: "response.created", response: { id: "r2" } });
  delta("r2");
  assert.equal(hops.length, 1);
});

test("another session begins with the messages that were never sent, and shows what became of the others",
  async () => {
    const { session, socket, log } = await open();
    session.say("answered");
    const { item } = socket.last("conversation.item.create");
    socket.tell({ type: "conversation.item.added", item });
    session.say("on its way");
    const entries = [];
    session.on("entry", ({ text, state }) => entries.push([text, state]));
    socket.end(1006);
    session.say("typed meanwhile");
    while (Socket.all.at(-1) === socket) await settled();
    const next = Socket.all.at(-1);
    next.answers = true;
    next.open();
    next.tell({
      type: "parley.resumed", recovered: false, session: { id: "sess_b" },
      resume: { ...resume, epoch: 2 },
    });
    assert.deepEqual(session.transcript.entries.map(({ text, state }) => [text, state]), [
      ["on its way", "unsure"], ["typed meanwhile", "done"],
    ]);
    assert.deepEqual(entries.slice(-2), [["on its way", "unsure"], ["typed meanwhile", "done"]]);
    assert.deepEqual([log, session.activity], [["message_lost"], "thinking"]);
    assert.deepEqual(next.types(...marks), []);
    catchUp(next);
    assert.deepEqual(next.types(...marks), ["conversation.item.create", "response.create"]);
    assert.equal(next.last("conversation.item.create").item.content[0].text, "typed meanwhile");
  });

test("another session without anything typed begins empty", async () => {
  const { session, socket, log } = await open();
  session.say("hello");
  socket.tell({
    type: "conversation.item.added", item: socket.last("conversation.item.create").item,
  });
  const next = await comeBack(socket, { recovered: false, id: "sess_b", epoch: 2 });
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
  assert.deepEqual([session.transcript.entries, session.activity, log], [[], "idle", []]);
});

test("what was typed shows at the end of a session, and after a refusal, that it was not received",
  async () => {
    const { session, socket } = await open();
    session.say("refused");
    socket.refuse("conversation.item.create");
    session.say("sent");
    const entries = [];
    session.on("entry", ({ text, state }) => entries.push([text, state]));
    socket.end(1013);
    await settled();
    assert.equal(session.transcript.entries[0].state, "failed");
    assert.deepEqual(entries, [["sent", "unsure"]]);
  });

test("speech that was cut off with its session is to be said again", async () => {
  const { socket, log } = await open();
  socket.tell({ type: "input_audio_buffer.speech_started", item_id: "u" });
  const next = await comeBack(socket, { recovered: false, id: "sess_b", epoch: 2 });
  catchUp(next);
  assert.deepEqual(log, ["speech_lost"]);
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

test("a function may return what is no JSON", async () => {
  const { socket } = await open({ tools: { odd: { description: "", run: () => () => {} } } });
  socket.tell({
    type: "response.function_call_arguments.done", response_id: "r1", call_id: "c", name: "odd",
    arguments: "",
  });
  await settled();
  assert.equal(socket.last("conversation.item.create").item.output, "null");
});

test("a listener that throws does not stop the session, and its error is the page's",
  async (context) => {
    const { session, socket } = await open();
    const reports = [];
    context.mock.method(globalThis, "queueMicrotask", (report) => reports.push(report));
    session.on("event", () => { throw new Error("of the page"); });
    const heard = [];
    session.on("event", ({ type }) => heard.push(type));
    socket.tell({ type: "response.created", response: { id: "r1" } });
    context.mock.restoreAll();
    assert.deepEqual([session.activity, heard], ["thinking", ["response.created"]]);
    assert.equal(reports.length, 1);
    assert.throws(reports[0], { message: "of the page" });
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
  for (const id of [undefined, null]) {
    const { session, socket, log, opening } = await begin();
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

test("a session that has ended does nothing any more, and says why", async () => {
  const { session, socket, log } = await open();
  session.close();
  await assert.rejects(session.talk(), { code: "session_ended" });
  await assert.rejects(session.press(), { code: "session_ended" });
  assert.throws(() => session.say("hello"), { code: "session_ended" });
  assert.equal(session.unlock().code, "session_ended");
  session.hush();
  session.interrupt();
  await session.release();
  assert.deepEqual([socket.types(), log], [["session.update"], ["closed"]]);
});

test("a session that is not open yet can be asked everything", async () => {
  const { session, log } = make();
  session.interrupt();
  session.hush();
  session.update({ instructions: "Be short." });
  session.turnDetection = null;
  assert.equal(session.send({ type: "response.create" }), false);
  assert.deepEqual([session.turnDetection, log], [null, []]);
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

test("a setting that is refused is what it was, and those that follow are sent without it",
  async () => {
    const { session, socket, log } = await open({ session: { instructions: "Be short." } });
    socket.answers = false;
    session.update({ audio: { output: { voice: "nobody" } } });
    session.turnDetection = "semantic_vad";
    const [, first, second] = socket.sent.map(({ event_id: id }) => id);
    socket.refuse("session.update", first);
    assert.equal(socket.types().length, 3);
    socket.refuse("session.update", second);
    // The second refusal has the first one's reason.
    assert.deepEqual(log, ["server_error"]);
    const { session: asked } = socket.last("session.update");
    assert.deepEqual([asked.instructions, asked.audio.output.voice], ["Be short.", undefined]);
    assert.deepEqual(asked.audio.input.turn_detection, { type: "semantic_vad" });
    socket.tell({ type: "session.updated", session: asked });
    session.turnDetection = null;
    assert.equal(session.turnDetection, null);
    socket.refuse("session.update");
    assert.deepEqual(session.turnDetection, { type: "semantic_vad" });
    assert.deepEqual(log, ["server_error", "server_error"]);
    assert.equal(socket.types().length, 5);
  });

test("a refusal takes back its own change, whatever was accepted before", async () => {
  const { session, socket } = await open();
  session.update({ instructions: "one" });
  // A sideband has changed the session.
  socket.tell({ type: "session.updated", session: {} });
  socket.answers = false;
  session.update({ instructions: "two" });
  session.update({ instructions: "three" });
  socket.tell({ type: "session.updated", session: {} });
  socket.refuse("session.update");
  session.speaks = false;
  assert.equal(socket.last("session.update").session.instructions, "two");
});

test("a change that is refused while the connection is lost is not sent again", async () => {
  const { session, socket } = await open();
  socket.answers = false;
  session.update({ audio: { output: { voice: "nobody" } } });
  const { event_id: id } = socket.last("session.update");
  const next = await comeBack(socket, { answers: false });
  // The refusal was missed, and comes before the answer to what is sent now.
  next.refuse("session.update", id);
  next.refuse("session.update");
  assert.equal(next.last("session.update").session.audio.output.voice, undefined);
  next.tell({ type: "session.updated", session: {} });
  assert.equal(session.link, "open");
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
  // That has stopped the reply before it.
  socket.refuse("response.create");
  assert.equal(session.activity, "idle");
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
