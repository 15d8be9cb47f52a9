// A realtime session over one connection after another. A connection that breaks is made again, and the
// session goes on with the events that were missed (PROTOCOL.md, resume).
//
// The connection shows and plays nothing, and does not send again what was lost on its way to the server:
// parley.js does.

import { PolicyWatch, diagnose, isMixed } from "./diagnosis.js";
import { ParleyError } from "./errors.js";
import { Liveness, checkInterval } from "./liveness.js";

/** How long coming back is tried at least and at most, in ms: the page's clock may be wrong. */
const leastPatience = 30_000;
const mostPatience = 3_600_000;
/** Close codes after which the session goes on: a connection that broke, a server that restarts. */
const returnCodes = [1006, 1012];
/** Errors after which no attempt can succeed. */
const hopeless = [
  "credential_refused", "invalid_credential", "origin_refused", "host_refused", "insecure_address",
  "policy_blocked",
];
/** Close code: another connection has the session. */
const takenOver = 4409;
/** Asks for a sign of life. A server that does not know the event answers with an error, which is one. */
const ping = { type: "parley.ping", event_id: "parley-js-ping" };
/** How long, in ms, a connection may take to open, and the requests that show why one did not. */
const longestAttempt = 10_000;

/** Pauses between attempts: each is a random part of a bound that doubles. */
export class Backoff {
  #first;
  #last;
  #bound;
  #random;

  /** Bounds in ms. `random` returns a number from 0 to 1. */
  constructor({ first = 500, last = 8000, random = Math.random } = {}) {
    this.#first = first;
    this.#last = last;
    this.#bound = first;
    this.#random = random;
  }

  /** The next pause in ms. */
  next() {
    const pause = this.#random() * this.#bound;
    this.#bound = Math.min(2 * this.#bound, this.#last);
    return pause;
  }

  /** It worked: the next pause is short again. */
  reset() {
    this.#bound = this.#first;
  }
}

/** What the connection uses of the browser. Tests give others. */
const browser = {
  WebSocket: globalThis.WebSocket,
  fetch: (...request) => globalThis.fetch(...request),
  setTimeout: (...timer) => globalThis.setTimeout(...timer),
  clearTimeout: (timer) => globalThis.clearTimeout(timer),
  now: () => Date.now(),
  random: Math.random,
  window: globalThis.window,
};

/** Gives up an attempt to connect: if it opened later, it would take the session from the next one. */
function abandon(socket) {
  socket.onopen = socket.onmessage = socket.onclose = null;
  socket.close();
}

