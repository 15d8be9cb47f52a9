// Whether a connection lives. A page does not see the pings of WebSocket. A browser keeps the
// connection into a dead network open for minutes, or for ever where a middle box acknowledges what is
// sent. So after some silence the server is asked for a sign of life: any message is one.
//
// It reads no clock and sends nothing. Times are milliseconds of one clock.

/** Silence after which the server is asked, where something is awaited, and else. */
const awaitedSilence = 3000;
const idleSilence = 10_000;
/** How long the answer may take once the question has left, and how long no byte may leave before. */
const longestAnswer = 4000;
/** How often a connection is checked. */
export const checkInterval = 500;
/** A check that comes so much later shows that the page was suspended: what the server has sent meanwhile
 *  is handled after the check. */
const longestDelay = 2000;

/** The signs of life of one connection. */
export class Liveness {
  #heardAt;
  #checkedAt;
  /** Whether anything was sent since the last message of the server. */
  #hasSent = false;
  /** Bytes that were to be sent, and of them those that have left. */
  #sentBytes = 0;
  #leftBytes = 0;
  /** The open question: since when its answer is awaited, its last byte, whether that has left, and
   *  whether it was asked again. Null: there is none. */
  #question = null;

  /** @param {number} now when the connection has opened */
  constructor(now) {
    this.#heardAt = now;
    this.#checkedAt = now;
  }

  /** A message of the server has come. */
  handleMessage(now) {
    this.#heardAt = now;
    this.#hasSent = false;
    this.#question = null;
  }

  /** So many bytes are to be sent. */
  handleSent(bytes) {
    this.#sentBytes += bytes;
    this.#hasSent = true;
    if (this.#question?.end === null) this.#question.end = this.#sentBytes;
  }

  /**
   * Whether something must be done. The caller sends the question at once.
   * @param {number} waitingBytes those that have not left
   * @param {boolean} isAwaited whether something of the server is awaited
   * @returns {"ask" | "dead" | null}
   */
  check(now, waitingBytes, isAwaited) {
    const isLate = now - this.#checkedAt > checkInterval + longestDelay;
    this.#checkedAt = now;
    const left = this.#sentBytes - waitingBytes;
    const moves = left > this.#leftBytes;
    this.#leftBytes = left;
    if (!this.#question) {
      const longest = isAwaited || this.#hasSent || waitingBytes ? awaitedSilence : idleSilence;
      return now - this.#heardAt < longest ? null : this.#ask(now, false);
    }
    const question = this.#question;
    if (!question.hasLeft) {
      if (moves) question.since = now;
      question.hasLeft = left >= question.end;
    }
    if (now - question.since < longestAnswer) return null;
    return isLate && !question.isRepeated ? this.#ask(now, true) : "dead";
  }

  #ask(now, isRepeated) {
    this.#question = { since: now, end: null, hasLeft: false, isRepeated };
    return "ask";
  }
}
