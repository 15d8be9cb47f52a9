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

test("what is no object of plain values stays as it is", () => {
  for (const text of ["It is 12:25.", "[1]", "null", "7", '{"a":{"b":1}}', '{"a":[]}', ""]) {
    assert.equal(inWords(text), null);
  }
});

test("no level is higher than the strip, and louder ones differ", () => {
  const heights = [0, 0.01, 0.1, 0.2, 0.33, 0.5, 1, 1.5].map(height);
  assert.deepEqual([heights[0], heights[1], heights[6], heights[7]], [0, 0.1, 1, 1]);
  assert.ok(heights.slice(1, 7).every((each, index) => each > heights[index]));
});
