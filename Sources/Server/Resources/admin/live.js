// The connection of the operator's page: asks whether the key is good, opens the WebSocket, comes back after
// a loss, and asks again for what was shown.

const PATH = "/admin/live";
const SUBPROTOCOL = "parley-operator";
const KEY_PREFIX = "openai-insecure-api-key.";
const LONGEST_PAUSE_SECONDS = 15;

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
    const token = {};
    this.#socket = token;
    // A browser hides why a handshake was refused, so a request asks first.
    const verdict = await judge(key);
    if (this.#socket !== token) return;
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
    socket.onopen = () => {
      this.#pause = 1;
      this.#set("open", "");
      for (const command of this.#standing.values()) this.send(command);
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) return;
      this.dispatchEvent(new CustomEvent("message", { detail: JSON.parse(data) }));
    };
    socket.onclose = ({ reason }) => {
      if (this.#socket === socket) this.#lose(reason || "The connection was lost.");
    };
  }

  #lose(reason) {
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
    const response = await fetch("/admin/sessions?limit=1&scope=node", {
      headers: key ? { Authorization: `Bearer ${key}` } : {}, cache: "no-store",
    });
    if (response.ok) return {};
    const reason = (await response.json())?.error?.message ?? `The server answers ${response.status}.`;
    return { isRefused: [401, 403, 429].includes(response.status), isAway: true, reason };
  } catch {
    return { isAway: true, reason: "The server does not answer." };
  }
}
