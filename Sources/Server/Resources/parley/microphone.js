// The microphone: opened with the browser's echo cancellation, noise suppression and gain control, cut
// into frames of 20 ms on the audio thread, and encoded as Opus packets or 16-bit samples.

import { ParleyError, microphoneError } from "./errors.js";

/** Samples per second: of Opus, and of the protocol's PCM. */
const opusRate = 48000;
const pcmRate = 24000;
/** Bytes before an Opus packet: its number, big-endian. */
const numberBytes = 2;

const encoderConfig = {
  codec: "opus", sampleRate: opusRate, numberOfChannels: 1, bitrate: 28_000,
  opus: { application: "voip", frameDuration: 20_000, complexity: 5 },
};

/** Whether this browser encodes Opus in packets of 20 ms. */
export async function encodesOpus() {
  try {
    return (await AudioEncoder.isConfigSupported(encoderConfig)).supported;
  } catch {
    return false;
  }
}

/** Samples from -1 to 1 as little-endian 16-bit integers. */
export function integers(samples) {
  const bytes = new Uint8Array(2 * samples.length);
  const view = new DataView(bytes.buffer);
  samples.forEach((sample, index) => {
    view.setInt16(2 * index, Math.round(Math.max(-1, Math.min(1, sample)) * 32767), true);
  });
  return bytes;
}

/** Turns frames into messages: numbered Opus packets, or samples. */
export class FrameEncoder {
  #encoder = null;
  #number = 0;
  #frames = 0;

  /** Receives each message, a Uint8Array. */
  onMessage = () => {};
  /** The encoder has failed: the frames that follow need another one. */
  onFailure = () => {};

