// The page's sound: one AudioContext, and the player of replies. A reply goes from the worklet through a
// MediaStream into one <audio> element, as a call's voice does. Browsers cancel the echo of that, but not
// everywhere the echo of what an AudioContext plays itself.

import { PolicyWatch, fileError } from "./diagnosis.js";
import { ParleyError } from "./errors.js";

/** Bytes before the audio of a binary message (PROTOCOL.md, binary output). */
const headerBytes = 24;
/** Formats of binary messages. */
const formats = { pcm: 0, opus: 3 };
/** Samples per second of decoded Opus, and of the protocol's PCM. */
const opusRate = 48000;
const pcmRate = 24000;
const microsecondsPerPacket = 20_000;
/** Messages that wait for the worklet, at most: 10 s of audio. */
const longestBacklog = 500;
/** How long sound may be paused before the user is told, in ms: until then it is tried to go on. */
const longestPause = 1000;
/** A pause that comes so soon, in ms, after one that was undone is meant. */
const shortestPlay = 3000;

const opusConfig = { codec: "opus", sampleRate: opusRate, numberOfChannels: 1 };

/** Whether this browser decodes Opus. */
export async function decodesOpus() {
  try {
    return (await AudioDecoder.isConfigSupported(opusConfig)).supported;
  } catch {
    return false;
  }
}

/** The parts of a binary message with reply audio; null for other kinds. */
export function parseAudio(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength <= headerBytes || view.getUint8(0) !== 1) return null;
  const format = view.getUint8(1);
  const letters = new Uint8Array(buffer, 8, 16);
  const item = String.fromCharCode(...letters.filter((letter) => letter));
  const rate = format === formats.opus ? opusRate : pcmRate;
  return {
    item, isOpus: format === formats.opus, position: (1000 * view.getUint32(4, true)) / rate,
    payload: new Uint8Array(buffer, headerBytes),
  };
}

/** Little-endian 16-bit samples as floats. */
export function floats(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength & ~1);
  const samples = new Float32Array(view.byteLength >> 1);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
  return samples;
}

/**
 * The AudioContext with its worklet, and the element that plays.
 *
 * Invariant: `isHeld` is true whenever nothing can be heard, and what plays then must wait. Headsets,
 * telephone calls and browsers pause the element or the context; that is undone once, and told where it
 * does not go on.
 */
export class Sound {
  #element = null;
  #destination = null;
  #loading = null;
  #sink = "";
  #workletUrl;
  /** Whether sound was heard before: then it is paused, and else blocked. */
  #hasPlayed = false;
  /** Whether the user was told since the last tap, and whether `onPaused(true)` was the way. */
  #isTold = false;
  #isPaused = false;
  #undoneAt = -Infinity;
  #pause = 0;
  #listening = new AbortController();

  /** Made by `unlock`; null before. */
  context = null;
  /** Whether nothing can be heard. */
  isHeld = true;
  /** `isHeld` has changed. */
  onHeld = () => {};
  /** Called where the browser does not play. */
  onBlocked = () => {};
  /** Called where sound has stopped and does not go on by itself (true), and when it goes on (false). */
  onPaused = () => {};
  /** The chosen loudspeaker cannot be used. Receives a ParleyError. */
  onSpeakerLost = () => {};

  /** @param {string | URL | undefined} workletUrl of worklet.js, where it is not beside this file */
  constructor(workletUrl) {
    this.#workletUrl = workletUrl;
  }

  /**
   * Makes and starts the context and the element. Call it inside the handler of a tap, a click or a key,
   * before anything asynchronous: browsers start sound only there, and iOS forgets the tap at the first
   * await. Later calls start again what the browser has suspended.
   * @throws {ParleyError} where the page or the browser has no live audio
   */
  unlock() {
    if (!this.context) this.#make();
    if (this.context.state === "closed") return;
    this.#isTold = false;
    this.#start();
  }

  /** Resolves with the context when the worklet is loaded. */
  async ready() {
    this.unlock();
    try {
      await this.#loading;
    } catch (error) {
      this.#loading = this.#load();
      throw error;
    }
    return this.context;
  }

