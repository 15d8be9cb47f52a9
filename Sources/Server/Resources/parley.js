// The client of a Parley server in a web page: one session, with microphone, loudspeaker, transcript and
// functions. It has no dependencies. parley.d.ts beside it has the types, docs/clients.md examples.
//
// The parts are modules in parley/. Of the connection: connection.js (comes back after a loss),
// liveness.js (sees a loss), diagnosis.js (why it does not open). Of sound: microphone.js, sound.js
// (plays), worklet.js (the audio thread). The rest: conversation.js (transcript, times), errors.js.

import { Connection } from "./parley/connection.js";
import { Transcript, TurnClock } from "./parley/conversation.js";
import { ParleyError } from "./parley/errors.js";
import { FrameEncoder, Microphone, encodesOpus } from "./parley/microphone.js";
import { Player, Sound, decodesOpus, parseAudio } from "./parley/sound.js";

export { ParleyError, Transcript };

/** The protocol takes no turn that is shorter, in ms. */
const shortestTurn = 100;
const frameMilliseconds = 20;
/** How often the server learns what was heard, in ms. */
const acknowledgeEvery = 250;
/** Above so many waiting bytes frames are dropped, rather than heard late: 5 s of Opus or 1 s of PCM. */
const mostWaitingBytes = { opus: 20_000, pcm: 48_000 };
/** The ids of events whose refusal means nothing: what was played, and the mark after a return. */
const quietPrefix = "parley-js-";
/** How the ids of this module's session.update begin. */
const updatePrefix = "parley-update-";
/** In place of a request's id: the reply to a spoken turn, which the server begins by itself. */
const spokenTurn = "";

/**
 * Opens a session. Resolves when it can be used, and rejects with a ParleyError.
 * @param {import("./parley").ConnectOptions} [options]
 */
export async function connect(options = {}) {
  const session = new ParleySession(options);
  await session.open();
  return session;
}

/** What this browser can do: live audio, and Opus in either direction. */
export async function capabilities() {
  const hasAudio = Boolean(globalThis.isSecureContext && globalThis.AudioWorkletNode);
  const [encodes, decodes] = await Promise.all([encodesOpus(), decodesOpus()]);
  return { hasAudio, encodesOpus: hasAudio && encodes, decodesOpus: hasAudio && decodes };
}

/**
 * The path of the WebSocket at the server that this module comes from. The server's own file has it beside
 * it, also below a path of a proxy; a bundle can lie anywhere.
 */
const path = /\/parley\.js(\?|$)/.test(import.meta.url) ? "v1/realtime" : "/v1/realtime";

/** The address of the WebSocket: by default at the server that this module comes from. */
function address(url, model) {
  let parsed;
  try {
    parsed = new URL(url ?? path, import.meta.url);
  } catch (cause) {
    throw new ParleyError("invalid_address", String(url), cause);
  }
  parsed.protocol = parsed.protocol.replace("http", "ws");
  if (!["ws:", "wss:"].includes(parsed.protocol)) throw new ParleyError("invalid_address", url);
  if (parsed.pathname === "/") parsed.pathname = "/v1/realtime";
  if (model) parsed.searchParams.set("model", model);
  return parsed.href;
}

/** An id for an item or an event: the protocol allows 32 characters, binary audio 16. */
function makeID() {
  const letters = crypto.getRandomValues(new Uint8Array(10));
  return `i_${Array.from(letters, (value) => (value % 36).toString(36)).join("")}`;
}

/** Objects merged in depth; other values of `more` win. */
function merge(base, more) {
  const result = { ...base };
  for (const [name, value] of Object.entries(more ?? {})) {
    const isObject = value && typeof value === "object" && !Array.isArray(value);
    const into = result[name];
    result[name] = isObject && into && typeof into === "object" ? merge(into, value) : value;
  }
  return result;
}