export class Connection {
  #host;
  #address;
  #token;
  /** The credential of the newest attempt. */
  #credential = "";
  #socket = null;
  /** Connections that another one replaces: a browser closes what is unused, which ends the session. */
  #replaced = [];
  /** The pause before the next attempt, or the time that the attempt may take. */
  #timer = 0;
  #backoff;
  /** When the connection was lost; null: it was not, or the server has answered since. */
  #lostAt = null;
  /** The way back: handle, expires_at, epoch, offset, and the session's id. Null: there is none. */
  #place = null;
  #hasEnded = false;
  /** Counts attempts: one that waits for its token may be overtaken. */
  #attempt = 0;
  /** How the first attempt is settled; null: it was. */
  #opening = null;
  /** The signs of life of the open connection, and the timer of the next check. */
  #life = null;
  #check = 0;
  #onOnline = () => this.hurry();
  /** A page that is shown again may have slept. */
  #onVisible = () => {
    if (this.isOpen) this.#watch();
  };

  /** Receives every event. */
  onEvent = () => {};
  /** Receives every binary message, an ArrayBuffer. */
  onAudio = () => {};
  /** The connection is lost, and is being made again. */
  onLost = () => {};
  /** It is back. The first argument is "recovered" where the missed events follow, "retold" where the
   *  whole conversation follows, "anew" where another session has begun; the second is the session. */
  onReturn = () => {};
  /** The next attempt to come back begins in so many milliseconds. */
  onWait = () => {};
  /** The connection has ended, and the session with it. Receives an error; null: it was closed here. */
  onEnd = () => {};
  /** The audio that the page has: item and ms; null: none. */
  played = () => null;
  /** Whether the page awaits something of the server. */
  awaits = () => false;

  /**
   * @param {string} address of the WebSocket, with its parameters
   * @param {string | (() => string | Promise<string>)} token a credential, or what gets one; "": none
   */
  constructor(address, token, host = browser) {
    this.#host = host;
    this.#address = new URL(address);
    this.#token = token;
    this.#backoff = new Backoff({ random: host.random });
    // The browser notices a lost network late or never, but tells when there is one again.
    host.window?.addEventListener("online", this.#onOnline);
    host.window?.addEventListener("visibilitychange", this.#onVisible);
  }

  /** Begins a session. Resolves with its first event, rejects with a ParleyError. */
  open() {
    return new Promise((resolve, reject) => {
      if (this.#hasEnded) return reject(new ParleyError("session_ended"));
      this.#opening = { resolve, reject };
      this.#connect({ resume: "true" });
    });
  }

  /** Whether events can be sent. */
  get isOpen() {
    return this.#socket?.readyState === 1;
  }

  /** Bytes that have not left. */
  get waitingBytes() {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** Sends an event, or bytes as a binary message. Returns false where it was dropped, because there is
   *  no connection. */
  send(message) {
    if (!this.isOpen) return false;
    const before = this.waitingBytes;
    this.#socket.send(message instanceof Uint8Array ? message : JSON.stringify(message));
    this.#life?.handleSent(this.waitingBytes - before);
    return true;
  }

  /** Ends the session; with an error where it is of no use. */
  close(error = null) {
    this.#end(error);
  }

  /** There may be a network again: comes back now, also where the old connection only seems open. The server
   *  closes that one. */
  hurry() {
    if (!this.#place || this.#hasEnded) return;
    this.#host.clearTimeout(this.#timer);
    this.#host.clearTimeout(this.#check);
    if (this.#socket?.readyState === 0) {
      abandon(this.#socket);
    } else if (this.#socket) {
      this.#socket.onmessage = this.#socket.onclose = null;
      this.#replaced.push(this.#socket);
    }
    this.#socket = null;
    this.#lose();
    this.#comeBack();
  }

  async #connect(query) {
    let socket;
    const attempt = ++this.#attempt;
    const policy = new PolicyWatch(this.#host.window?.document);
    try {
      const token = typeof this.#token === "function" ? await this.#token() : this.#token;
      if (this.#hasEnded || attempt !== this.#attempt) return policy.end();
      this.#credential = token;
      // A browser can set no header on a WebSocket, so the credential is sent as a subprotocol.
      const protocols = token ? ["realtime", `openai-insecure-api-key.${token}`] : ["realtime"];
      const address = new URL(this.#address);
      for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
      socket = new this.#host.WebSocket(address.href, protocols);
    } catch (cause) {
      if (attempt === this.#attempt) this.#handleFailure(this.#explain(policy, cause));
      return policy.end();
    }
    this.#socket = socket;
    let wasOpen = false;
    this.#timer = this.#host.setTimeout(() => {
      abandon(socket);
      this.#handleClose(1006, "", false, policy);
    }, longestAttempt);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      wasOpen = true;
      policy.end();
      this.#host.clearTimeout(this.#timer);
      this.#life = new Liveness(this.#host.now());
      this.#watch();
    };
    socket.onmessage = ({ data }) => {
      this.#life.handleMessage(this.#host.now());
      if (typeof data === "string") this.#handle(JSON.parse(data));
      else this.onAudio(data);
    };
    socket.onclose = ({ code, reason }) => this.#handleClose(code, reason, wasOpen, policy);
  }

  /** Why the browser itself does not open the address; `cause` where that is not the reason. */
  #explain(policy, cause) {
    if (cause instanceof ParleyError) return cause;
    if (isMixed(this.#address, this.#host.window?.location)) {
      return new ParleyError("insecure_address", this.#address.origin, cause ?? undefined);
    }
    return policy.error(this.#address) ?? cause;
  }

  /** There is no credential, or none that can be sent. */
  #handleFailure(cause) {
    if (cause instanceof ParleyError) return this.#end(cause);
    // A WebSocket refuses a subprotocol with signs that HTTP does not allow.
    const isUnfit = cause?.name === "SyntaxError";
    // While the connection is lost, the code that gets the token has no network either.
    const code = isUnfit ? "invalid_credential" : this.#place ? "network_lost" : "credential_refused";
    this.#tryAgain(new ParleyError(code, cause?.message, cause));
  }

  #handle(event) {
    const before = this.#place;
    if (event.type === "parley.pong") return;
    if (event.resume) this.#place = { offset: 0, ...before, ...event.resume };
    if (this.#place && before && this.#place.epoch !== before.epoch) this.#place.offset = 0;
    if (this.#place && event.offset) this.#place.offset = event.offset;
    if (this.#place && event.session?.id) this.#place.session = event.session.id;
    if (event.type === "parley.resumed") {
      this.#lostAt = null;
      this.#replaced = [];
      this.#backoff.reset();
      if (!event.recovered) this.#place.offset = 0;
      const isSame = before?.session === event.session.id;
      this.onReturn(event.recovered ? "recovered" : isSame ? "retold" : "anew", event.session);
    }
    if (this.#opening && event.type === "session.created") {
      this.#opening.resolve(event);
      this.#opening = null;
    }
    this.onEvent(event);
  }

  async #handleClose(code, reason, wasOpen, policy) {
    this.#socket = null;
    this.#host.clearTimeout(this.#timer);
    this.#host.clearTimeout(this.#check);
    if (this.#hasEnded) return policy.end();
    if (code === takenOver) return this.#end(new ParleyError("session_taken", reason));
    if (wasOpen && !returnCodes.includes(code)) {
      return this.#end(new ParleyError("session_ended", reason || `code ${code}`));
    }
    if (this.#place) this.#lose();
    // Why a WebSocket did not open is hidden from a page; an HTTP request shows it.
    const attempt = this.#attempt;
    const error = wasOpen ? null : await this.#diagnose(policy);
    policy.end();
    if (attempt === this.#attempt) this.#tryAgain(error ?? new ParleyError("network_lost", reason));
  }

  /** Makes the next attempt after a pause. It is the end where none can succeed. */
  #tryAgain(error) {
    if (this.#hasEnded) return;
    if (!this.#place || hopeless.includes(error.code) || this.#isTooLate()) return this.#end(error);
    const pause = this.#backoff.next();
    this.#timer = this.#host.setTimeout(() => this.#comeBack(), pause);
    this.onWait(pause);
  }

  #lose() {
    if (this.#lostAt !== null) return;
    this.#lostAt = this.#host.now();
    this.onLost();
  }

  #end(error) {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    for (const socket of [...this.#replaced, this.#socket]) socket?.close(1000);
    this.#replaced = [];
    this.#socket = null;
    this.#host.clearTimeout(this.#timer);
    this.#host.clearTimeout(this.#check);
    this.#host.window?.removeEventListener("online", this.#onOnline);
    this.#host.window?.removeEventListener("visibilitychange", this.#onVisible);
    if (!this.#opening) return this.onEnd(error);
    this.#opening.reject(error ?? new ParleyError("session_ended"));
    this.#opening = null;
  }

  #isTooLate() {
    const left = this.#place.expires_at * 1000 - this.#lostAt;
    const patience = Math.min(Math.max(left, leastPatience), mostPatience);
    return this.#host.now() - this.#lostAt > patience;
  }

  #comeBack() {
    const { handle, epoch, offset } = this.#place;
    const audio = this.played();
    const heard = audio ? { item_id: audio.item, audio_end_ms: Math.floor(audio.ms + 0.001) } : {};
    this.#connect({ resume: handle, epoch, offset, ...heard });
  }

  /** The error of a connection that did not open, from the answers to ordinary requests. */
  async #diagnose(policy) {
    const known = this.#explain(policy, null);
    if (known) return known;
    const abort = new AbortController();
    const timer = this.#host.setTimeout(() => abort.abort(), longestAttempt);
    try {
      const error = await diagnose(
        this.#address, this.#credential, this.#host.fetch, abort.signal);
      // The browser may report what the policy has blocked after the connection's end.
      return policy.error(this.#address) ?? error;
    } finally {
      this.#host.clearTimeout(timer);
    }
  }

  /** Asks for signs of life, and leaves a connection that shows none. */
  #watch() {
    this.#host.clearTimeout(this.#check);
    const isAwaited = this.#opening !== null || this.#lostAt !== null || this.awaits();
    const verdict = this.#life.check(this.#host.now(), this.waitingBytes, isAwaited);
    if (verdict === "dead") return this.#handleDeath();
    if (verdict === "ask") this.send(ping);
    this.#check = this.#host.setTimeout(() => this.#watch(), checkInterval);
  }

  /** The connection only seems open. */
  #handleDeath() {
    if (this.#place && (this.#lostAt === null || !this.#isTooLate())) return this.hurry();
    abandon(this.#socket);
    // A first connection that was never answered is examined as one that did not open.
    this.#handleClose(1006, "", this.#opening === null, new PolicyWatch(null));
  }
}
