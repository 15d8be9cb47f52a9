// The transcript and the times of turns, from events as the server sends them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Transcript, TurnClock, cutOff } from "../../../.build/js/package/parley/conversation.js";

function tell(transcript, ...events) {
  return events.flatMap(([type, fields]) => transcript.apply({ type, ...fields }));
}
const heard = "conversation.item.input_audio_transcription";
const spoken = "response.output_audio_transcript";

test("words stream in, and the final transcript replaces them", () => {
  const transcript = new Transcript();
  tell(transcript, ["input_audio_buffer.speech_started", { item_id: "u" }]);
  assert.equal(transcript.find("u").state, "pending");
  tell(transcript, [`${heard}.delta`, { item_id: "u", delta: "Go" }],
    [`${heard}.delta`, { item_id: "u", delta: " forth" }]);
  assert.deepEqual(transcript.find("u"), {
    id: "u", kind: "message", role: "user", text: "Go forth", cut: "", state: "streaming",
  });
  const [entry] = tell(
    transcript, [`${heard}.completed`, { item_id: "u", transcript: " Go forward. " }]);
  assert.deepEqual([entry.text, entry.state], ["Go forward.", "done"]);
});

test("a turn without words has failed", () => {
  const transcript = new Transcript();
  const [entry] = tell(transcript, [`${heard}.completed`, { item_id: "u", transcript: "" }]);
  assert.equal(entry.state, "failed");
});

test("an interrupted reply is split into what was heard and what was cut", () => {
  const transcript = new Transcript();
  tell(transcript, ["response.output_item.added", { item: { id: "r", type: "message" } }],
    [`${spoken}.delta`, { item_id: "r", delta: "One, two," }],
    [`${spoken}.delta`, { item_id: "r", delta: " three, four" }],
    ["conversation.item.truncated", { item_id: "r", audio_end_ms: 900, transcript: "One, two," }]);
  assert.deepEqual(
    [transcript.find("r").text, transcript.find("r").cut], ["One, two,", " three, four"]);
  // The model's text goes on without a voice.
  assert.deepEqual(tell(transcript, [`${spoken}.delta`, { item_id: "r", delta: ", five" }]), []);
  tell(transcript,
    [`${spoken}.done`, { item_id: "r", transcript: "One, two, three, four, five" }]);
  assert.equal(transcript.find("r").cut, " three, four, five");
  assert.equal(transcript.toText(), "Agent: One, two, [not heard: three, four, five]\n");
});

test("a reply that is cut before its first sound has no words that were heard", () => {
  const transcript = new Transcript();
  const cut = (end) => tell(transcript, [`${spoken}.delta`, { item_id: "r", delta: "One, two" }],
    ["conversation.item.truncated", { item_id: "r", audio_end_ms: end }]);
  // Where some was heard, only the server knows which words.
  cut(40);
  assert.deepEqual([transcript.find("r").text, transcript.find("r").cut], ["One, two", ""]);
  tell(transcript, ["conversation.item.truncated", { item_id: "r", audio_end_ms: 0 }]);
  assert.deepEqual([transcript.find("r").text, transcript.find("r").cut], ["", "One, two"]);
});

test("a reply can be cut twice, and only the end is lost", () => {
  const transcript = new Transcript();
  tell(transcript, [`${spoken}.delta`, { item_id: "r", delta: "One, two, three" }],
    ["conversation.item.truncated", { item_id: "r", transcript: "One, two," }],
    ["conversation.item.truncated", { item_id: "r", transcript: "One," }]);
  assert.deepEqual([transcript.find("r").text, transcript.find("r").cut], ["One,", " two, three"]);
});

test("a response outside of the conversation changes nothing", () => {
  const transcript = new Transcript();
  const outside = { response_id: "o", item_id: "a" };
  const changed = tell(transcript, ["response.created", { response: { id: "o", conversation_id: null } }],
    ["response.created", { response: { id: "r", conversation_id: "conv" } }],
    ["response.output_item.added", { response_id: "o", item: { id: "a", type: "message" } }],
    [`${spoken}.delta`, { ...outside, delta: "Hello" }],
    ["response.done", { response: { id: "o", output: [{ id: "a" }] } }]);
  assert.deepEqual([changed, transcript.entries], [[], []]);
  tell(transcript, [`${spoken}.delta`, { response_id: "r", item_id: "b", delta: "Hi" }]);
  assert.equal(transcript.find("b").text, "Hi");
});