/** One session. `connect` makes it. */
export class ParleySession {
  #options;
  #connection = null;
  #sound;
  #player;
  #microphone;
  #encoder = null;
  #listeners = new Map();
  #clock = new TurnClock();
  /** The settings as the server has accepted them, and the changes since, in order. */
  #accepted = {
    speaks: true, turnDetection: { type: "server_vad" }, tools: {}, toolServers: [], session: {},
  };
  #changes = [];
  /** The accepted settings with all changes. */
  #settings = this.#accepted;
  /** Each session.update that may still be refused, in order: its id, how many of the changes it has, and
   *  whether one of them was refused since (`isTainted`). */
  #updates = [];
  #updateCount = 0;
  #formats = { input: "pcm", output: "pcm" };
  /** The format that the server has confirmed for input; null: none yet. */
  #confirmedInput = null;

  /** How `open` is settled; null: it was not called, or has resolved. */
  #opening = null;
  /** Whether the server has confirmed settings of this session, and not of one before a loss only. */
  #hasSettings = false;

  #link = "connecting";
  #activity = "idle";
  #userSpeaks = false;
  #isThinking = false;
  #isHolding = false;
  /** Frames of the turn that is held. */
  #heldFrames = 0;
  /** Audio sent in this session, in ms: the server's timeline. */
  #sentMs = 0;
  /** Whether what is encoded is sent however much waits. */
  #dropsNothing = false;
  #activeResponse = null;
  /** Responses that the user has stopped: audio of them that still arrives is not played. */
  #stopped = new Set();
  /** The response of each item, while it is in progress. */
  #responseOf = new Map();

  /** What the server may have missed: created items by id, a commit, and a request for a response. */
  #unsure = { items: new Map(), commit: null, response: null };
  /** The items of these that were sent: the server may have them. */
  #sentItems = new Set();
  /** Whether the user spoke when the connection was lost. */
  #spokeAtLoss = false;
  #isOutputPaused = false;
  /** Whether that request was sent. */
  #isRequestSent = false;
  /** Replies that the user has stopped before they began: the ids of their requests, or `spokenTurn`. */
  #unwanted = [];
  #mark = null;
  #marks = 0;
  /** Calls of functions by response: how many are at work, and whether a reply to them is wanted. */
  #calls = new Map();
  #owesResponse = false;
  #ticker = 0;
  #inputLevel = 0;
  #outputLevel = 0;

  /** The conversation so far. */
  transcript = new Transcript();
  /** The session object as the server has confirmed it. */
  session = null;

  /** @param {import("./parley").ConnectOptions} options */
  constructor(options = {}) {
    this.#options = options;
    this.#sound = new Sound(options.workletUrl);
    this.#player = new Player(this.#sound);
    this.#microphone = new Microphone(this.#sound);
    const { session, speaks, turnDetection, tools, toolServers } = options;
    const given = { session, speaks, turnDetection, tools, toolServers };
    for (const name of Object.keys(given)) if (given[name] === undefined) delete given[name];
    if (turnDetection) given.turnDetection = detection(turnDetection);
    this.#change(given);
    this.#wire();
  }

  // ---- Connection ----

  /** Connects, once. `connect` calls it. */
  async open() {
    if (this.#opening || this.#link !== "connecting") throw new ParleyError("session_ended");
    const confirmed = new Promise((resolve, reject) => { this.#opening = { resolve, reject }; });
    try {
      await Promise.all([confirmed, this.#begin()]);
    } catch (error) {
      this.#connection?.close();
      this.#handleEnd(error);
      throw error;
    }
  }

  async #begin() {
    const { url, model, token = "" } = this.#options;
    this.#connection = new Connection(address(url, model), token);
    this.#connection.onEvent = (event) => this.#handle(event);
    this.#connection.onAudio = (buffer) => this.#handleAudio(buffer);
    this.#connection.onLost = () => this.#handleLoss();
    this.#connection.onReturn = (what, session) => this.#handleReturn(what, session);
    this.#connection.onWait = (milliseconds) => this.#emit("waiting", { milliseconds });
    this.#connection.onEnd = (error) => this.#handleEnd(error);
    this.#connection.played = () => this.#player.kept;
    this.#connection.awaits = () => this.#activity !== "idle" || this.#unsure.items.size > 0;
    await this.#chooseFormats();
    await this.#connection.open();
    this.#configure();
  }

  /** Ends the session, and frees microphone and loudspeaker. */
  close() {
    if (this.#connection) this.#connection.close();
    else this.#handleEnd(null);
  }

  /** Makes the next attempt to come back at once, while the connection is lost. */
  retry() {
    if (this.#link === "lost") this.#connection.hurry();
  }

  /** Sends an event of the protocol. Returns false where there is no connection. */
  send(event) {
    // The reply to this event is wanted, whatever the user has stopped before.
    if (event.type === "response.create") this.#forgetSpokenTurn();
    return this.#send(event);
  }

  #send(event) {
    return this.#connection?.send(event) ?? false;
  }

  /** Sends what the server must not miss. Returns false where `#sendUnsure` will send it. */
  #submit(event) {
    return this.#link === "open" && this.#mark === null && this.#send(event);
  }

  /** @throws {ParleyError} where the session has ended */
  #requireNotEnded() {
    if (this.#link === "closed") throw new ParleyError("session_ended");
  }

  /** "connecting", "open", "lost" (coming back), "closed". */
  get link() {
    return this.#link;
  }

  /** "idle", "listening" (the microphone is on), "hearing" (the user speaks), "thinking", "speaking". */
  get activity() {
    return this.#activity;
  }

  /** Whether the reply waits because the system or the browser has paused its sound. */
  get isOutputPaused() {
    return this.#isOutputPaused;
  }

  /** Audio formats in use, gaps heard, and the delay of the jitter buffer. */
  get statistics() {
    return { input: this.#formats.input, output: this.#formats.output, ...this.#player.statistics };
  }

  /**
   * Calls `listener` for each event with this name. Returns a function that ends it.
   * @param {string} name see parley.d.ts
   */
  on(name, listener) {
    if (!this.#listeners.has(name)) this.#listeners.set(name, new Set());
    this.#listeners.get(name).add(listener);
    return () => this.#listeners.get(name).delete(listener);
  }

  #emit(name, value) {
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        listener(value);
      } catch (error) {
        // The page reports it as an uncaught error of its own, and the session goes on.
        queueMicrotask(() => { throw error; });
      }
    }
  }

  #fail(error) {
    // An error that the session's end causes is not reported.
    if (this.#link !== "closed") this.#emit("error", error);
  }

  /** Connects the parts with each other. */
  #wire() {
    this.#sound.onBlocked = () => this.#fail(new ParleyError("playback_blocked"));
    this.#sound.onHeld = (isHeld) => this.#player.hold(isHeld);
    this.#sound.onPaused = (isPaused) => {
      this.#isOutputPaused = isPaused;
      this.#emit("output", isPaused ? "paused" : "playing");
      if (isPaused) this.#fail(new ParleyError("output_paused"));
    };
    this.#sound.onSpeakerLost = (error) => this.#fail(error);
    this.#player.onStart = () => {
      this.#isThinking = false;
      this.#reach("sound");
      this.#updateActivity();
    };
    this.#player.onEnd = () => {
      this.#acknowledge(this.#player.heard);
      this.#updateActivity();
    };
    this.#player.onLevel = (level) => {
      this.#outputLevel = level;
      this.#emitLevel();
    };
    this.#microphone.onFrame = (samples) => this.#handleFrame(samples);
    this.#microphone.onLevel = (level) => {
      this.#inputLevel = level;
      this.#emitLevel();
    };
    this.#microphone.onDevices = () => this.#emit("devices", this.#microphone.device);
    this.#microphone.onLost = (error) => {
      this.#sendSilence();
      this.#fail(error);
      this.#updateActivity();
    };
  }

  #emitLevel() {
    this.#emit("level", { input: this.#inputLevel, output: this.#outputLevel });
  }

  // ---- The session's settings ----

  /**
   * Changes settings of the session: fields of the protocol's session object. Where the server refuses
   * them, they are what they were.
   * @param {object} session merged into those that were set before
   */
  update(session) {
    this.#change({ session });
    this.#configure();
  }

  /** Whether replies are spoken; otherwise they are text. */
  get speaks() {
    return this.#settings.speaks;
  }

  set speaks(speaks) {
    this.#change({ speaks });
    this.#configure();
  }

  /** How turns end: the protocol's object, its type alone, or null for push to talk. */
  get turnDetection() {
    return this.#settings.turnDetection;
  }

  set turnDetection(value) {
    this.#change({ turnDetection: detection(value) });
    this.#configure();
  }

  /** Offers functions to the agent: an object by name. It replaces those that were offered. */
  set tools(tools) {
    this.#change({ tools });
    this.#configure();
  }

  /** Offers tool servers to the agent, which the server reaches: the protocol's tools of type mcp. */
  get toolServers() {
    return this.#settings.toolServers;
  }

  set toolServers(toolServers) {
    this.#change({ toolServers });
    this.#configure();
  }

  #change(change) {
    this.#changes.push(change);
    this.#settings = changed(this.#settings, change);
  }

  /** The server has accepted the first changes. */
  #accept(count) {
    this.#accepted = this.#changes.splice(0, count).reduce(changed, this.#accepted);
    for (const update of this.#updates) update.changes -= count;
  }

  async #chooseFormats() {
    const { hasAudio, encodesOpus: encodes, decodesOpus: decodes } = await capabilities();
    const wanted = this.#options.audio ?? "auto";
    // A microphone that was opened before this sends samples.
    this.#formats.input = wanted !== "pcm" && encodes && !this.#encoder ? "opus" : "pcm";
    this.#formats.output = wanted !== "pcm" && decodes ? "opus" : "pcm";
    if (!hasAudio) this.#change({ speaks: false });
  }

  #configure() {
    const format = { opus: { type: "audio/opus" }, pcm: { type: "audio/pcm", rate: 24000 } };
    const input = { ...format[this.#formats.input] };
    if (input.type === "audio/opus") input.sequence = true;
    const { speaks, turnDetection, toolServers, session: given } = this.#settings;
    const tools = Object.entries(this.#settings.tools);
    const functions = tools.map(([name, { description, parameters }]) => ({
      type: "function", name, description, parameters: parameters ?? { type: "object" },
    }));
    const session = {
      type: "realtime",
      output_modalities: [speaks ? "audio" : "text"],
      audio: {
        input: {
          format: input, transcription: { model: "default" }, turn_detection: turnDetection,
        },
        output: { format: format[this.#formats.output], transport: "binary" },
      },
      tools: [...functions, ...toolServers],
    };
    this.#updateCount += 1;
    const id = `${updatePrefix}${this.#updateCount}`;
    const event = { type: "session.update", event_id: id, session: merge(session, given) };
    const update = { id, changes: this.#changes.length, isTainted: false };
    this.#updates.push(update);
    if (!this.#send(event)) this.#updates.pop();
  }

  // ---- What the user does ----

  /**
   * Makes sound possible. Call it inside the handler of a tap, a click or a key, before anything
   * asynchronous. `talk`, `press` and `say` call it themselves.
   */
  unlock() {
    if (this.#link === "closed") return new ParleyError("session_ended");
    try {
      this.#sound.unlock();
    } catch (error) {
      // A page without live audio shows the replies as text.
      if (this.speaks) this.speaks = false;
      return error;
    }
    this.#player.open().catch((error) => this.#fail(error));
    return null;
  }

  /**
   * Opens the microphone: the user may speak at any time. Call it inside a tap.
   * @throws {ParleyError} why the microphone cannot be opened, or that the session has ended
   */
  async talk() {
    this.#requireNotEnded();
    this.unlock();
    await this.#openMicrophone();
    this.#updateActivity();
  }

  /** Closes the microphone. Speech that has begun ends as a turn. */
  hush() {
    this.#sendSilence();
    this.#microphone.close();
    this.#updateActivity();
  }

  /** Whether the microphone is open. */
  get isTalking() {
    return this.#microphone.isOpen;
  }

  /** Whether silence is sent instead of what the microphone hears. */
  get isMuted() {
    return this.#microphone.isMuted;
  }

  set isMuted(isMuted) {
    this.#microphone.isMuted = isMuted;
    this.#updateActivity();
  }

  /**
   * Push to talk, with `turnDetection` null: the button is down. Interrupts the reply.
   * @throws {ParleyError} why the microphone cannot be opened, or that the session has ended
   */
  async press() {
    this.#requireNotEnded();
    if (this.#isHolding) return;
    this.#isHolding = true;
    this.#heldFrames = 0;
    this.unlock();
    this.#stopReply();
    this.#send({ type: "input_audio_buffer.clear" });
    this.#updateActivity();
    try {
      await this.#openMicrophone();
    } catch (error) {
      this.#isHolding = false;
      this.#updateActivity();
      throw error;
    }
  }

  /** The button is up: what was said is a turn, if it was long enough. */
  async release() {
    if (!this.#isHolding) return;
    this.#isHolding = false;
    const wasLongEnough = this.#heldFrames * frameMilliseconds >= shortestTurn;
    this.#updateActivity();
    if (!wasLongEnough) return this.#fail(new ParleyError("too_short"));
    this.#clock.begin(performance.now());
    await this.#encoder?.flush();
    this.#unsure.commit = { type: "input_audio_buffer.commit", event_id: makeID() };
    this.#submit(this.#unsure.commit);
    this.#askForResponse();
  }

  /**
   * Sends a typed message, at once or when there is a connection. Interrupts the reply.
   * @throws {ParleyError} where the session has ended
   */
  say(text) {
    this.#requireNotEnded();
    this.unlock();
    this.#stopReply();
    const id = makeID();
    this.#emit("entry", this.transcript.addTyped(id, text));
    this.#clock.begin(performance.now(), { hasWords: false });
    this.#create({
      id, type: "message", role: "user", content: [{ type: "input_text", text }],
    });
    this.#askForResponse();
  }

  /** Stops the reply, also one that has not begun. */
  interrupt() {
    this.#stopReply();
    // Functions that are at work end, but their outputs are not answered.
    for (const calls of this.#calls.values()) calls.isWanted = false;
    this.#updateActivity();
  }

  #stopReply() {
    const isWaiting = this.#isThinking && this.#activeResponse === null && !this.#awaitsReply;
    // The server cuts the reply where it knows it was heard: that comes before the cancellation.
    this.#tick();
    this.#acknowledge(this.#unheardReply);
    this.#stopPlaying();
    if (this.#isReplying) {
      this.#stopped.add(this.#activeResponse);
      this.#cancel(this.#activeResponse);
    }
    if (this.#unsure.response && this.#isRequestSent) {
      this.#unwanted.push(this.#unsure.response.event_id);
      this.#send({ type: "response.cancel" });
    }
    if (isWaiting) this.#unwanted.push(spokenTurn);
    this.#unsure.response = null;
    this.#owesResponse = false;
    this.#isThinking = false;
    this.#updateActivity();
  }

  #cancel(response) {
    this.#send({ type: "response.cancel", response_id: response });
  }

  /** The next reply that begins is not the one to a spoken turn that was stopped before. */
  #forgetSpokenTurn() {
    this.#unwanted = this.#unwanted.filter((id) => id !== spokenTurn);
  }

  /** Microphones and loudspeakers, `{id, label}` each. */
  devices() {
    return this.#microphone.devices();
  }

  /** The microphone in use; null: none. */
  get device() {
    return this.#microphone.device;
  }

  /** Uses another microphone; "" is the browser's choice. */
  async useMicrophone(id) {
    try {
      await this.#microphone.use(id);
    } finally {
      if (!this.#microphone.isWanted) this.#sendSilence();
      this.#updateActivity();
    }
  }

  /**
   * Uses another loudspeaker, where the browser can.
   * @throws {ParleyError} where it cannot be used: the one before stays
   */
  async useSpeaker(id) {
    await this.#sound.useSpeaker(id);
  }

  async #openMicrophone() {
    this.#encoder ??= this.#makeEncoder();
    await this.#microphone.open(this.#encoder.rate);
  }

  #makeEncoder() {
    const encoder = new FrameEncoder(this.#formats.input === "opus");
    encoder.onMessage = (message) => {
      const limit = this.#dropsNothing ? Infinity : mostWaitingBytes[this.#formats.input];
      const isSent = this.#connection.waitingBytes < limit && this.#connection.send(message);
      // The number of a dropped Opus packet tells the server that one is missing.
      if (isSent || encoder.isOpus) this.#sentMs += frameMilliseconds;
    };
    encoder.onFailure = () => this.#useSamples();
    return encoder;
  }

  /** The browser's encoder has failed: from now on the microphone is sent as samples. */
  async #useSamples() {
    this.#formats.input = "pcm";
    this.#encoder = null;
    this.#confirmedInput = null;
    this.#configure();
    if (this.#microphone.isWanted) await this.#openMicrophone().catch((error) => this.#fail(error));
  }

  #handleFrame(samples) {
    const isWanted = this.#isHolding || this.turnDetection !== null;
    // The server reads samples in the format that it has confirmed.
    if (!isWanted || this.#confirmedInput !== this.#formats.input || !this.#connection.isOpen) return;
    this.#encoder?.encode(samples);
    this.#heldFrames += 1;
  }

  /** Silence behind the last word lets the server's turn detection see the end of the turn. */
  #sendSilence() {
    if (!this.#userSpeaks || !this.#encoder) return;
    const { type, silence_duration_ms: silence = 500 } = this.turnDetection ?? {};
    const longest = type === "semantic_vad" ? 8000 : silence;
    // All of it at once is more than may wait of samples.
    this.#dropsNothing = true;
    for (let ms = 0; ms < longest + 300; ms += frameMilliseconds) {
      this.#handleFrame(new Float32Array(this.#encoder.rate / 50));
    }
    this.#dropsNothing = false;
  }

  #create(item) {
    const event = { type: "conversation.item.create", event_id: item.id, item };
    this.#unsure.items.set(item.id, event);
    if (this.#submit(event)) this.#sentItems.add(item.id);
  }

  #askForResponse() {
    this.#forgetSpokenTurn();
    this.#unsure.response = { type: "response.create", event_id: makeID() };
    this.#isRequestSent = this.#submit(this.#unsure.response);
    this.#isThinking = true;
    this.#updateActivity();
  }

  /** Nothing of a reply that has brought no audio yet; null: the player knows what was heard. Only a client that
   *  says so is told which words are left of the reply. */
  get #unheardReply() {
    if (this.#player.isPlaying) return null;
    const isSpoken = ([item, response]) => response === this.#activeResponse
      && this.transcript.find(item)?.kind === "message";
    const [item] = [...this.#responseOf].findLast(isSpoken) ?? [];
    return item && item !== this.#player.kept?.item ? { item, ms: 0 } : null;
  }

  async #stopPlaying() {
    this.#acknowledge(await this.#player.clear());
    this.#updateActivity();
  }

  /** Tells the server how much of a reply has been played. */
  #acknowledge(heard) {
    if (!heard) return;
    this.#send({
      type: "output_audio_buffer.played", event_id: `${quietPrefix}played`, item_id: heard.item,
      content_index: 0, audio_end_ms: heard.ms,
    });
  }

  #tick() {
    if (this.#player.isPlaying) this.#acknowledge(this.#player.heard);
  }

  // ---- State ----

  #setLink(link) {
    if (this.#link === link) return;
    this.#link = link;
    this.#emit("link", link);
  }

  /** Whether a reply is being made that the user has not stopped. */
  get #isReplying() {
    return this.#activeResponse !== null && !this.#stopped.has(this.#activeResponse);
  }

  /** Whether a reply was asked for, or will be when the functions have ended. */
  get #awaitsReply() {
    return this.#unsure.response !== null || this.#owesResponse || this.#awaitsOutputs;
  }

  /** Whether functions are at work whose outputs will be answered. */
  get #awaitsOutputs() {
    return [...this.#calls.values()].some(({ isWanted }) => isWanted);
  }

  #updateActivity() {
    const isListening = this.#isHolding
      || (this.#microphone.isOpen && !this.#microphone.isMuted && this.turnDetection !== null);
    let activity = isListening ? "listening" : "idle";
    if (this.#isThinking) activity = "thinking";
    if (this.#player.isPlaying) activity = "speaking";
    if (this.#userSpeaks || this.#isHolding) activity = "hearing";
    if (activity === this.#activity) return;
    this.#activity = activity;
    this.#emit("activity", activity);
  }

  #reach(hop) {
    const hops = this.#clock.reach(hop, performance.now());
    if (hops) this.#emit("hops", hops);
  }

  // ---- Loss and return ----

  #handleLoss() {
    if (this.#isHolding) {
      this.#isHolding = false;
      this.#fail(new ParleyError("speech_lost"));
    }
    this.#spokeAtLoss ||= this.#userSpeaks;
    this.#userSpeaks = false;
    this.#setLink("lost");
    this.#updateActivity();
  }

  #handleReturn(what, session) {
    this.session = session;
    const wasCut = this.#spokeAtLoss || this.#unsure.commit !== null;
    this.#spokeAtLoss = false;
    const typed = what === "anew" ? this.#forget() : [];
    if (what === "retold") {
      this.transcript.retell();
      this.#activeResponse = null;
    }
    this.#emit("returned", what);
    for (const entry of typed) this.#emit("entry", entry);
    if (typed.some(({ state }) => state === "unsure")) this.#fail(new ParleyError("message_lost"));
    if (what === "anew" && wasCut) this.#fail(new ParleyError("speech_lost"));
    this.#confirmedInput = null;
    // The server may have missed the settings.
    this.#configure();
    // The answer to this comes after everything that was missed. It is an error: there is no such item.
    this.#marks += 1;
    this.#mark = `${quietPrefix}mark-${this.#marks}`;
    this.#send({
      type: "conversation.item.retrieve", event_id: this.#mark, item_id: this.#mark,
    });
  }

  /** Everything that was missed has come: what the server does not know was lost on its way there. */
  #catchUp() {
    this.#mark = null;
    if (this.transcript.endRetelling()) {
      // The end of a reply is not told again.
      this.#isThinking = this.#isReplying || this.#awaitsReply;
      this.#updateActivity();
    }
    // Requests that were stopped, too.
    this.#unwanted = this.#unwanted.filter((id) => id === spokenTurn);
    this.#sendUnsure();
    if (this.#stopped.has(this.#activeResponse)) this.#cancel(this.#activeResponse);
  }

  /**
   * Whether a reply can be the answer that is awaited. After a return the server also says the rest of what
   * was not heard: as long as it does not know the items that were sent, its replies are that.
   */
  get #mayBeAnswer() {
    return !this.#mark || this.#unsure.items.size === 0;
  }

  #sendUnsure() {
    for (const [id, event] of this.#unsure.items) if (this.#send(event)) this.#sentItems.add(id);
    if (this.#unsure.commit) this.#send(this.#unsure.commit);
    if (this.#unsure.response) this.#isRequestSent = this.#send(this.#unsure.response);
  }

  /**
   * Another session has begun. Typed messages that were never sent go into it. One that the session
   * before may have had does not: it might be said twice.
   * @returns the entries of these messages
   */
  #forget() {
    const typed = this.#settleTyped("done");
    this.#player.forget();
    this.transcript.clear(new Set(typed.map(({ id }) => id)));
    this.#clock.drop();
    this.#activeResponse = null;
    this.#stopped.clear();
    this.#responseOf.clear();
    this.#calls.clear();
    this.#owesResponse = false;
    const isUnsent = (id) => !this.#sentItems.has(id) && this.transcript.find(id);
    const items = new Map([...this.#unsure.items].filter(([id]) => isUnsent(id)));
    const response = items.size && !this.#isRequestSent ? this.#unsure.response : null;
    this.#unsure = { items, commit: null, response };
    this.#sentItems.clear();
    this.#unwanted = [];
    this.#sentMs = 0;
    this.#hasSettings = false;
    this.#userSpeaks = false;
    this.#isThinking = this.#awaitsReply;
    this.#updateActivity();
    return typed;
  }

  /** The session goes. Marks typed messages that it may not have: "unsure" where they were sent.
   *  @param {string} unsent the state of those that were not. @returns their entries */
  #settleTyped(unsent) {
    return [...this.#unsure.items.keys()]
      .map((id) => this.transcript.mark(id, this.#sentItems.has(id) ? "unsure" : unsent))
      .filter(Boolean);
  }

  #handleEnd(error) {
    if (this.#link === "closed") return;
    clearInterval(this.#ticker);
    this.#microphone.end();
    this.#player.close();
    this.#sound.close();
    this.#encoder?.close();
    this.#isThinking = this.#userSpeaks = this.#isHolding = false;
    this.#updateActivity();
    this.#setLink("closed");
    if (error) for (const entry of this.#settleTyped("failed")) this.#emit("entry", entry);
    if (this.#opening) this.#opening.reject(error ?? new ParleyError("session_ended"));
    else this.#emit("closed", error);
  }

  // ---- Events of the server ----

  #handleAudio(buffer) {
    const audio = parseAudio(buffer);
    if (!audio || this.#stopped.has(this.#responseOf.get(audio.item))) return;
    this.#player.push(audio);
    this.#updateActivity();
  }

  #handle(event) {
    this.#emit("event", event);
    for (const entry of this.transcript.apply(event)) this.#emit("entry", entry);
    ParleySession.#handlers[event.type]?.call(this, event);
  }

  static #handlers = {
    "session.created"({ session }) {
      this.session = session;
    },
    "session.updated"({ session }) {
      this.session = session;
      this.#hasSettings = true;
      // The newest stays: this may answer an update of a sideband, and the refusal may follow.
      if (this.#updates.length > 1) this.#accept(this.#updates.shift().changes);
      // Sends the requests made before the settings were there. After a return the mark's answer sends them.
      if (this.#opening && this.#mark === null) this.#sendUnsure();
      this.#confirm();
      this.#emit("updated", session);
      // A listener may have closed the session.
      if (!this.#opening || this.#link === "closed") return;
      this.#ticker = setInterval(() => this.#tick(), acknowledgeEvery);
      this.#opening.resolve();
      this.#opening = null;
    },
    "input_audio_buffer.speech_started"() {
      // The reply may go on from here, if the server decides that this was no interruption.
      this.#acknowledge(this.#unheardReply);
      this.#stopPlaying();
      this.#userSpeaks = true;
      this.#forgetSpokenTurn();
      // The microphone was closed before this came.
      if (!this.#microphone.isWanted) this.#sendSilence();
      this.#updateActivity();
    },
    "input_audio_buffer.speech_stopped"({ audio_end_ms: end }) {
      this.#userSpeaks = false;
      this.#isThinking = true;
      // The speech has ended before the silence that shows it.
      const silence = this.#sentMs - end;
      const isPlausible = silence >= 0 && silence < 10_000;
      this.#clock.begin(performance.now() - (isPlausible ? silence : 0));
      this.#updateActivity();
    },
    "input_audio_buffer.committed"() {
      this.#unsure.commit = null;
    },
    "conversation.item.input_audio_transcription.completed"({ transcript }) {
      this.#reach("words");
      if (transcript.trim()) return;
      // A turn without words is not answered.
      this.#forgetSpokenTurn();
      this.#isThinking = this.#isReplying || this.#awaitsReply;
      this.#updateActivity();
    },
    "conversation.item.input_audio_transcription.failed"({ error }) {
      this.#forgetSpokenTurn();
      this.#isThinking = false;
      this.#fail(new ParleyError("not_understood", error?.message));
      this.#updateActivity();
    },
    "conversation.item.added"({ item }) {
      this.#unsure.items.delete(item.id);
      this.#sentItems.delete(item.id);
      // A reply that the server repeats after a return is the answer to what came before it.
      if (this.#mark && item.role === "assistant" && this.#mayBeAnswer) this.#unsure.response = null;
    },
    "response.created"({ response }) {
      if (response.conversation_id === null) return;
      this.#activeResponse = response.id;
      if (this.#unwanted.shift() !== undefined) {
        this.#stopped.add(response.id);
        this.#cancel(response.id);
        return;
      }
      if (this.#mayBeAnswer) this.#unsure.response = null;
      this.#isThinking = true;
      this.#updateActivity();
    },
    "response.output_item.added"({ response_id, item }) {
      this.#responseOf.set(item.id, response_id);
    },
    "response.output_text.delta"({ response_id }) {
      if (!this.#stopped.has(response_id)) this.#reach("token");
    },
    "response.output_audio_transcript.delta"({ response_id }) {
      if (!this.#stopped.has(response_id)) this.#reach("token");
    },
    "response.output_audio.done"() {
      this.#player.end();
    },
    "response.function_call_arguments.done"(event) {
      this.#call(event);
    },
    "response.done"({ response }) {
      this.#endResponse(response);
    },
    "parley.going_away"(event) {
      this.#emit("leaving", event);
    },
    "error"({ error }) {
      if (error.event_id?.startsWith(quietPrefix)) {
        if (error.event_id === this.#mark) this.#catchUp();
        return;
      }
      // The reply may have ended before the server received the request to cancel it.
      if (error.code === "response_cancel_not_active") return;
      const code = error.code === "rate_limit_exceeded" ? "rate_limited" : "server_error";
      const failure = new ParleyError(code, error.message, error);
      // Of what the server cannot read, it does not know the id.
      const isUpdate = error.event_id?.startsWith(updatePrefix)
        || (!error.event_id && this.#link !== "open");
      if (isUpdate) return this.#handleRefusal(failure, error.event_id);
      this.#settle(error.event_id);
      this.#fail(failure);
    },
  };

  /** The session has its settings, and can be used. */
  #confirm() {
    const format = this.session.audio?.input?.format?.type;
    this.#confirmedInput = format === "audio/opus" ? "opus" : "pcm";
    this.#setLink("open");
  }

  /** The server has refused a session.update: the session keeps the settings that it had. */
  #handleRefusal(error, id) {
    // Without any of them it is of no use.
    if (this.#opening) return this.#opening.reject(error);
    if (!this.#hasSettings) return this.#connection.close(error);
    const isTold = this.#dropChanges(id);
    this.#confirm();
    this.#updateActivity();
    if (isTold) this.#fail(error);
  }

  /** Drops what a refused session.update has changed. Returns whether the user must know of it. */
  #dropChanges(id) {
    // The server answers in order: those before it were accepted.
    const place = id ? this.#updates.findIndex((update) => update.id === id) : this.#updates.length - 1;
    if (place < 0) return true;
    for (const update of this.#updates.slice(0, place)) this.#accept(update.changes);
    const refused = this.#updates[place];
    this.#updates.splice(0, place + 1);
    if (!refused.isTainted) {
      this.#changes.splice(0, refused.changes);
      this.#settings = this.#changes.reduce(changed, this.#accepted);
      // The later ones have the same fault, and are sent again without it.
      for (const update of this.#updates) {
        update.changes -= refused.changes;
        update.isTainted = true;
      }
    } else if (this.#updates.length === 0) {
      this.#configure();
    }
    return !refused.isTainted;
  }

  /** The server has refused what it was asked: that is not sent again, nor waited for. */
  #settle(id) {
    if (!id) return;
    if (this.#unsure.items.delete(id)) {
      this.#sentItems.delete(id);
      const entry = this.transcript.mark(id, "failed");
      if (entry) this.#emit("entry", entry);
    }
    this.#unwanted = this.#unwanted.filter((each) => each !== id);
    if (id === this.#unsure.commit?.event_id) this.#unsure.commit = null;
    if (id !== this.#unsure.response?.event_id) return;
    this.#unsure.response = null;
    this.#isThinking = this.#isReplying || this.#awaitsReply;
    this.#updateActivity();
  }

  #endResponse(response) {
    if (response.id === this.#activeResponse) this.#activeResponse = null;
    for (const [item, id] of this.#responseOf) if (id === response.id) this.#responseOf.delete(item);
    this.#stopped.delete(response.id);
    this.#player.end();
    if (!this.#activeResponse) this.#isThinking = this.#awaitsReply;
    this.#updateActivity();
    if (response.status === "failed") {
      const error = response.status_details?.error;
      const code = error?.code === "rate_limit_exceeded" ? "rate_limited" : "reply_failed";
      this.#fail(new ParleyError(code, error?.message, error));
    }
    this.#answerCalls();
  }

  // ---- Functions ----

  async #call({ response_id, call_id, name, arguments: text }) {
    const { tools } = this.#settings;
    // The page may answer the calls of other functions itself.
    if (!Object.hasOwn(tools, name)) return;
    const calls = this.#calls.get(response_id) ?? { left: 0, isWanted: !this.#stopped.has(response_id) };
    calls.left += 1;
    this.#calls.set(response_id, calls);
    let output;
    try {
      const result = await tools[name].run(JSON.parse(text || "{}"));
      output = typeof result === "string" ? result : JSON.stringify(result ?? null) ?? "null";
    } catch (cause) {
      output = JSON.stringify({ error: String(cause?.message ?? cause) });
      this.#fail(new ParleyError("tool_failed", `${name}: ${cause?.message ?? cause}`, cause));
    }
    // The conversation may be another one by now.
    if (this.#calls.get(response_id) !== calls) return;
    const entry = this.transcript.addOutput(call_id, output);
    if (entry) this.#emit("entry", entry);
    this.#create({ id: makeID(), type: "function_call_output", call_id, output });
    calls.left -= 1;
    if (calls.left > 0) return;
    this.#calls.delete(response_id);
    this.#owesResponse ||= calls.isWanted;
    this.#answerCalls();
  }

  /** Asks for the reply to the outputs once they are all there, and nothing else is being said. */
  #answerCalls() {
    if (!this.#owesResponse || this.#awaitsOutputs || this.#activeResponse) return;
    this.#owesResponse = false;
    this.#askForResponse();
  }
}

/** Settings after a change. */
function changed(settings, change) {
  return { ...settings, ...change, session: merge(settings.session, change.session) };
}

/** The session's turn detection: a type alone is the object with its defaults. */
function detection(value) {
  return typeof value === "string" ? { type: value } : value;
}