  /** Connects a node to the loudspeaker. */
  play(node) {
    node.connect(this.#destination);
  }

  /**
   * Chooses the loudspeaker, where the browser can; "" is the browser's choice.
   * @throws {ParleyError} where it cannot be used: the one before stays
   */
  async useSpeaker(deviceId) {
    const before = this.#sink;
    this.#sink = deviceId;
    try {
      await this.#element?.setSinkId?.(deviceId);
    } catch (cause) {
      if (this.#sink === deviceId) this.#sink = before;
      throw new ParleyError("no_speaker", cause?.message, cause);
    }
  }

  /** Milliseconds between the worklet and the loudspeaker, as far as the browser knows them. */
  get latency() {
    return 1000 * (this.context?.outputLatency || 0);
  }

  /** Ends the context. */
  close() {
    this.#listening.abort();
    clearTimeout(this.#pause);
    this.#element?.pause();
    if (this.context && this.context.state !== "closed") this.context.close();
  }

  #make() {
    if (!globalThis.isSecureContext) throw new ParleyError("insecure_context");
    if (!globalThis.AudioWorkletNode) throw new ParleyError("unsupported_browser");
    this.context = new AudioContext({ latencyHint: "interactive" });
    this.#destination = this.context.createMediaStreamDestination();
    this.#destination.channelCount = 1;
    this.#element = new Audio();
    this.#element.srcObject = this.#destination.stream;
    if (this.#sink) this.#useFirstSpeaker();
    this.#loading = this.#load();
    const { signal } = this.#listening;
    globalThis.navigator?.mediaDevices?.addEventListener?.(
      "devicechange", () => this.#checkSpeaker(), { signal });
    // iOS interrupts the context for a telephone call, and a laptop that sleeps suspends it.
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.unlock();
    }, { signal });
    const review = () => this.#review();
    for (const name of ["pause", "play", "playing", "volumechange"]) {
      this.#element.addEventListener?.(name, review, { signal });
    }
    this.context.addEventListener?.("statechange", review, { signal });
  }

  /** Starts what does not play. */
  #start() {
    const refuse = () => this.#tell();
    if (this.context.state !== "running") this.context.resume().catch(refuse);
    if (this.#element.muted) this.#element.muted = false;
    if (this.#element.volume === 0) this.#element.volume = 1;
    if (this.#element.paused) this.#element.play().catch(refuse);
    clearTimeout(this.#pause);
    // A browser that waits for a tap may not answer at all.
    if (this.#hasPlayed && this.#isSilent) this.#pause = setTimeout(refuse, longestPause);
    this.#review();
  }

  get #isSilent() {
    const { paused, muted, volume } = this.#element;
    return paused || muted || volume === 0 || this.context.state !== "running";
  }

  /** Something of the element or of the context has changed. */
  #review() {
    if (this.context.state === "closed" || this.#isSilent === this.isHeld) return;
    this.isHeld = this.#isSilent;
    this.onHeld(this.isHeld);
    if (!this.isHeld) {
      clearTimeout(this.#pause);
      this.#hasPlayed = true;
      this.#isTold = false;
      if (this.#isPaused) this.onPaused(this.#isPaused = false);
      return;
    }
    const now = performance.now();
    if (now - this.#undoneAt < shortestPlay) return this.#tell();
    this.#undoneAt = now;
    this.#start();
  }

  /** Nothing can be heard, and nothing is tried any more until the next tap. */
  #tell() {
    if (this.#isTold || !this.#isSilent || this.#listening.signal.aborted) return;
    this.#isTold = true;
    if (!this.#hasPlayed) return this.onBlocked();
    this.onPaused(this.#isPaused = true);
  }

  /** The loudspeaker that was chosen before there was sound: the browser's choice takes its place. */
  async #useFirstSpeaker() {
    const chosen = this.#sink;
    this.#sink = "";
    await this.useSpeaker(chosen).catch(this.onSpeakerLost);
  }

  /** A loudspeaker that is gone plays nothing, and no other one takes its place by itself. */
  async #checkSpeaker() {
    const chosen = this.#sink;
    if (!chosen) return;
    const devices = await navigator.mediaDevices.enumerateDevices().catch(() => []);
    const isThere = devices.some(({ kind, deviceId }) => kind === "audiooutput" && deviceId === chosen);
    if (isThere || chosen !== this.#sink) return;
    await this.useSpeaker("").catch(this.onSpeakerLost);
  }

  #load() {
    const loading = this.#loadWorklet();
    loading.catch(() => {});
    return loading;
  }

  async #loadWorklet() {
    const url = this.#address;
    const policy = new PolicyWatch(globalThis.document);
    try {
      await this.context.audioWorklet.addModule(url);
    } catch (cause) {
      throw await fileError(url, policy, cause);
    } finally {
      policy.end();
    }
  }

  /** The address of worklet.js. Bundlers know this form, and some bundles have no address of their own. */
  get #address() {
    try {
      if (this.#workletUrl) return new URL(this.#workletUrl, globalThis.location?.href);
      return new URL("./worklet.js", import.meta.url);
    } catch (cause) {
      throw new ParleyError("file_lost", String(this.#workletUrl ?? "worklet.js"), cause);
    }
  }
}

/** Decodes and plays reply audio, and knows what of it was heard. */
export class Player {
  #sound;
  #node = null;
  #decoder = null;
  /** What the decoder works on, by the number of the packet: item and position. */
  #packets = new Map();
  #count = 0;
  #hasEnded = true;
  /** Messages with audio so far: an end that was overtaken by one is no end. */
  #pushes = 0;
  /** Whether `onEnd` is still to be called. */
  #owesEnd = false;
  #clearing = new Map();
  #clears = 0;
  /** The worklet's last report. */
  #report = {
    heard: null, kept: null, isActive: false, isSounding: false, gaps: 0, target: 0, waiting: 0,
    level: 0,
  };
  /** The end of what came last: it may not have reached the worklet. */
  #received = null;
  #soundingItem = null;
  /** The item of a reply's first audio, until that is heard. */
  #unheardItem = null;
  /** Messages for the worklet while it is being loaded. */
  #backlog = [];

  /** The first sample of an item plays. */
  onStart = () => {};
  /** Everything has been played. */
  onEnd = () => {};
  /** The level, 0 to 1, about 20 times a second while something plays. */
  onLevel = () => {};

  /** @param {Sound} sound */
  constructor(sound) {
    this.#sound = sound;
  }

  /** Whether audio plays, or more of it is to come. */
  get isPlaying() {
    return this.#report.isActive || !this.#hasEnded;
  }

  /** What was heard: item and ms; null: nothing, and nothing is to be. */
  get heard() {
    const { heard } = this.#report;
    if (this.#unheardItem) return { item: this.#unheardItem, ms: 0 };
    return heard && { item: heard.item, ms: Math.max(0, Math.floor(heard.ms - this.#sound.latency)) };
  }

  /** The audio that need not be sent again: item and ms; null: none. */
  get kept() {
    return this.#received;
  }

  /** Gaps heard, and the delay of the jitter buffer in ms. */
  get statistics() {
    const { gaps, target, waiting } = this.#report;
    return { gaps, bufferTargetMs: Math.round(target), bufferedMs: Math.round(waiting) };
  }

  /** Loads the worklet. Call it after `Sound.unlock`. */
  async open() {
    const context = await this.#sound.ready();
    if (this.#node) return;
    this.#node = new AudioWorkletNode(context, "parley-player", {
      numberOfInputs: 0, outputChannelCount: [1],
    });
    this.#node.port.onmessage = ({ data }) => this.#handle(data);
    this.#node.port.postMessage({ hold: this.#sound.isHeld });
    this.#sound.play(this.#node);
    for (const message of this.#backlog.splice(0)) this.#post(message);
  }

  /** Nothing can be heard, so that what plays waits; or it goes on. */
  hold(isHeld) {
    this.#node?.port.postMessage({ hold: isHeld });
  }

  /** Plays a part of a binary message, as `parseAudio` returns it. */
  push({ item, isOpus, position, payload }) {
    const ms = isOpus ? microsecondsPerPacket / 1000 : payload.length / 48;
    this.#received = { item, ms: position + ms };
    this.#hasEnded = false;
    // A reply that goes on has been heard.
    if (!this.#owesEnd && item !== this.#report.heard?.item) this.#unheardItem = item;
    this.#owesEnd = true;
    this.#pushes += 1;
    if (isOpus) this.#decode(item, position, payload);
    else this.#pass(item, position, floats(payload), pcmRate);
  }

  /** No more audio of the reply comes. */
  async end() {
    if (this.#hasEnded) return;
    const pushes = this.#pushes;
    if (this.#packets.size) await this.#decoder?.flush().catch(() => {});
    if (pushes === this.#pushes) this.#post({ end: pushes });
  }

  /** Stops at once and drops what waits. Resolves with what was heard; null: nothing was playing. */
  async clear() {
    const wasPlaying = this.isPlaying;
    this.#dropPackets();
    this.#hasEnded = true;
    this.#backlog = [];
    const unheard = this.#unheardItem && { item: this.#unheardItem, ms: 0 };
    this.#unheardItem = null;
    if (!wasPlaying) return null;
    if (!this.#node) {
      this.#owesEnd = false;
      return unheard;
    }
    this.#clears += 1;
    const answer = new Promise((resolve) => {
      this.#clearing.set(this.#clears, { pushes: this.#pushes, resolve });
    });
    this.#post({ clear: this.#clears });
    await answer;
    // It may have been heard after all, since the last report.
    return unheard && this.#report.heard?.item !== unheard.item ? unheard : this.heard;
  }

  /** Another conversation begins. */
  forget() {
    this.#dropPackets();
    this.#hasEnded = true;
    this.#received = null;
    this.#soundingItem = null;
    this.#unheardItem = null;
    this.#backlog = [];
    this.#node?.port.postMessage({ forget: true });
  }

  /** Stops, and frees the decoder. */
  close() {
    this.clear();
    if (this.#decoder && this.#decoder.state !== "closed") this.#decoder.close();
    this.#decoder = null;
  }

  #handle(report) {
    const wasActive = this.#report.isActive;
    this.#report = report;
    if (report.ended === this.#pushes) this.#hasEnded = true;
    if (report.cleared !== undefined) {
      const { pushes, resolve } = this.#clearing.get(report.cleared);
      this.#clearing.delete(report.cleared);
      if (pushes === this.#pushes) this.#received = report.kept;
      resolve();
    }
    if (report.isSounding && report.heard && report.heard.item !== this.#soundingItem) {
      this.#soundingItem = report.heard.item;
      this.#unheardItem = null;
      this.onStart(report.heard.item);
    }
    if (report.isActive || wasActive) this.onLevel(report.isActive ? report.level : 0);
    if (!this.#owesEnd || this.isPlaying) return;
    this.#owesEnd = false;
    this.#soundingItem = null;
    this.#unheardItem = null;
    this.onEnd();
  }

  #pass(item, position, samples, rate) {
    this.#post({ item, position, samples, rate });
  }

  #post(message) {
    if (this.#node) this.#node.port.postMessage(message, message.samples ? [message.samples.buffer] : []);
    else if (this.#backlog.length < longestBacklog) this.#backlog.push(message);
  }

  #decode(item, position, payload) {
    if (this.#decoder?.state !== "configured") this.#makeDecoder();
    const number = this.#count++;
    this.#packets.set(number, { item, position });
    this.#decoder.decode(new EncodedAudioChunk({
      type: "key", timestamp: number * microsecondsPerPacket, data: payload,
    }));
  }

  #makeDecoder() {
    this.#decoder = new AudioDecoder({
      output: (audio) => this.#takeDecoded(audio),
      // A packet that is not Opus: the next one gets another decoder.
      error: () => { this.#decoder = null; },
    });
    this.#decoder.configure(opusConfig);
  }

  #takeDecoded(audio) {
    const number = Math.round(audio.timestamp / microsecondsPerPacket);
    const packet = this.#packets.get(number);
    for (const each of this.#packets.keys()) {
      if (each <= number) this.#packets.delete(each);
    }
    if (packet) {
      const samples = new Float32Array(audio.numberOfFrames);
      audio.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
      this.#pass(packet.item, packet.position, samples, audio.sampleRate);
    }
    audio.close();
  }

  /** Packets in the decoder are not played any more. */
  #dropPackets() {
    this.#packets.clear();
    if (this.#decoder?.state !== "configured") return;
    this.#decoder.reset();
    this.#decoder.configure(opusConfig);
  }
}
