// The code of the audio thread: the processors "parley-capture" and "parley-player", and the parts that
// they are made of. The parts touch no browser interface, so that Node can test them.
//
// The file is one module without imports: not every browser lets a worklet import.
// Times are milliseconds, positions are milliseconds in an item's audio, samples are mono floats.

/** Samples over which sound fades where it begins or ends next to silence: 1.3 ms at 48 kHz. */
const fadeSamples = 64;

/** The bounds of the jitter buffer's delay, all in ms. */
export const jitterBounds = {
  /** The delay's bounds, and the delay that it begins with. */
  least: 40, first: 60, most: 400,
  /** A gap that is longer than this is a pause of the agent or a lost network, and no jitter. */
  longestJitter: 400,
  /** The delay falls by `decayStep` for each `decayAfter` of playing without a gap. */
  decayAfter: 5000, decayStep: 10,
};

/** Turns samples at one rate into samples at another: a windowed sinc, in pieces of any length. */
export class Resampler {
  #up;
  #down;
  #half;
  /** One row of weights for each position between two input samples. */
  #rows = [];
  #history;
  /** Where the next output sample lies: whole input samples, and a fraction in steps of 1/up. */
  #index = 0;
  #phase = 0;

  /**
   * @param {number} from samples per second of the input
   * @param {number} to samples per second of the output
   */
  constructor(from, to) {
    let [divisor, rest] = [from, to];
    while (rest) [divisor, rest] = [rest, divisor % rest];
    this.#up = to / divisor;
    this.#down = from / divisor;
    // Below the lower of both Nyquist frequencies, with room for the filter's slope.
    const cutoff = Math.min(1, to / from) * 0.94;
    this.#half = Math.ceil(16 * Math.max(1, from / to));
    for (let phase = 0; phase < this.#up; phase++) {
      this.#rows.push(weights(this.#half, phase / this.#up, cutoff));
    }
    this.reset();
  }

  /** Forgets the samples before: another piece of audio begins. */
  reset() {
    this.#history = new Float32Array(this.#half - 1);
    this.#index = 0;
    this.#phase = 0;
  }

