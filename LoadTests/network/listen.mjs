// What a listener hears: plays the audio that came to a caller with the jitter buffer of the page, block by
// block as an AudioContext at 48 kHz does, and measures it. Reads from standard input the JSON of
// {bounds, calls: [{arrivals, ends}]}, and writes one measurement for each call.
//
// A gap is silence in the middle of a reply. It ends with the next audio of the same reply; where that lies
// further on than the audio before the gap, what lies between was dropped on the way.

import { readFileSync } from "node:fs";
import { JitterBuffer } from "../../.build/js/package/parley/worklet.js";

const rate = 48000;
const block = 128;
/** Shorter silence, in ms, is inaudible between two fades. */
const shortestGap = 5;

/** What of a reply was played when. */
class Reply {
  gaps = [];
  heardMs = 0;
  skippedMs = 0;
  /** How late a part was heard, from the arrival of the first byte on: [position, time] of each block. */
  played = [];
  end = null;

  constructor(item) {
    this.item = item;
  }

  /** Audio up to `position` was played at `time`, in ms. */
  add(from, position, time, ms) {
    if (this.end !== null) {
      const silence = time - this.end.time;
      if (silence > shortestGap) this.gaps.push(silence);
      this.skippedMs += Math.max(0, from - this.end.position);
    }
    this.heardMs += ms;
    this.end = { position, time: time + ms };
    this.played.push([position, time + ms]);
  }
}

function listen({ arrivals, ends }, bounds) {
  const buffer = new JitterBuffer(rate, bounds);
  const events = [
    ...arrivals.map((audio) => ({ ...audio, kind: "audio" })),
    ...ends.map((end) => ({ ...end, kind: "end" })),
  ].sort((a, b) => a.at - b.at);
  const replies = new Map();
  const output = new Float32Array(block);
  if (!events.length) return { replies: [], target: buffer.target };
  const start = events[0].at;
  const last = events.at(-1).at + 120;
  let next = 0;
  for (let blocks = 0; ; blocks++) {
    const ms = (1000 * blocks * block) / rate;
    const time = start + ms / 1000;
    while (next < events.length && events[next].at <= time) {
      const event = events[next++];
      if (event.kind === "end") buffer.end();
      else buffer.push(event.item, event.position, new Float32Array((rate * event.ms) / 1000));
    }
    const filled = buffer.read(output);
    if (filled) {
      const { item, ms: position } = buffer.heard;
      if (!replies.has(item)) replies.set(item, new Reply(item));
      const length = (1000 * filled) / rate;
      replies.get(item).add(position - length, position, 1000 * time, length);
    }
    if ((next === events.length && !buffer.isActive) || time > last) break;
  }
  return {
    target: buffer.target,
    replies: [...replies.values()].map(({ item, gaps, heardMs, skippedMs, played }) => ({
      item, gaps, heardMs, skippedMs, first: played[0][1] / 1000,
      // Every tenth of a second is enough.
      played: played.filter((_, index) => index % 37 === 0)
        .map(([position, time]) => [position, time / 1000]),
    })),
  };
}

const { bounds, calls } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(calls.map((call) => listen(call, bounds))));
