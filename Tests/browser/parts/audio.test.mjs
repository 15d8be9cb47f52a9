// The microphone and the player of a session, on an audio thread and over devices of the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { begin, catchUp, comeBack, marks, open, settled } from "./session_host.mjs";

const processors = {};
const rate = 48_000;
/** The port of the processor that is being made. */
let port = null;

/** Two ports: what is posted to one comes to the other. */
function channel() {
  const ports = [{ onmessage: null }, { onmessage: null }];
  ports.forEach((each, index) => {
    each.postMessage = (data) => queueMicrotask(() => ports[1 - index].onmessage?.({ data }));
  });
  return ports;
}

Object.assign(globalThis, {
  isSecureContext: true,
  sampleRate: rate,
  document: new EventTarget(),
  registerProcessor: (name, processor) => { processors[name] = processor; },
  AudioWorkletProcessor: class {
    port = port;
  },
  AudioWorkletNode: class {
    static all = [];
    constructor(context, name, options) {
      [this.port, port] = channel();
      this.processor = new processors[name](options);
      AudioWorkletNode.all.push(this);
    }
    connect() {}
  },
  AudioContext: class extends EventTarget {
    static newest = null;
    state = "running";
    constructor() {
      super();
      AudioContext.newest = this;
    }
    async resume() {}
    audioWorklet = { addModule: async () => {} };
    createMediaStreamDestination() { return {}; }
    createMediaStreamSource() { return { connect() {}, disconnect() {} }; }
    close() { this.state = "closed"; }
  },
  Audio: class extends EventTarget {
    static newest = null;
    static isRefused = false;
    paused = true;
    muted = false;
    volume = 1;
    sink = "";
    constructor() {
      super();
      Audio.newest = this;
    }
    async setSinkId(id) {
      if (id === "broken") throw new Error("no such sink");
      this.sink = id;
    }
    async play() {
      if (Audio.isRefused) throw Object.assign(new Error("refused"), { name: "NotAllowedError" });
      this.paused = false;
      this.dispatchEvent(new Event("play"));
    }
    pause() {}
  },
});
const track = { stop() {}, getSettings: () => ({}) };
const stream = { getTracks: () => [track], getAudioTracks: () => [track] };
/** The devices of the test: an id that is not among them is not found. */
const devices = Object.assign(new EventTarget(), {
  all: [],
  async getUserMedia({ audio: { deviceId } }) {
    const isThere = !deviceId || devices.all.some((each) => each.deviceId === deviceId.exact);
    if (!isThere) throw Object.assign(new Error("gone"), { name: "OverconstrainedError" });
    return stream;
  },
  enumerateDevices: async () => devices.all,
});
Object.defineProperty(globalThis, "navigator", { value: { mediaDevices: devices } });
await import("../../../.build/js/package/parley/worklet.js");
const { Player } = await import("../../../.build/js/package/parley/sound.js");

const frame = () => new Float32Array(480);

/** The newest node with this processor. */
function node(name) {
  return AudioWorkletNode.all.findLast(({ processor }) => processor instanceof processors[name]);
}

/** Lets the player's thread play so many blocks. */
async function play({ processor }, blocks) {
  for (let block = 0; block < blocks; block++) processor.process([], [[new Float32Array(128)]]);
  await settled();
}

async function player() {
  const made = new Player({ ready: async () => null, play() {}, latency: 0 });
  made.log = [];
  made.onStart = (item) => made.log.push(item);
  made.onEnd = () => made.log.push("end");
  await made.open();
  return { player: made, node: node("parley-player"), log: made.log };
}

/** Half a second of an item. */
const audio = (item) => ({ item, isOpus: false, position: 0, payload: new Uint8Array(24_000).fill(9) });

/** A session that talks, and what its microphone hears. */
async function talk(options) {
  const made = await open(options);
  await made.session.talk();
  const { port: heard } = node("parley-capture");
  const hear = (frames) => {
    for (let index = 0; index < frames; index++) {
      heard.onmessage({ data: { samples: frame(), level: 0 } });
    }
  };
  return { ...made, hear };
}

test("a conversation that is forgotten while it sounds makes no sound any more", async () => {
  const { player: own, node: thread, log } = await player();
  own.push(audio("a"));
  await settled();
  await play(thread, 20);
  assert.deepEqual(log, ["a"]);
  own.forget();
  await settled();
  assert.deepEqual([own.isPlaying, own.heard, log], [false, null, ["a", "end"]]);
  own.push(audio("b"));
  await settled();
  await play(thread, 20);
  assert.deepEqual(log, ["a", "end", "b"]);
});