  /** The output samples that these input samples complete. */
  process(input) {
    const width = 2 * this.#half;
    const samples = new Float32Array(this.#history.length + input.length);
    samples.set(this.#history);
    samples.set(input, this.#history.length);
    const output = [];
    while (this.#index + width <= samples.length) {
      const row = this.#rows[this.#phase];
      let sum = 0;
      for (let k = 0; k < width; k++) sum += row[k] * samples[this.#index + k];
      output.push(sum);
      this.#phase += this.#down;
      this.#index += Math.floor(this.#phase / this.#up);
      this.#phase %= this.#up;
    }
    const used = Math.min(this.#index, samples.length);
    this.#history = samples.slice(used);
    this.#index -= used;
    return Float32Array.from(output);
  }

  /** The output that still waits for input, as if silence followed. */
  flush() {
    return this.process(new Float32Array(this.#half));
  }
}

/** The weights of the samples around a position: `fraction` of a sample behind the middle. */
function weights(half, fraction, cutoff) {
  const row = new Float32Array(2 * half);
  let sum = 0;
  for (let k = 0; k < row.length; k++) {
    const distance = k - (half - 1) - fraction;
    const x = Math.PI * cutoff * distance;
    const window = 0.5 * (1 + Math.cos((Math.PI * distance) / half));
    row[k] = (x === 0 ? 1 : Math.sin(x) / x) * (Math.abs(distance) < half ? window : 0);
    sum += row[k];
  }
  return row.map((weight) => weight / sum);
}

/**
 * The audio that waits to be played. It begins to play when the target delay has gathered, plays silence
 * where audio is late, and adapts the delay: a gap raises it by the gap's length, and playing without a
 * gap lowers it.
 *
 * Invariant: what `read` returns is the pushed audio in order, each sample once, except for what a
 * `clear` or a push with an earlier position has dropped.
 */
export class JitterBuffer {
  #rate;
  #bounds;
  /** Segments in order: item, position of the first sample, samples, and how many were read. */
  #queue = [];
  /** Samples in the queue that were not read. */
  #waiting = 0;
  #isPlaying = false;
  #hasEnded = false;
  /** Samples read as silence since the queue ran dry or, before playing, since it was filled. */
  #silence = 0;
  #playedSinceGap = 0;
  #fadesIn = true;
  #heard = null;
  #kept = null;

  /** The delay that is gathered before playing, in ms. */
  target;
  /** How often audio came too late. */
  gaps = 0;

  /**
   * @param {number} rate samples per second of what is pushed and read
   * @param {typeof jitterBounds} bounds of the delay
   */
  constructor(rate, bounds = jitterBounds) {
    this.#rate = rate;
    this.#bounds = bounds;
    this.target = bounds.first;
  }

  /** The item that was read last, and up to where; null before the first. */
  get heard() {
    return this.#heard && { ...this.#heard };
  }

  /** The item that was pushed last, and up to where it was or will be read; null: none. */
  get kept() {
    return this.#kept && { ...this.#kept };
  }

  /** Milliseconds that wait. */
  get waiting() {
    return (1000 * this.#waiting) / this.#rate;
  }

  /** Whether audio waits or is being played. */
  get isActive() {
    return this.#waiting > 0;
  }

  /**
   * Adds audio. A position before the end of what is there replaces the audio from that position on.
   * @param {string} item whose audio it is
   * @param {number} position of its first sample, in ms
   */
  push(item, position, samples) {
    if (samples.length === 0) return;
    if (this.#kept?.item === item && position < this.#kept.ms - 1) this.#dropFrom(item, position);
    if (!this.#waiting) this.#noticeGap();
    this.#queue.push({ item, position, samples, used: 0 });
    this.#waiting += samples.length;
    this.#kept = { item, ms: position + this.#milliseconds(samples.length) };
    this.#hasEnded = false;
  }

  /** No more audio follows for now: what waits is played without waiting for more. */
  end() {
    this.#hasEnded = true;
  }

  /** Drops all waiting audio at once. Returns what was heard, as `heard`. */
  clear() {
    this.#queue = [];
    this.#waiting = 0;
    this.#stop();
    if (this.#heard) this.#kept = { ...this.#heard };
    else this.#kept = null;
    return this.heard;
  }

  /** Another conversation begins: nothing was heard or kept. */
  forget() {
    this.clear();
    this.#heard = null;
    this.#kept = null;
  }

  /** Fills `output` with the next samples, or silence. Returns how many of them are audio. */
  read(output) {
    output.fill(0);
    if (!this.#isPlaying && !this.#mayStart(output.length)) return 0;
    let filled = 0;
    while (filled < output.length && this.#queue.length) filled += this.#take(output, filled);
    if (this.#fadesIn && filled) fade(output, 0, Math.min(filled, fadeSamples), true);
    this.#fadesIn &&= filled === 0;
    this.#addPlayed(filled);
    if (!this.#waiting) this.#runDry(output, filled);
    return filled;
  }

  /** Moves samples of the first segment. Returns how many. */
  #take(output, start) {
    const segment = this.#queue[0];
    const count = Math.min(output.length - start, segment.samples.length - segment.used);
    output.set(segment.samples.subarray(segment.used, segment.used + count), start);
    segment.used += count;
    this.#waiting -= count;
    const ms = segment.position + this.#milliseconds(segment.used);
    this.#heard = { item: segment.item, ms };
    if (segment.used === segment.samples.length) this.#queue.shift();
    return count;
  }

  #mayStart(length) {
    if (!this.#waiting) {
      this.#silence += length;
      return false;
    }
    const waited = this.#milliseconds(this.#silence);
    if (!this.#hasEnded && this.waiting < this.target && waited < this.target) {
      this.#silence += length;
      return false;
    }
    this.#isPlaying = true;
    this.#silence = 0;
    return true;
  }

  /** The queue is empty: silence follows, until more audio has gathered. */
  #runDry(output, filled) {
    fade(output, Math.max(0, filled - fadeSamples), filled, false);
    this.#isPlaying = false;
    this.#fadesIn = true;
    this.#silence = output.length - filled;
  }

  /** Audio comes into an empty queue: whether it is late, and by how much. */
  #noticeGap() {
    const gap = this.#milliseconds(this.#silence);
    this.#silence = 0;
    if (this.#hasEnded || !this.#heard || gap === 0) return;
    if (gap > this.#bounds.longestJitter) return;
    this.gaps += 1;
    this.#playedSinceGap = 0;
    this.target = Math.min(this.#bounds.most, this.target + gap);
  }

  #addPlayed(samples) {
    this.#playedSinceGap += samples;
    if (this.#milliseconds(this.#playedSinceGap) < this.#bounds.decayAfter) return;
    this.#playedSinceGap = 0;
    this.target = Math.max(this.#bounds.least, this.target - this.#bounds.decayStep);
  }

  #stop() {
    this.#isPlaying = false;
    this.#hasEnded = true;
    this.#silence = 0;
    this.#fadesIn = true;
  }

  #dropFrom(item, position) {
    while (this.#queue.length) {
      const last = this.#queue.at(-1);
      if (last.item !== item) break;
      const keeps = Math.round(((position - last.position) * this.#rate) / 1000);
      const end = Math.max(last.used, Math.min(last.samples.length, keeps));
      this.#waiting -= last.samples.length - end;
      last.samples = last.samples.subarray(0, end);
      if (end > last.used) break;
      this.#queue.pop();
    }
    if (!this.#waiting) this.#stop();
  }

  #milliseconds(samples) {
    return (1000 * samples) / this.#rate;
  }
}

/** Multiplies the samples from `start` to `end` with a ramp. */
function fade(samples, start, end, rises) {
  const count = end - start;
  for (let i = 0; i < count; i++) {
    const gain = (i + 0.5) / count;
    samples[start + i] *= rises ? gain : 1 - gain;
  }
}

/** Collects blocks into frames of one length, with the level of each. */
export class Framer {
  #size;
  #frame;
  #filled = 0;

  /** @param {number} size samples of a frame */
  constructor(size) {
    this.#size = size;
    this.#frame = new Float32Array(size);
  }

  /** The frames that are complete with these samples: samples, and level from 0 to 1. */
  *add(samples) {
    for (let start = 0; start < samples.length;) {
      const count = Math.min(this.#size - this.#filled, samples.length - start);
      this.#frame.set(samples.subarray(start, start + count), this.#filled);
      this.#filled += count;
      start += count;
      if (this.#filled < this.#size) break;
      const frame = this.#frame;
      this.#frame = new Float32Array(this.#size);
      this.#filled = 0;
      yield { samples: frame, level: level(frame, this.#size) };
    }
  }
}

/** The root mean square of the first `count` samples. */
export function level(samples, count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += samples[i] * samples[i];
  return count ? Math.sqrt(sum / count) : 0;
}

if (typeof registerProcessor === "function") {
  /** Posts the microphone as frames of 20 ms at the rate `processorOptions.rate`. */
  class CaptureProcessor extends AudioWorkletProcessor {
    constructor({ processorOptions: { rate } }) {
      super();
      this.resampler = rate === sampleRate ? null : new Resampler(sampleRate, rate);
      this.framer = new Framer(rate / 50);
      this.hasEnded = false;
      // Any message ends it: a processor that wants to go on is never freed.
      this.port.onmessage = () => { this.hasEnded = true; };
    }

    process([[channel]]) {
      if (!channel || this.hasEnded) return !this.hasEnded;
      const samples = this.resampler ? this.resampler.process(channel) : channel;
      for (const frame of this.framer.add(samples)) {
        this.port.postMessage(frame, [frame.samples.buffer]);
      }
      return true;
    }
  }

  /** Plays what is posted to it. Posts what was heard, about 20 times a second and at each change. */
  class PlayerProcessor extends AudioWorkletProcessor {
    constructor() {
      super();
      this.buffer = new JitterBuffer(sampleRate);
      this.resampler = null;
      this.rate = 0;
      this.isSounding = false;
      /** Whether the output cannot be heard: nothing is read until it can. */
      this.isHeld = false;
      this.sinceReport = 0;
      this.peak = 0;
      this.port.onmessage = ({ data }) => this.handle(data);
    }

    handle(message) {
      if (message.samples) this.push(message);
      if (message.end) this.finish(message.end);
      if (message.hold !== undefined) this.isHeld = message.hold;
      if (message.clear !== undefined) {
        this.resampler?.reset();
        this.isSounding = false;
        this.report({ cleared: message.clear, heard: this.buffer.clear() });
      }
      if (message.forget) {
        this.resampler?.reset();
        this.buffer.forget();
        this.isSounding = false;
        this.report({});
      }
    }

    push({ item, position, samples, rate }) {
      if (rate !== this.rate) {
        this.resampler = rate === sampleRate ? null : new Resampler(rate, sampleRate);
        this.rate = rate;
      }
      const { kept } = this.buffer;
      // The filter's memory is of the audio before only where this continues it.
      const continues = kept?.item === item && Math.abs(kept.ms - position) < 2;
      if (!continues) this.resampler?.reset();
      // The filter holds back a part of a millisecond: what continues begins where the last ended.
      const start = continues ? kept.ms : position;
      this.buffer.push(item, start, this.resampler?.process(samples) ?? samples);
    }

    finish(number) {
      const { kept } = this.buffer;
      if (this.resampler && kept && this.buffer.isActive) {
        this.buffer.push(kept.item, kept.ms, this.resampler.flush());
        this.resampler.reset();
      }
      this.buffer.end();
      this.report({ ended: number });
    }

    process(_, [[channel, ...others]]) {
      const count = this.isHeld ? 0 : this.buffer.read(channel);
      for (const other of others) other.set(channel);
      this.peak = Math.max(this.peak, level(channel, channel.length));
      this.sinceReport += channel.length;
      const hasChanged = this.isSounding !== count > 0;
      this.isSounding = count > 0;
      if (hasChanged || this.sinceReport >= sampleRate / 20) this.report({});
      return true;
    }

    report(more) {
      const { heard, kept, waiting, gaps, target, isActive } = this.buffer;
      this.port.postMessage({
        heard, kept, waiting, gaps, target, isActive, isSounding: this.isSounding,
        level: this.peak, ...more,
      });
      this.sinceReport = 0;
      this.peak = 0;
    }
  }

  registerProcessor("parley-capture", CaptureProcessor);
  registerProcessor("parley-player", PlayerProcessor);
}
