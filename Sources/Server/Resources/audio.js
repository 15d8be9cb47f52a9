// Recording and playing, both as 16-bit samples at 24 kHz, the protocol's audio/pcm. app.js decides
// when to send audio and when to stop playing.

const sampleRate = 24000;
let context = null;

/** The page's audio context, made at the first use: browsers only start it after a user action. */
export function audioContext() {
  context ??= new AudioContext({ sampleRate });
  if (context.state === "suspended") context.resume();
  return context;
}

/** Plays pieces of audio without gaps, and keeps the position that has been played. */
export class Player {
  #sources = new Set();
  #end = 0;
  /** The pieces being played or waiting: item, position in it in seconds, start, duration. */
  #pieces = [];
  /** The item that came last, and how much of it was played or will be. */
  #kept = null;

  /** Called when everything has been played. */
  onEnd = () => {};

  /**
   * @param {string} base64 little-endian 16-bit samples
   * @param {string} item whose audio it is
   * @param {number} [startMs] its position in the item, where the server names it: waiting pieces are
   *   dropped, unless it follows them
   */
  play(base64, item, startMs) {
    const follows = this.#kept?.item === item ? this.#kept.ms : 0;
    if (startMs !== undefined && Math.abs(startMs - follows) >= 1) this.stop();
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const count = bytes.length >> 1;
    if (count === 0) return;
    const sound = audioContext();
    const buffer = sound.createBuffer(1, count, sampleRate);
    const channel = buffer.getChannelData(0);
    for (let i = 0; i < count; i++) channel[i] = view.getInt16(2 * i, true) / 32768;
    const source = sound.createBufferSource();
    source.buffer = buffer;
    source.connect(sound.destination);
    // Start a reply with a delay of 60 ms, so that a late packet makes no gap.
    const start = Math.max(this.#end, sound.currentTime + (this.#sources.size ? 0 : 0.06));
    source.start(start);
    this.#end = start + buffer.duration;
    this.#sources.add(source);
    const position = (startMs ?? follows) / 1000;
    this.#kept = { item, ms: (position + buffer.duration) * 1000 };
    this.#pieces.push({ item, position, start, duration: buffer.duration });
    source.onended = () => {
      this.#sources.delete(source);
      if (!this.isPlaying) this.onEnd();
    };
  }

  /** Whether a piece is playing or waiting. */
  get isPlaying() {
    return this.#sources.size > 0;
  }

  /** The item being played, and how many milliseconds of it; null before the first. */
  get heard() {
    if (!context) return null;
    const now = context.currentTime - (context.outputLatency || 0);
    while (this.#pieces.length > 1 && this.#pieces[1].start <= now) this.#pieces.shift();
    const piece = this.#pieces[0];
    if (!piece) return null;
    const seconds = Math.min(Math.max(now - piece.start, 0), piece.duration);
    return { item: piece.item, ms: Math.floor((piece.position + seconds) * 1000) };
  }

  /** The audio that need not be sent again: the item that came last, and how many milliseconds of it
   *  were played or will be. Null before the first. */
  get kept() {
    return this.#kept && { item: this.#kept.item, ms: Math.floor(this.#kept.ms + 0.001) };
  }

  /** Another conversation begins. */
  forget() {
    this.#kept = null;
  }

  /** Stops playing at once, drops the waiting pieces, and returns the position played. */
  stop() {
    const { heard } = this;
    if (heard) this.#kept = heard;
    for (const source of this.#sources) {
      source.onended = null;
      source.stop();
    }
    this.#sources.clear();
    this.#pieces = [];
    this.#end = 0;
    return heard;
  }
}

/** The microphone, opened when it is first needed. */
export class Microphone {
  #opening = null;
  #stream = null;

  /** Receives 20 ms of samples as an ArrayBuffer while the microphone is on; null: it is off. */
  onSamples = null;

  /** Opens the microphone; resolves once samples arrive. */
  open() {
    this.#opening ??= this.#start().catch((error) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #start() {
    if (!navigator.mediaDevices) throw new Error("this page has no access to a microphone");
    const sound = audioContext();
    await sound.audioWorklet.addModule("/capture.js");
    this.#stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
    });
    const node = new AudioWorkletNode(sound, "capture", { numberOfOutputs: 0 });
    node.port.onmessage = ({ data }) => this.onSamples?.(data);
    sound.createMediaStreamSource(this.#stream).connect(node);
  }
}

/** Bytes as base64. */
export function base64(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer)));
}