test("of audio that waits for its first sound nothing was heard", async () => {
  const { player: own, node: thread } = await player();
  own.push(audio("a"));
  assert.deepEqual(own.heard, { item: "a", ms: 0 });
  const cleared = own.clear();
  await settled();
  assert.deepEqual([await cleared, own.heard], [{ item: "a", ms: 0 }, null]);
  own.push(audio("b"));
  await settled();
  await play(thread, 20);
  assert.equal(own.heard.item, "b");
  assert.ok(own.heard.ms > 0);
});

test("a reply that goes on after it was held has been heard", async () => {
  const { player: own, node: thread } = await player();
  own.push(audio("a"));
  await settled();
  await play(thread, 20);
  const cleared = own.clear();
  await settled();
  const heard = await cleared;
  assert.ok(heard.item === "a" && heard.ms > 0);
  own.push({ ...audio("a"), position: heard.ms });
  assert.deepEqual(own.heard, heard);
});

test("what was cleared or forgotten does not sound", async () => {
  for (const message of [{ clear: 1 }, { forget: true }]) {
    const { player: own, node: thread } = await player();
    own.push(audio("a"));
    await settled();
    await play(thread, 20);
    const reports = [];
    thread.port.onmessage = ({ data }) => reports.push(data.isSounding);
    thread.port.postMessage(message);
    await settled();
    await play(thread, 1);
    assert.deepEqual([reports[0], reports.length], [false, 1]);
  }
});

test("a report of sound that belongs to no item starts nothing", async () => {
  const { node: thread, log } = await player();
  thread.port.onmessage({ data: { heard: null, kept: null, isActive: true, isSounding: true } });
  assert.deepEqual(log, []);
});

test("the audio thread lets go of a microphone that is closed", async () => {
  const { session } = await talk();
  const { processor } = node("parley-capture");
  const block = [[new Float32Array(128)]];
  // Without input, too: the device may be slow.
  assert.deepEqual([processor.process(block), processor.process([[]])], [true, true]);
  session.hush();
  await settled();
  assert.deepEqual([processor.process(block), processor.process([[]])], [false, false]);
});

test("the end of a session frees the decoder", async () => {
  const decoders = [];
  Object.assign(globalThis, {
    EncodedAudioChunk: class {},
    AudioDecoder: class {
      state = "unconfigured";
      constructor() { decoders.push(this); }
      configure() { this.state = "configured"; }
      reset() { this.state = "unconfigured"; }
      decode() {}
      close() { this.state = "closed"; }
    },
  });
  const { session, socket } = await open();
  const message = new Uint8Array(30);
  message.set([1, 3]);
  message.set([97], 8);
  socket.onmessage({ data: message.buffer });
  assert.deepEqual(decoders.map(({ state }) => state), ["configured"]);
  session.close();
  assert.deepEqual(decoders.map(({ state }) => state), ["closed"]);
});

test("the silence that ends a turn is sent whole", async () => {
  const turnDetection = { type: "server_vad", silence_duration_ms: 2000 };
  const { session, socket } = await talk({ turnDetection });
  socket.tell({ type: "input_audio_buffer.speech_started", item_id: "i" });
  session.hush();
  assert.equal(socket.audio.length, 2300 / 20);
  assert.ok(socket.audio.every((samples) => samples.length === 960));
});

test("speech that the server notices after the microphone was closed ends, too", async () => {
  const { session, socket } = await talk();
  session.hush();
  assert.equal(socket.audio.length, 0);
  socket.tell({ type: "input_audio_buffer.speech_started", item_id: "i" });
  assert.equal(socket.audio.length, 800 / 20);
});

test("speech ends where its microphone is gone", async (context) => {
  const { session, socket, log } = await talk();
  socket.tell({ type: "input_audio_buffer.speech_started", item_id: "i" });
  context.mock.method(devices, "getUserMedia", async () => {
    throw Object.assign(new Error("none"), { name: "NotFoundError" });
  });
  await track.onended();
  assert.deepEqual([socket.audio.length, log], [800 / 20, ["device_lost"]]);
  assert.equal(session.isTalking, false);
});

