// What the tests of sessions share: a WebSocket whose server is the test, and a session over it.

import { webcrypto } from "node:crypto";
import { afterEach } from "node:test";

/** A WebSocket whose server is the test. It answers session.update by itself: `answers` is whether. */
export class Socket {
  static all = [];

  readyState = 0;
  bufferedAmount = 0;
  answers = false;
  /** Events, and messages with audio. */
  sent = [];
  audio = [];
  /** The codes that it was closed with. */
  closes = [];

  constructor(address) {
    this.address = new URL(address);
    Socket.all.push(this);
  }

  send(message) {
    if (typeof message !== "string") {
      this.audio.push(message);
      this.bufferedAmount += message.length;
      return;
    }
    const event = JSON.parse(message);
    this.sent.push(event);
    if (event.type === "session.update" && this.answers) {
      this.tell({ type: "session.updated", session: event.session });
    }
  }

  tell(event) { this.onmessage({ data: JSON.stringify(event) }); }

  /** Refuses the last event of a type; `id` is what the server tells of its event_id. */
  refuse(type, id = this.last(type).event_id) {
    this.tell({ type: "error", error: { code: "invalid_value", message: `no ${type}`, event_id: id } });
  }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  end(code) {
    this.readyState = 3;
    this.onclose({ code, reason: "" });
  }

  close(code) {
    this.readyState = 2;
    this.closes.push(code);
  }

  last(type) { return this.sent.findLast((event) => event.type === type); }

  types(...omitted) {
    return this.sent.map(({ type }) => type).filter((type) => !omitted.includes(type));
  }
}

globalThis.WebSocket = Socket;
globalThis.crypto ??= webcrypto;
// Pauses between attempts are a random part of their bound: of none of it.
Math.random = () => 0;
const { ParleySession } = await import("../../../.build/js/package/parley.js");

const sessions = [];

// A session that is left open would keep Node running.
afterEach(() => sessions.splice(0).forEach((session) => session.close()));

export const settled = () => new Promise((resolve) => setImmediate(resolve));
export const resume = { handle: "sess_a.x", expires_at: 4e9, epoch: 1 };

/** A session that is not open, and a log of its errors and its end. */
export function make(options = {}) {
  Socket.all = [];
  const session = new ParleySession({ url: "http://server/", ...options });
  sessions.push(session);
  const log = [];
  for (const name of ["error", "closed"]) session.on(name, (error) => log.push(error?.code ?? name));
  return { session, log };
}

/** A session that the server has begun. Its settings are not confirmed yet. `early` is done with it
 *  as soon as it opens. */
export async function begin(options = {}, early = () => {}) {
  const { session, log } = make(options);
  const opening = session.open();
  early(session);
  // Tests look at it later.
  opening.catch(() => {});
  await settled();
  const [socket] = Socket.all;
  socket.open();
  socket.tell({ type: "session.created", offset: 1, session: { id: "sess_a" }, resume });
  await settled();
  return { session, socket, log, opening };
}

/** A session that is open. */
export async function open(options = {}) {
  const { session, socket, log, opening } = await begin(options);
  socket.answers = true;
  socket.tell({ type: "session.updated", session: socket.last("session.update").session });
  await opening;
  return { session, socket, log };
}

/** The connection breaks and is back. Returns the new socket, whose mark is not answered yet. */
export async function comeBack(
  socket, { recovered = true, id = "sess_a", epoch = 1, answers = true } = {},
) {
  socket.end(1006);
  while (Socket.all.at(-1) === socket) await settled();
  const next = Socket.all.at(-1);
  next.answers = answers;
  next.open();
  next.tell({ type: "parley.resumed", recovered, session: { id }, resume: { ...resume, epoch } });
  return next;
}

/** Answers the mark: everything that was missed has come. */
export function catchUp(socket) {
  const mark = socket.last("conversation.item.retrieve");
  socket.tell({ type: "error", error: { code: "item_retrieve_invalid_item_id", event_id: mark.event_id } });
}

/** What a return sends at once. */
export const marks = ["session.update", "conversation.item.retrieve"];
