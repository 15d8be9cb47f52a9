// The jitter buffer, on a clock of blocks: each read is 10 ms.

import assert from "node:assert/strict";
import { test } from "node:test";
import { JitterBuffer, jitterBounds } from "../../../.build/js/package/parley/worklet.js";

const rate = 48000;
const block = rate / 100;

/** Milliseconds of audio whose samples are 1, 2, 3 … thousandths from `first` on: each is known again. */
function audio(ms, first = 1) {
  return Float32Array.from({ length: (rate * ms) / 1000 }, (_, index) => (first + index) / 1000);
}

/** Reads milliseconds; returns the samples. */
function read(buffer, ms) {
  const all = new Float32Array((rate * ms) / 1000);
  for (let start = 0; start < all.length; start += block) {
    buffer.read(all.subarray(start, start + block));
  }
  return all;
}

const isSilence = (samples) => samples.every((sample) => sample === 0);
/** Samples without the ramps at both ends. */
const inner = (samples) => samples.subarray(64, samples.length - 64);

test("plays nothing before the target delay has gathered", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(20));
  assert.ok(isSilence(read(buffer, 20)));
  assert.equal(buffer.heard, null);
  buffer.push("a", 20, audio(40, 961));
  const played = read(buffer, 60);
  assert.deepEqual(inner(played), inner(audio(60)));
  assert.deepEqual(buffer.heard, { item: "a", ms: 60 });
});

test("plays a short reply whose end is known at once", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(20));
  buffer.end();
  assert.deepEqual(inner(read(buffer, 20)), inner(audio(20)));
});

test("plays a short clause of a slow agent after the target delay", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(20));
  assert.ok(isSilence(read(buffer, 60)));
  assert.deepEqual(inner(read(buffer, 20)), inner(audio(20)));
});

test("plays every sample once, across reads that fit no packet", () => {
  const buffer = new JitterBuffer(rate);
  for (let ms = 0; ms < 200; ms += 20) buffer.push("a", ms, audio(20, 1 + ms * 48));
  buffer.end();
  const output = new Float32Array(9600);
  for (let start = 0; start < output.length; start += 128) {
    buffer.read(output.subarray(start, start + 128));
  }
  assert.deepEqual(inner(output), inner(audio(200)));
});

test("a late packet is silence, raises the target, and begins softly", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(60));
  read(buffer, 60);
  assert.ok(isSilence(read(buffer, 30)));
  buffer.push("a", 60, audio(90, 2881));
  assert.equal(buffer.gaps, 1);
  assert.equal(buffer.target, 90);
  const played = read(buffer, 90);
  assert.ok(Math.abs(played[0]) < 2.881 / 50);
  assert.deepEqual(inner(played), inner(audio(90, 2881)));
});

test("a pause of the agent is no gap", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(60));
  read(buffer, 60 + 500);
  buffer.push("a", 60, audio(60));
  assert.deepEqual([buffer.gaps, buffer.target], [0, 60]);
});

test("the time between two replies is no gap", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(60));
  buffer.end();
  read(buffer, 160);
  buffer.push("b", 0, audio(60));
  assert.deepEqual([buffer.gaps, buffer.target], [0, 60]);
});

test("the target stays within its bounds, and falls while nothing is late", () => {
  const buffer = new JitterBuffer(rate);
  let ms = 0;
  const play = (length) => {
    buffer.push("a", ms, new Float32Array((rate * length) / 1000));
    ms += length;
  };
  for (let turn = 0; turn < 4; turn++) {
    play(800);
    read(buffer, 1100);
  }
  assert.equal(buffer.target, 400);
  for (let turn = 0; turn < 50; turn++) {
    play(5000);
    read(buffer, 5000);
  }
  assert.equal(buffer.target, 40);
});

test("the bounds can be others", () => {
  const buffer = new JitterBuffer(rate, { ...jitterBounds, first: 20, most: 90 });
  buffer.push("a", 0, audio(20));
  assert.deepEqual(inner(read(buffer, 20)), inner(audio(20)));
  read(buffer, 200);
  buffer.push("a", 20, audio(20));
  assert.equal(buffer.target, 90);
});

test("clear drops what waits at once, and tells what was heard", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(500));
  read(buffer, 100);
  assert.deepEqual(buffer.clear(), { item: "a", ms: 100 });
  assert.ok(isSilence(read(buffer, 50)));
  assert.deepEqual(buffer.kept, { item: "a", ms: 100 });
  assert.equal(buffer.isActive, false);
});

test("a reply goes on from where it was cleared", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(500));
  read(buffer, 100);
  buffer.clear();
  buffer.push("a", 100, audio(100, 4801));
  buffer.end();
  assert.deepEqual(inner(read(buffer, 100)), inner(audio(100, 4801)));
  assert.deepEqual(buffer.heard, { item: "a", ms: 200 });
  assert.equal(buffer.gaps, 0);
});

test("audio that is sent again replaces what waits from its position on", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(100));
  buffer.push("a", 100, audio(100, 4801));
  read(buffer, 50);
  buffer.push("a", 150, new Float32Array(2400).fill(0.5));
  assert.equal(buffer.waiting, 150);
  const played = read(buffer, 150);
  assert.deepEqual(played.subarray(0, 4800), audio(150).subarray(2400));
  assert.ok(played.subarray(4800, -64).every((sample) => sample === 0.5));
});

test("audio that was lost on the way leaves what waits in place", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(100));
  buffer.push("a", 300, audio(100, 14401));
  assert.equal(buffer.waiting, 200);
  read(buffer, 200);
  assert.deepEqual(buffer.heard, { item: "a", ms: 400 });
});

test("what a conversation before has played counts for nothing after forget", () => {
  const buffer = new JitterBuffer(rate);
  buffer.push("a", 0, audio(100));
  read(buffer, 100);
  buffer.forget();
  assert.deepEqual([buffer.heard, buffer.kept], [null, null]);
});
