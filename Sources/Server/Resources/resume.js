// A realtime session over one connection after another. A connection that breaks is made again, and the
// session goes on with the events that were missed (PROTOCOL.md, resume). app.js shows and plays them,
// and sends again what was lost on its way to the server.

/** Bounds of the pauses between attempts, in ms: each pause is a random part of a bound that doubles. */
const firstBound = 500;
const lastBound = 8000;
/** How long coming back is tried at least and at most: the page's clock may be wrong. */
const leastPatience = 30_000;
const mostPatience = 3_600_000;
/** Close code of a server that restarts; 1006 is a connection that broke. */
const returnCodes = [1006, 1012];

export class ResumableSocket {
  #socket = null;
  /** A connection that another one replaces: unused, it would be closed, which ends the session. */
  #replaced = null;
  #address = "";
  #protocols = [];
  #timer = 0;
  #bound = firstBound;
  /** When the connection was lost; null: it was not, or the server has answered since. */
  #lostAt = null;
  /** The way back: handle, expires_at, epoch, offset, and the session's id. Null: there is none. */
  #place = null;

  /** Receives every event. */
  onEvent = () => {};
  /** The connection is lost, and is being made again. */
  onLost = () => {};
  /** It is back. @param {"recovered" | "retold" | "anew"} what what follows: the missed events, the
   *  whole conversation, or another session */
  onReturn = () => {};
  /** The connection has ended, and the session with it: code, reason, and whether it was open. */
  onEnd = () => {};
  /** The audio that the page has: item and ms; null: none. */
  played = () => null;

  constructor() {
    // The browser notices a lost network late or never, but tells when there is one again.
    window.addEventListener("online", () => this.#hurry());
  }

  /** Begins a session. Throws where the browser refuses a subprotocol. */
  open(address, protocols) {
    this.#address = address;
    this.#protocols = protocols;
    this.#place = null;
    this.#lostAt = null;
    this.#connect("resume=true");
  }

  /** Sends an event; returns false where it was dropped, because there is no connection. */
  send(event) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(event));
    return true;
  }

  #connect(query) {
    const socket = new WebSocket(`${this.#address}?${query}`, this.#protocols);
    this.#socket = socket;
    let wasOpen = false;
    socket.onopen = () => { wasOpen = true; };
    socket.onmessage = ({ data }) => this.#handle(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#handleClose(code, reason, wasOpen);
  }

  #handle(event) {
    const before = this.#place;
    if (event.resume) this.#place = { offset: 0, ...before, ...event.resume };
    if (this.#place && before && this.#place.epoch !== before.epoch) this.#place.offset = 0;
    if (this.#place && event.offset) this.#place.offset = event.offset;
    if (this.#place && event.session?.id) this.#place.session = event.session.id;
    if (event.type === "parley.resumed") {
      this.#lostAt = null;
      this.#replaced = null;
      this.#bound = firstBound;
      if (!event.recovered) this.#place.offset = 0;
      const isSame = before?.session === event.session.id;
      this.onReturn(event.recovered ? "recovered" : isSame ? "retold" : "anew");
    }
    this.onEvent(event);
  }

  #handleClose(code, reason, wasOpen) {
    this.#socket = null;
    if (!this.#place || !returnCodes.includes(code) || this.#isTooLate()) {
      this.#place = null;
      this.#lostAt = null;
      this.onEnd({ code, reason, wasOpen });
      return;
    }
    if (this.#lostAt === null) {
      this.#lostAt = Date.now();
      this.onLost();
    }
    this.#timer = setTimeout(() => this.#comeBack(), Math.random() * this.#bound);
    this.#bound = Math.min(2 * this.#bound, lastBound);
  }

  #isTooLate() {
    if (this.#lostAt === null) return false;
    const left = this.#place.expires_at * 1000 - this.#lostAt;
    return Date.now() - this.#lostAt > Math.min(Math.max(left, leastPatience), mostPatience);
  }

  #comeBack() {
    const { handle, epoch, offset } = this.#place;
    const query = new URLSearchParams({ resume: handle, epoch, offset });
    const audio = this.played();
    if (audio) {
      query.set("item_id", audio.item);
      query.set("audio_end_ms", audio.ms);
    }
    this.#connect(query);
  }

  /** There is a network again: comes back now, also where the old connection only seems open. The
   *  server closes that one. */
  #hurry() {
    if (!this.#place) return;
    clearTimeout(this.#timer);
    if (this.#socket) {
      this.#socket.onmessage = null;
      this.#socket.onclose = null;
      this.#replaced = this.#socket;
    }
    if (this.#lostAt === null) {
      this.#lostAt = Date.now();
      this.onLost();
    }
    this.#comeBack();
  }
}