  /** @param {boolean} isOpus */
  constructor(isOpus) {
    this.isOpus = isOpus;
    if (!isOpus) return;
    this.#encoder = new AudioEncoder({
      output: (chunk) => this.#takePacket(chunk),
      error: (cause) => this.onFailure(cause),
    });
    this.#encoder.configure(encoderConfig);
  }

  /** Samples per second of the frames that it takes. */
  get rate() {
    return this.isOpus ? opusRate : pcmRate;
  }

  /** Encodes a frame of 20 ms. */
  encode(samples) {
    if (!this.isOpus) return this.onMessage(integers(samples));
    if (this.#encoder.state !== "configured") return;
    const audio = new AudioData({
      format: "f32", sampleRate: opusRate, numberOfFrames: samples.length, numberOfChannels: 1,
      timestamp: this.#frames * 20_000, data: samples,
    });
    this.#frames += 1;
    this.#encoder.encode(audio);
    audio.close();
  }

  /** Resolves when every frame so far is a message. */
  async flush() {
    if (this.#encoder?.state === "configured") await this.#encoder.flush().catch(() => {});
  }

  /** Frees the encoder. */
  close() {
    if (this.#encoder && this.#encoder.state !== "closed") this.#encoder.close();
  }

  #takePacket(chunk) {
    const message = new Uint8Array(numberBytes + chunk.byteLength);
    new DataView(message.buffer).setUint16(0, this.#number);
    chunk.copyTo(message.subarray(numberBytes));
    this.#number = (this.#number + 1) & 0xffff;
    this.onMessage(message);
  }
}

/** The device and its frames. */
export class Microphone {
  #sound;
  #opening = null;
  #stream = null;
  #source = null;
  #node = null;
  #deviceId = "";
  #isMuted = false;
  #rate = 0;
  /** Counts openings: one that was closed before it was done is dropped. */
  #openings = 0;
  #listening = new AbortController();

  /** Receives each frame of 20 ms while the microphone is open. */
  onFrame = () => {};
  /** The level of each frame, 0 to 1. */
  onLevel = () => {};
  /** The microphone has ended by itself. Receives a ParleyError. */
  onLost = () => {};
  /** The list of devices has changed, or another device is in use. */
  onDevices = () => {};

  /** @param {import("./sound.js").Sound} sound */
  constructor(sound) {
    this.#sound = sound;
    globalThis.navigator?.mediaDevices?.addEventListener?.(
      "devicechange", () => this.onDevices(), { signal: this.#listening.signal });
  }

  /** Whether it records, muted or not. */
  get isOpen() {
    return this.#stream !== null;
  }

  /** Whether it records, or is being opened. */
  get isWanted() {
    return this.#opening !== null;
  }

  /** Whether it sends silence. */
  get isMuted() {
    return this.#isMuted;
  }

  set isMuted(isMuted) {
    this.#isMuted = isMuted;
    for (const track of this.#stream?.getAudioTracks() ?? []) track.enabled = !isMuted;
  }

  /** The id and the name of the device in use; null: none. */
  get device() {
    const track = this.#stream?.getAudioTracks()[0];
    return track ? { id: track.getSettings().deviceId ?? "", label: track.label } : null;
  }

  /**
   * Opens the device, and asks the user for permission the first time.
   * @param {number} rate samples per second of the frames
   * @throws {ParleyError} why it cannot be opened
   */
  open(rate) {
    if (this.#rate && this.#rate !== rate) this.close();
    this.#rate = rate;
    this.#opening ??= this.#open(++this.#openings);
    return this.#opening;
  }

  /** Uses another device; "" is the browser's choice. */
  async use(deviceId) {
    this.#deviceId = deviceId;
    if (!this.#opening) return;
    const rate = this.#rate;
    this.close();
    await this.open(rate);
  }

  /** Microphones and loudspeakers. Their names are empty before the user has given permission. */
  async devices() {
    const all = await navigator.mediaDevices?.enumerateDevices?.() ?? [];
    const list = (kind) => all.filter((device) => device.kind === kind && device.deviceId)
      .map(({ deviceId, label }) => ({ id: deviceId, label }));
    return { microphones: list("audioinput"), speakers: list("audiooutput") };
  }

  /** Frees the device. */
  close() {
    this.#openings += 1;
    for (const track of this.#stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    this.#source?.disconnect();
    if (this.#node) {
      this.#node.port.onmessage = null;
      this.#node.port.postMessage("end");
    }
    this.#opening = this.#stream = this.#source = this.#node = null;
    this.onLevel(0);
  }

  /** Frees the device for good. */
  end() {
    this.close();
    this.#listening.abort();
  }

  async #open(opening) {
    let stream = null;
    try {
      // Inside the tap: the context first, then the question for permission.
      this.#sound.unlock();
      if (!navigator.mediaDevices?.getUserMedia) throw new ParleyError("insecure_context");
      stream = await this.#ask();
      const context = await this.#sound.ready();
      if (opening === this.#openings) return this.#start(context, stream);
      for (const track of stream.getTracks()) track.stop();
    } catch (error) {
      for (const track of stream?.getTracks() ?? []) track.stop();
      if (opening === this.#openings) this.close();
      throw microphoneError(error);
    }
  }

  /** Asks for the chosen device. One that is gone is replaced by the browser's choice. */
  async #ask() {
    const chosen = this.#deviceId;
    try {
      return await navigator.mediaDevices.getUserMedia({ audio: this.#constraints });
    } catch (cause) {
      if (!chosen || !["NotFoundError", "OverconstrainedError"].includes(cause?.name)) throw cause;
      if (this.#deviceId === chosen) this.#deviceId = "";
      return navigator.mediaDevices.getUserMedia({ audio: this.#constraints });
    }
  }

  #start(context, stream) {
    this.#source = context.createMediaStreamSource(stream);
    this.#node = new AudioWorkletNode(context, "parley-capture", {
      numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit",
      processorOptions: { rate: this.#rate },
    });
    this.#stream = stream;
    this.isMuted = this.#isMuted;
    stream.getAudioTracks()[0].onended = () => this.#handleLoss();
    this.#node.port.onmessage = ({ data }) => {
      this.onLevel(this.#isMuted ? 0 : data.level);
      this.onFrame(data.samples);
    };
    this.#source.connect(this.#node);
    this.onDevices();
  }

  get #constraints() {
    return {
      channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true,
      ...(this.#deviceId ? { deviceId: { exact: this.#deviceId } } : {}),
    };
  }

  /** The device was unplugged, or the permission withdrawn: the browser's choice takes its place. */
  async #handleLoss() {
    const rate = this.#rate;
    this.close();
    this.#deviceId = "";
    try {
      await this.open(rate);
    } catch (cause) {
      const isBlocked = cause.code === "permission_denied";
      this.onLost(isBlocked ? cause : new ParleyError("device_lost", cause.detail, cause));
    }
  }
}