test("a call that the server makes is an entry with its result", () => {
  const transcript = new Transcript();
  const call = { id: "m", type: "mcp_call", server_label: "parley", name: "count_sessions", arguments: "" };
  tell(transcript, ["response.output_item.added", { item: call }]);
  assert.deepEqual(transcript.find("m"), {
    id: "m", kind: "call", role: "assistant", name: "count_sessions", arguments: "", text: "", cut: "",
    state: "streaming",
  });
  tell(transcript, ["response.mcp_call_arguments.done", { item_id: "m", arguments: "{}" }]);
  const done = { ...call, arguments: "{}", output: '{"sessions_open":1}', error: null };
  const [entry] = tell(transcript, ["conversation.item.done", { item: done }]);
  tell(transcript, ["response.output_item.done", { item: done }]);
  assert.deepEqual([entry.arguments, entry.output, entry.state], ["{}", '{"sessions_open":1}', "done"]);
  assert.equal(transcript.toText(), '[count_sessions({}) = {"sessions_open":1}]\n');
});

test("a call that fails shows why", () => {
  const transcript = new Transcript();
  const item = {
    id: "m", type: "mcp_call", name: "a", arguments: "{}", output: null,
    error: { type: "tool_execution_error", message: "There is no such tool." },
  };
  const [entry] = tell(transcript, ["conversation.item.done", { item }]);
  assert.deepEqual([entry.output, entry.state], ["There is no such tool.", "done"]);
  // A call that is told before its item is no entry.
  assert.deepEqual(
    tell(transcript, ["response.mcp_call_arguments.done", { item_id: "n", arguments: "{}" }]), []);
});

test("a deleted item is gone", () => {
  const transcript = new Transcript();
  transcript.addTyped("u", "hello");
  const [entry] = tell(transcript, ["conversation.item.deleted", { item_id: "u" }]);
  assert.ok(entry.isDeleted);
  assert.deepEqual(transcript.entries, []);
});

test("calls of functions are entries with arguments and output", () => {
  const transcript = new Transcript();
  tell(transcript,
    ["response.output_item.added",
      { item: { id: "f", type: "function_call", call_id: "c", name: "get_time" } }],
    ["response.function_call_arguments.done", { call_id: "c", name: "get_time", arguments: "{}" }]);
  transcript.addOutput("c", "noon");
  assert.deepEqual(transcript.toJSON(), [{
    id: "c", kind: "call", role: "assistant", text: "", state: "done", name: "get_time",
    arguments: "{}", output: "noon",
  }]);
  assert.equal(transcript.toText(), "[get_time({}) = noon]\n");
});

test("a conversation that is told again shows each item once", () => {
  const transcript = new Transcript();
  transcript.addTyped("u", "hello");
  transcript.retell();
  const user = { id: "u", type: "message", role: "user", content: [{ text: "hello" }] };
  const reply = {
    id: "r", type: "message", role: "assistant", status: "in_progress",
    content: [{ transcript: "Hi" }],
  };
  tell(transcript, ["conversation.item.added", { item: user }],
    ["conversation.item.added", { item: reply }]);
  transcript.endRetelling();
  tell(transcript,
    [`${spoken}.delta`, { item_id: "r", delta: " there" }]);
  assert.deepEqual(transcript.entries.map(({ text }) => text), ["hello", "Hi there"]);
});

test("what was cut is what follows the heard part", () => {
  assert.equal(cutOff("one two", "one"), " two");
  assert.equal(cutOff("one two", "eins"), "");
});

test("hops count from the end of the turn, each once", () => {
  const clock = new TurnClock();
  assert.equal(clock.reach("token", 5), null);
  clock.begin(1000);
  assert.deepEqual(clock.reach("words", 1250), { wordsMs: 250, tokenMs: null, soundMs: null });
  clock.reach("token", 1300);
  assert.equal(clock.reach("token", 1400), null);
  assert.deepEqual(clock.reach("sound", 1420.4), { wordsMs: 250, tokenMs: 300, soundMs: 420 });
  clock.begin(2000, { hasWords: false });
  assert.deepEqual(clock.reach("token", 2010), { wordsMs: 0, tokenMs: 10, soundMs: null });
});