test("a microphone that is gone is replaced by the browser's choice", async () => {
  const { session } = await open();
  devices.all = [{ kind: "audioinput", deviceId: "headset" }];
  await session.useMicrophone("headset");
  devices.all = [];
  await session.talk();
  assert.equal(session.activity, "listening");
});

test("another microphone while the first is being opened is listened to", async () => {
  const { session } = await open();
  devices.all = [{ kind: "audioinput", deviceId: "headset" }];
  await Promise.all([session.talk(), session.useMicrophone("headset")]);
  devices.all = [];
  assert.deepEqual([session.isTalking, session.activity], [true, "listening"]);
});

test("a loudspeaker that cannot be used is an error, and one that is gone is replaced", async () => {
  const { session, log } = await open();
  await session.useSpeaker("broken");
  session.unlock();
  await settled();
  assert.deepEqual([log, Audio.newest.sink], [["no_speaker"], ""]);
  devices.all = [{ kind: "audiooutput", deviceId: "headset" }];
  await session.useSpeaker("headset");
  await assert.rejects(session.useSpeaker("broken"), { code: "no_speaker" });
  assert.equal(Audio.newest.sink, "headset");
  devices.dispatchEvent(new Event("devicechange"));
  await settled();
  assert.equal(Audio.newest.sink, "headset");
  devices.all = [];
  devices.dispatchEvent(new Event("devicechange"));
  await settled();
  assert.deepEqual([Audio.newest.sink, log], ["", ["no_speaker"]]);
});

test("a microphone that is opened before the session sends what the session was told", async () => {
  const packets = [];
  globalThis.AudioEncoder = class {
    static isConfigSupported = async () => ({ supported: true });
    state = "configured";
    configure() {}
    encode() { packets.push("opus"); }
    close() {}
  };
  const { session, socket, opening } = await begin({}, (early) => early.talk());
  delete globalThis.AudioEncoder;
  const { session: asked } = socket.last("session.update");
  socket.tell({ type: "session.updated", session: asked });
  await opening;
  node("parley-capture").port.onmessage({ data: { samples: frame(), level: 0 } });
  assert.equal(asked.audio.input.format.type, "audio/pcm");
  assert.deepEqual([packets, socket.audio.length, session.isTalking], [[], 1, true]);
});

test("samples that are dropped are not part of the server's time", async (context) => {
  context.mock.method(performance, "now", () => 1000);
  const { session, socket, hear } = await talk();
  const times = [];
  session.on("hops", ({ wordsMs }) => times.push(wordsMs));
  socket.bufferedAmount = 48_000;
  hear(10);
  assert.equal(socket.audio.length, 0);
  socket.bufferedAmount = 0;
  hear(40);
  socket.tell({ type: "input_audio_buffer.speech_stopped", item_id: "i", audio_end_ms: 500 });
  socket.tell({
    type: "conversation.item.input_audio_transcription.completed", item_id: "i", transcript: "yes",
  });
  // 800 ms were sent, 300 of them behind the speech.
  assert.deepEqual([socket.audio.length, times], [40, [300]]);
});

test("a turn that is refused is over, and is not sent again", async () => {
  const { session, socket } = await open({ turnDetection: null });
  await session.press();
  for (let index = 0; index < 10; index++) {
    node("parley-capture").port.onmessage({ data: { samples: frame(), level: 0 } });
  }
  await session.release();
  assert.deepEqual(socket.types("session.update"), [
    "input_audio_buffer.clear", "input_audio_buffer.commit", "response.create",
  ]);
  socket.refuse("input_audio_buffer.commit");
  assert.equal(session.activity, "thinking");
  socket.refuse("response.create");
  assert.equal(session.activity, "idle");
  const next = await comeBack(socket);
  catchUp(next);
  assert.deepEqual(next.types(...marks), []);
});

// ---- Sound that cannot be heard ----

