// The parts of the conversation page that touch no browser interface: values of functions in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inWords } from "../../../.build/js/page/page/values.js";
import { height } from "../../../.build/js/page/page/wave.js";

test("values have names and units", () => {
  const rows = [
    ['{"sessions_open":1}', "sessions open: 1"],
    ['{"session_bytes":41230}', "session: 41.2 kB"],
    ['{"transcript_ms":null,"first_token_ms":1234}', "transcript: –, first token: 1,234 ms"],
    ['{"theme":"dark","is_new":true,"ms":7}', "theme: dark, is new: true, ms: 7"],
    ['{"wait_seconds":3,"load_percent":12.5,"note_ms":"soon"}',
      "wait: 3 s, load: 12.5 %, note ms: soon"],
    ["{}", ""],
  ];
  for (const [json, words] of rows) assert.equal(inWords(json), words);
});

test("values within values have parentheses", () => {
  const rows = [
    ['{"slots":[{"day":"Monday","hour":9},{"day":"Friday","hour":null}],"total":2}',
      "slots: (day: Monday, hour: 9), (day: Friday, hour: –), total: 2"],
    ['{"guest":{"name":"Ada","tags":["early","late"]},"notes":[],"more":{}}',
      "guest: (name: Ada, tags: early, late), notes: none, more: none"],
    ['[1,[2,3],"x"]', "1, (2, 3), x"], ["[]", ""], ["{}", ""],
  ];
  for (const [json, words] of rows) assert.equal(inWords(json), words);
});

test("what is no object or list stays as it is", () => {
  for (const text of ["It is 12:25.", "null", "7", "{", ""]) assert.equal(inWords(text), text);
});

test("a long text ends with an ellipsis", () => {
  assert.equal(inWords("x".repeat(200)), "x".repeat(200));
  assert.equal(inWords("x".repeat(201)), `${"x".repeat(199)}…`);
  assert.equal(inWords(`${"x".repeat(198)}😀😀`), `${"x".repeat(198)}…`);
  assert.equal(inWords(JSON.stringify({ text: "x".repeat(300) })), `text: ${"x".repeat(193)}…`);
});

test("no level is higher than the strip, and louder ones differ", () => {
  const heights = [0, 0.01, 0.1, 0.2, 0.33, 0.5, 1, 1.5].map(height);
  assert.deepEqual([heights[0], heights[1], heights[6], heights[7]], [0, 0.1, 1, 1]);
  assert.ok(heights.slice(1, 7).every((each, index) => each > heights[index]));
});
