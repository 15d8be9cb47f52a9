// Signs of life, with the times of the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Liveness } from "../../../.build/js/package/parley/liveness.js";

/** Checks every 500 ms until something is to be done. Returns when, and what. */
function next(life, from, { waiting = () => 0, isAwaited = false } = {}) {
  for (let now = from; now < from + 120_000; now += 500) {
    const verdict = life.check(now, waiting(now), isAwaited);
    if (verdict) return [now, verdict];
  }
  return null;
}

test("in silence the server is asked, sooner while something is awaited", () => {
  assert.deepEqual(next(new Liveness(0), 0), [10_000, "ask"]);
  assert.deepEqual(next(new Liveness(0), 0, { isAwaited: true }), [3000, "ask"]);
  const sent = new Liveness(0);
  sent.handleSent(10);
  assert.deepEqual(next(sent, 0), [3000, "ask"]);
  sent.handleMessage(3100);
  assert.deepEqual(next(sent, 3500), [13_500, "ask"]);
});

test("a question without an answer shows a dead connection, and any message a living one", () => {
  const life = new Liveness(0);
  const [asked] = next(life, 0, { isAwaited: true });
  life.handleSent(20);
  assert.deepEqual(next(life, asked + 500, { isAwaited: true }), [7500, "dead"]);
  const other = new Liveness(0);
  next(other, 0);
  other.handleSent(20);
  other.handleMessage(13_900);
  assert.deepEqual(next(other, 14_000), [24_000, "ask"]);
});

test("the time for an answer begins when the question has left a slow connection", () => {
  const life = new Liveness(0);
  life.handleSent(2000);
  // 100 bytes leave in each step, and of the question the last at 10 s.
  const waiting = (now) => Math.max(0, 2020 - now / 5);
  const [asked, verdict] = next(life, 0, { waiting });
  assert.equal(verdict, "ask");
  life.handleSent(20);
  const [dead] = next(life, asked + 500, { waiting });
  assert.ok(dead >= 14_000 && dead < 15_000, `${dead}`);
});

test("bytes of which none leaves show a dead connection", () => {
  const life = new Liveness(0);
  life.handleSent(5000);
  const waiting = () => 5020;
  const [asked] = next(life, 0, { waiting });
  life.handleSent(20);
  assert.deepEqual(next(life, asked + 500, { waiting }), [7500, "dead"]);
});

test("a page that was suspended asks again before it gives the connection up", () => {
  const life = new Liveness(0);
  next(life, 0);
  life.handleSent(20);
  life.check(10_500, 0, false);
  assert.equal(life.check(600_000, 0, false), "ask");
  life.handleSent(20);
  assert.deepEqual(next(life, 600_500), [604_500, "dead"]);
  // Timers of a hidden page fire once in a minute.
  const hidden = new Liveness(0);
  const verdicts = [1, 2, 3].map((minute) => hidden.check(minute * 60_000, 0, false));
  assert.deepEqual(verdicts, ["ask", "ask", "dead"]);
});
