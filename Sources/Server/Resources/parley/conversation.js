// The conversation as a page shows it, made of the server's events: who said what, what an interruption
// cut off, which functions were called, and how long each turn took. It touches no browser interface.

/** An entry: a message of one of the parties, or a call of a function. */
function makeEntry(id, kind, role) {
  return {
    id, kind, role,
    /** The words; of an interrupted reply those that were heard. */
    text: "",
    /** The words of a reply that were not heard, because it was interrupted. */
    cut: "",
    /** "pending": no words yet. "streaming": more may come. "done". "failed": there are no words, or the
     *  server does not have them. "unsure": a typed message that the server may have got. */
    state: "pending",
  };
}

/** The entries of a conversation, in order. */
export class Transcript {
  #entries = new Map();
  #isRetold = false;
  /** Responses outside of the conversation that are in progress. */
  #outside = new Set();

  static #handlers = {
    "input_audio_buffer.speech_started"({ item_id }) {
      return this.#message(item_id, "user");
    },
    "input_audio_buffer.committed"({ item_id }) {
      return this.#message(item_id, "user");
    },
    "conversation.item.input_audio_transcription.delta"({ item_id, delta }) {
      return this.#append(item_id, "user", delta);
    },
    "conversation.item.input_audio_transcription.completed"({ item_id, transcript }) {
      return this.#settle(item_id, "user", transcript.trim(), transcript.trim() ? "done" : "failed");
    },
    "conversation.item.input_audio_transcription.failed"({ item_id }) {
      return this.#settle(item_id, "user", "", "failed");
    },
    "conversation.item.added"({ item }) {
      if (item.type === "mcp_call") return this.#serverCall(item);
      if (!this.#isRetold || item.type !== "message" || item.role === "system") return undefined;
      const state = item.status === "in_progress" ? "streaming" : "done";
      return this.#settle(item.id, item.role, words(item), state);
    },
    "conversation.item.done"({ item }) {
      if (item.type === "mcp_call") return this.#serverCall(item);
      if (!this.#isRetold || item.type !== "message" || item.role === "system") return undefined;
      return this.#settle(item.id, item.role, words(item));
    },
    "response.output_item.added"({ item }) {
      if (item.type === "message") return this.#message(item.id, "assistant");
      if (item.type === "mcp_call") return this.#serverCall(item);
      return item.type === "function_call" ? this.#call(item) : undefined;
    },
    "response.output_text.delta"({ item_id, delta }) {
      return this.#append(item_id, "assistant", delta);
    },
    "response.output_audio_transcript.delta"({ item_id, delta }) {
      return this.#append(item_id, "assistant", delta);
    },
    "response.output_audio_transcript.done"({ item_id, transcript }) {
      const entry = this.#message(item_id, "assistant");
      if (entry.cut) entry.cut = cutOff(transcript, entry.text) || entry.cut;
      else entry.text = transcript;
      return entry;
    },
    "conversation.item.truncated"({ item_id, audio_end_ms: end, transcript: told }) {
      const entry = this.find(item_id);
      // A reply that was stopped before its first sound has no words that were heard.
      const transcript = told ?? (end === 0 ? "" : undefined);
      if (!entry || transcript === undefined) return undefined;
      const whole = entry.text + entry.cut;
      return Object.assign(entry, {
        text: transcript, cut: cutOff(whole, transcript) || entry.cut, state: "done",
      });
    },
    "conversation.item.deleted"({ item_id }) {
      const entry = this.find(item_id);
      this.#entries.delete(item_id);
      return entry && Object.assign(entry, { isDeleted: true });
    },
    "response.function_call_arguments.done"({ call_id, name, arguments: text }) {
      return Object.assign(this.#call({ call_id, name }), { arguments: text, state: "streaming" });
    },
    "response.mcp_call_arguments.done"({ item_id, arguments: text }) {
      const entry = this.find(item_id);
      return entry && Object.assign(entry, { arguments: text });
    },
    "response.output_item.done"({ item }) {
      if (item.type === "mcp_call") return this.#serverCall(item);
      const entry = this.find(item.id);
      if (entry?.state === "streaming" || entry?.state === "pending") {
        return Object.assign(entry, { state: "done" });
      }
      return undefined;
    },
    "response.done"({ response }) {
      return (response.output ?? []).map(({ id }) => this.find(id))
        .filter((entry) => entry && entry.state !== "done" && entry.kind === "message")
        .map((entry) => Object.assign(entry, { state: entry.text ? "done" : "failed" }));
    },
  };

  /** Every entry, in order. */
  get entries() {
    return [...this.#entries.values()];
  }

  /** The entry with this id, or undefined. */
  find(id) {
    return this.#entries.get(id);
  }

  /**
   * Another conversation begins.
   * @param {Set<string>} kept ids of the entries that are a part of it
   */
  clear(kept = new Set()) {
    for (const id of this.#entries.keys()) if (!kept.has(id)) this.#entries.delete(id);
    this.#isRetold = false;
  }

  /** The server tells the conversation from its beginning: its items are the messages. */
  retell() {
    this.#isRetold = true;
  }

  /**
   * Everything was told again: from now on the events of speech and replies are the messages.
   * @returns whether it was told again
   */
  endRetelling() {
    const wasRetold = this.#isRetold;
    this.#isRetold = false;
    return wasRetold;
  }

  /** What became of a message that the user has typed. Returns the entry, or undefined without it. */
  mark(id, state) {
    const entry = this.find(id);
    return entry && Object.assign(entry, { state });
  }

  /** A message that the user has typed, before the server knows it. Returns the entry. */
  addTyped(id, text) {
    return this.#settle(id, "user", text);
  }

  /** The output of a function. Returns the entry, or undefined without the call. */
  addOutput(callID, output) {
    const entry = this.#entries.get(callID);
    if (entry) Object.assign(entry, { output, state: "done" });
    return entry;
  }

  /**
   * Takes an event of the server. Those of a response outside of the conversation change nothing.
   * @returns the entries that have changed; one of a deleted item has `isDeleted`
   */
  apply(event) {
    const response = event.response_id ?? event.response?.id;
    if (event.type === "response.created" && event.response.conversation_id === null) {
      this.#outside.add(response);
    }
    if (this.#outside.has(response)) {
      if (event.type === "response.done") this.#outside.delete(response);
      return [];
    }
    const changed = Transcript.#handlers[event.type]?.call(this, event);
    return (Array.isArray(changed) ? changed : [changed]).filter(Boolean);
  }

  /** The conversation as values for JSON. */
  toJSON() {
    return toValues(this.entries);
  }

  /** The conversation as lines of text. */
  toText() {
    return toText(this.entries);
  }

  #message(id, role) {
    if (!this.#entries.has(id)) this.#entries.set(id, makeEntry(id, "message", role));
    return this.#entries.get(id);
  }

  #append(id, role, delta) {
    const entry = this.#message(id, role);
    // The text of a reply that was cut goes on in the model, unheard.
    if (entry.cut) return undefined;
    entry.text += delta;
    entry.state = "streaming";
    return entry;
  }

  #settle(id, role, text, state = "done") {
    return Object.assign(this.#message(id, role), { text, state });
  }

  /** A call that the server makes for the agent, as its item says. */
  #serverCall({ id, name, arguments: text, output, error }) {
    const entry = this.#call({ call_id: id, name });
    const result = output ?? error?.message;
    entry.arguments = text || entry.arguments;
    return Object.assign(
      entry, result === undefined ? { state: "streaming" } : { output: result, state: "done" });
  }

  #call({ call_id: id, name = "" }) {
    if (!this.#entries.has(id)) {
      const entry = makeEntry(id, "call", "assistant");
      this.#entries.set(id, Object.assign(entry, { name, arguments: "" }));
    }
    return this.#entries.get(id);
  }
}

/** Entries as values for JSON. */
export function toValues(entries) {
  return entries.map((entry) => {
    const shown = { ...entry };
    for (const name of ["cut", "output"]) if (!shown[name]) delete shown[name];
    return shown;
  });
}

/** Entries as lines of text. */
export function toText(entries) {
  return entries.map((entry) => {
    if (entry.kind === "call") return `[${entry.name}(${entry.arguments}) = ${entry.output ?? ""}]`;
    const name = entry.role === "user" ? "You" : "Agent";
    return `${name}: ${entry.text}${entry.cut ? ` [not heard: ${entry.cut.trim()}]` : ""}`;
  }).join("\n") + "\n";
}

/** The words of an item. */
function words({ content }) {
  return (content ?? []).map((part) => part.transcript ?? part.text ?? "").join(" ");
}

/** What a reply's text loses where it was cut to `heard`. */
export function cutOff(text, heard) {
  if (text.startsWith(heard)) return text.slice(heard.length);
  return "";
}

/**
 * How long the hops of a turn take: from the end of speech (or the typed message) to the words, the
 * reply's first token and its first sound. Times are milliseconds of one clock.
 */
export class TurnClock {
  #turn = null;

  /** A turn of the user has ended. `words` is false for a typed turn, which has none to wait for. */
  begin(at, { hasWords = true } = {}) {
    this.#turn = { start: at, wordsMs: hasWords ? null : 0, tokenMs: null, soundMs: null };
  }

  /** The user speaks on, or the turn is not answered. */
  drop() {
    this.#turn = null;
  }

  /**
   * A hop is reached: "words", "token" or "sound".
   * @returns the turn so far, `{wordsMs, tokenMs, soundMs}` with null where it has not come, when this is
   *   new; else null
   */
  reach(hop, at) {
    const key = `${hop}Ms`;
    if (!this.#turn || this.#turn[key] !== null) return null;
    this.#turn[key] = Math.max(0, Math.round(at - this.#turn.start));
    const { wordsMs, tokenMs, soundMs } = this.#turn;
    return { wordsMs, tokenMs, soundMs };
  }
}