/** A session whose reply plays, what is heard of it, and what is told. */
async function speaking(context) {
  const timers = [];
  context.mock.method(globalThis, "setTimeout", (action, ms) => timers.push({ action, ms }));
  Audio.isRefused = false;
  const made = await open();
  const told = [];
  made.session.on("output", (output) => told.push(output));
  made.session.unlock();
  await settled();
  const thread = node("parley-player");
  const message = new Uint8Array(24 + 48_000).fill(9);
  message.set([1, 0, 0, 0, 0, 0, 0, 0, 97, ...new Uint8Array(15)]);
  made.socket.onmessage({ data: message.buffer });
  await settled();
  await play(thread, 100);
  const played = async () => {
    await play(thread, 100);
    return thread.processor.buffer.heard?.ms;
  };
  /** Lets the time pass after which a pause is told. */
  const wait = () => timers.filter(({ ms }) => ms === 1000).forEach(({ action }) => action());
  return { ...made, told, played, wait };
}

test("a pause of the system is undone, and nothing of the reply is lost", async (context) => {
  const { told, log, played } = await speaking(context);
  const before = await played();
  assert.ok(before > 0);
  Audio.newest.paused = true;
  Audio.newest.dispatchEvent(new Event("pause"));
  assert.equal(Audio.newest.paused, false);
  assert.ok(await played() > before);
  Audio.newest.muted = true;
  assert.deepEqual([told, log], [[], []]);
});

test("a reply that is stopped is cut where it was heard, and to nothing before its first audio",
  async (context) => {
    const { session, socket, played } = await speaking(context);
    const begin = (response, item) => {
      socket.tell({ type: "response.created", response: { id: response, conversation_id: "c" } });
      socket.tell({
        type: "response.output_item.added", response_id: response, item: { id: item, type: "message" } });
    };
    const acknowledged = () => socket.sent.filter(({ type }) => type === "output_audio_buffer.played");
    begin("r", "a");
    const heard = Math.floor(await played());
    socket.tell({ type: "input_audio_buffer.speech_started" });
    await settled();
    // While the server weighs the speech, the user stops the reply.
    session.interrupt();
    await settled();
    // By the last report, and then by what was heard when it stopped.
    const ends = acknowledged().map(({ item_id, audio_end_ms }) => item_id === "a" && audio_end_ms);
    assert.equal(ends.at(-1), heard);
    assert.ok(ends.every((end) => end > heard - 60 && end <= heard));
    socket.tell({ type: "response.done", response: { id: "r", status: "cancelled" } });
    begin("s", "b");
    session.interrupt();
    const [told, cancel] = socket.sent.slice(-2);
    assert.deepEqual([told.item_id, told.audio_end_ms, cancel.type], ["b", 0, "response.cancel"]);
  });

for (const [name, hush] of [
  ["a pause", () => { Audio.newest.paused = true; Audio.newest.dispatchEvent(new Event("pause")); }],
  ["a suspended context", () => {
    AudioContext.newest.state = "suspended";
    AudioContext.newest.dispatchEvent(new Event("statechange"));
  }],
  ["an interrupted context", () => {
    AudioContext.newest.state = "interrupted";
    AudioContext.newest.dispatchEvent(new Event("statechange"));
  }],
]) {
  test(`${name} that cannot be undone holds the reply and is told, and a tap goes on`,
    async (context) => {
      const { session, told, log, played, wait } = await speaking(context);
      Audio.isRefused = true;
      hush();
      await settled();
      const held = await played();
      assert.equal(await played(), held);
      wait();
      assert.deepEqual([told, log, session.isOutputPaused], [["paused"], ["output_paused"], true]);
      Audio.isRefused = false;
      AudioContext.newest.state = "running";
      session.unlock();
      await settled();
      assert.deepEqual([told, session.isOutputPaused], [["paused", "playing"], false]);
      assert.ok(await played() > held);
    });
}

test("what is muted again at once is meant", async (context) => {
  const { told, played } = await speaking(context);
  const mute = () => {
    Audio.newest.muted = true;
    Audio.newest.dispatchEvent(new Event("volumechange"));
  };
  mute();
  assert.equal(Audio.newest.muted, false);
  Audio.newest.dispatchEvent(new Event("volumechange"));
  mute();
  await settled();
  const held = await played();
  assert.deepEqual([told, await played()], [["paused"], held]);
});

test("a reply that the browser does not play before a tap waits for it", async (context) => {
  Audio.isRefused = true;
  const { session, log } = await open();
  session.unlock();
  await settled();
  assert.deepEqual(log, ["playback_blocked"]);
  const thread = node("parley-player");
  assert.equal(thread.processor.isHeld, true);
  Audio.isRefused = false;
  session.unlock();
  await settled();
  assert.equal(thread.processor.isHeld, false);
});
