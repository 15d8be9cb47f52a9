// The resampler: tones keep their frequency and level, and what would alias is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Framer, Resampler, level } from "../../../.build/js/package/parley/worklet.js";

function tone(rate, frequency, seconds = 0.5) {
  const step = (2 * Math.PI * frequency) / rate;
  return Float32Array.from({ length: rate * seconds }, (_, index) => 0.5 * Math.sin(step * index));
}

function resample(samples, from, to, piece = samples.length) {
  const resampler = new Resampler(from, to);
  const output = [];
  for (let start = 0; start < samples.length; start += piece) {
    output.push(...resampler.process(samples.subarray(start, start + piece)));
  }
  output.push(...resampler.flush());
  return Float32Array.from(output);
}

const rates = [
  [24000, 48000], [24000, 44100], [48000, 44100], [48000, 24000], [44100, 24000], [44100, 48000],
  [16000, 48000], [96000, 48000],
];

for (const [from, to] of rates) {
  test(`a tone keeps its place from ${from} to ${to} Hz`, () => {
    const output = resample(tone(from, 1000), from, to);
    assert.ok(Math.abs(output.length - to / 2) <= 1, `${output.length} samples`);
    const expected = tone(to, 1000);
    // Without the ends, where the filter sees the silence around the tone.
    for (let index = 200; index < expected.length - 200; index++) {
      assert.ok(Math.abs(output[index] - expected[index]) < 0.005, `sample ${index}`);
    }
  });
}

test("the pieces do not show", () => {
  const samples = tone(44100, 440);
  assert.deepEqual(resample(samples, 44100, 48000, 128), resample(samples, 44100, 48000));
});

test("a tone above the new rate's half is removed", () => {
  const output = resample(tone(48000, 15000), 48000, 24000);
  assert.ok(level(output.subarray(500), output.length - 1000) < 0.005);
});

test("frames have one length and a level", () => {
  const framer = new Framer(480);
  const frames = [];
  for (let block = 0; block < 30; block++) {
    frames.push(...framer.add(new Float32Array(128).fill(0.5)));
  }
  assert.equal(frames.length, 8);
  assert.ok(frames.every((frame) => frame.samples.length === 480 && frame.level === 0.5));
});
