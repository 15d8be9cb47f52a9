// The connection of the operator's page: asks whether the key is good, opens the WebSocket, comes back after
// a loss, and asks again for what was shown.

import { ParleyError } from "../parley/errors.js";

const PATH = "admin/live";
const SUBPROTOCOL = "parley-operator";
const KEY_PREFIX = "openai-insecure-api-key.";
const LONGEST_PAUSE_SECONDS = 15;
/** A message comes every second. After so long without one, in ms, the connection counts as lost: a browser
 *  does not notice that a network is gone. */
const LONGEST_SILENCE = 10_000;
/** How long, in ms, the server may take to judge a key. */
const LONGEST_JUDGEMENT = 10_000;
/** What a subprotocol, and so a key, is made of (RFC 9110, token). */
const TOKEN = /^[\w!#$%&'*+.^`|~-]*$/;

/** Dispatches `message` for each message, and `state` when `state` changes. */
export class Live extends EventTarget {
  /** "connecting", "open", "lost", "refused" (the key is not good) or "closed". */
  state = "closed";
  /** What a person should know about the state. */
  reason = "";
  /** Whether the server asks for no key. */
  isOpenToAll = false;
  #key = "";
  #socket = null;
  /** The end of a pause, or of the longest silence. */
  #timer = 0;
  #pause = 1;
  /** Commands that are sent again on a new connection, by their purpose. */
  #standing = new Map();

  /** Connects with a key; empty: without one. */
  open(key) {
    this.close();
    this.#key = key;
    this.#pause = 1;
    this.#connect();
  }

  /** Ends the connection. */
  close() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    this.#set("closed", "");
  }

  /** Sends a command once. */
  send(command) {
    if (this.state !== "open") return false;
    this.#socket.send(JSON.stringify(command));
    return true;
  }

  /** Sends a command now and on each new connection, in place of the last one of this purpose. */
  keep(purpose, command) {
    this.#standing.set(purpose, command);
    this.send(command);
  }

  /** Sends a command now, and the kept one of this purpose no more. */
  drop(purpose, command) {
    this.#standing.delete(purpose);
    this.send(command);
  }

  async #connect() {
    this.#set("connecting", "");
    const key = this.#key;
    if (!TOKEN.test(key)) {
      this.#set("refused", new ParleyError("invalid_credential").message);
      return;
    }
    // Stands for the socket that is to come, so that `close` ends this attempt.
    const attempt = { close() {} };
    this.#socket = attempt;
    // A browser hides why a handshake was refused, so a request asks first.
    const verdict = await judge(key);
    if (this.#socket !== attempt) return;
    if (verdict.isRefused) {
      this.#socket = null;
      this.#set("refused", verdict.reason);
      return;
    }
    if (verdict.isAway) {
      this.#lose(verdict.reason);
      return;
    }
    this.isOpenToAll = !key;
    this.#openSocket(key);
  }

  #openSocket(key) {
    const address = new URL(PATH, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address, key ? [SUBPROTOCOL, KEY_PREFIX + key] : [SUBPROTOCOL]);
    this.#socket = socket;
    this.#awaitMessage(socket);
    socket.onopen = () => {
      this.#pause = 1;
      this.#set("open", "");
      for (const command of this.#standing.values()) this.send(command);
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) return;
      this.#awaitMessage(socket);
      this.dispatchEvent(new CustomEvent("message", { detail: JSON.parse(data) }));
    };
    socket.onclose = ({ reason }) => {
      if (this.#socket === socket) this.#lose(reason || "The connection was lost.");
    };
  }

  /** The connection is lost unless a message comes in time; the first one comes with its opening. */
  #awaitMessage(socket) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#lose("The server has sent nothing for ten seconds.");
      socket.close();
    }, LONGEST_SILENCE);
  }

  #lose(reason) {
    clearTimeout(this.#timer);
    this.#socket = null;
    this.#set("lost", reason);
    this.#timer = setTimeout(() => this.#connect(), 1000 * this.#pause);
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_SECONDS);
  }

  #set(state, reason) {
    this.state = state;
    this.reason = reason;
    this.dispatchEvent(new Event("state"));
  }
}

/** Whether the server accepts a key: `{isRefused, isAway, reason}`. */
async function judge(key) {
  try {
    const response = await fetch("admin/sessions?limit=1&scope=node", {
      headers: key ? { Authorization: `Bearer ${key}` } : {}, cache: "no-store",
      signal: AbortSignal.timeout(LONGEST_JUDGEMENT),
    });
    if (response.ok) return {};
    const reason = (await response.json())?.error?.message ?? `The server answers ${response.status}.`;
    return { isRefused: [401, 403, 429].includes(response.status), isAway: true, reason };
  } catch {
    return { isAway: true, reason: "The server does not answer." };
  }
}
