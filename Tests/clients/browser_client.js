// A client as a web page writes one: the WebSocket interface of browsers (from Debian's ws), the
// key as a subprotocol, because a page cannot set headers.
//
//   browser_client.js SCENARIO URL PROTOCOLS [RECORDING]
//
// It plays one scenario, prints what it saw as one line of JSON, and fails with a sentence on
// standard error. PROTOCOLS are separated by commas; RECORDING is 24 kHz samples.
"use strict";

const fs = require("node:fs");
const WebSocket = require("ws");

const [scenario, url, protocols, recording] = process.argv.slice(2);
// Ends what would wait for ever, as HANG_GUARD of parley_server.py.
const patience = 300_000;
const pieceMilliseconds = 20;
const bytesPerMillisecond = 48;

const tool = {
  type: "function",
  name: "get_weather",
  description: "Weather of a city",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

class Session {
  constructor() {
    this.events = [];
    this.waiting = [];
    this.socket = new WebSocket(url, protocols.split(","));
    this.socket.onmessage = (message) => this.take(JSON.parse(message.data));
    this.socket.onerror = (error) => fail(error.message);
    this.closed = new Promise((resolve) => {
      this.socket.onclose = resolve;
    });
  }

  take(event) {
    this.events.push(event);
    this.waiting = this.waiting.filter((each) => !each(event));
  }

  // The next event of a type; at once, if one has come after `after` events.
  until(type, after = 0) {
    const found = this.events.slice(after).find((event) => event.type === type);
    if (found) return Promise.resolve(found);
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => fail(`no ${type} in ${this.events.map((event) => event.type)}`), patience);
      this.waiting.push((event) => {
        if (event.type !== type) return false;
        clearTimeout(timer);
        resolve(event);
        return true;
      });
    });
  }

  send(event) {
    this.socket.send(JSON.stringify(event));
  }

  update(session) {
    this.send({ type: "session.update", session: { type: "realtime", ...session } });
    return this.until("session.updated", this.events.length);
  }

  type(text) {
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    this.send({ type: "conversation.item.create", item });
    this.send({ type: "response.create" });
  }

  // Sends the recording as fast as it was spoken.
  async speak() {
    const samples = fs.readFileSync(recording);
    const size = pieceMilliseconds * bytesPerMillisecond;
    const begin = performance.now();
    for (let start = 0; start < samples.length; start += size) {
      const due = begin + (start / size) * pieceMilliseconds;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
      const piece = samples.subarray(start, start + size).toString("base64");
      this.send({ type: "input_audio_buffer.append", audio: piece });
    }
  }

  audioMilliseconds() {
    const deltas = this.events.filter((event) => event.type === "response.output_audio.delta");
    const bytes = deltas.reduce((sum, event) => sum + Buffer.from(event.delta, "base64").length, 0);
    return Math.floor(bytes / bytesPerMillisecond);
  }

  replies() {
    return this.events
      .filter((event) => event.type === "response.done")
      .flatMap((event) => event.response.output)
      .filter((item) => item.type === "message")
      .map((item) => item.content.map((part) => part.text ?? part.transcript).join(""));
  }

  statuses() {
    return this.events
      .filter((event) => event.type === "response.done")
      .map((event) => [event.response.status, event.response.status_details?.reason ?? null]);
  }

  // At least so much of a reply has come.
  async untilAudio(milliseconds) {
    while (this.audioMilliseconds() < milliseconds) {
      await this.until("response.output_audio.delta", this.events.length);
    }
  }
}

const transcription = { model: "gpt-4o-mini-transcribe" };

const scenarios = {
  async text(session) {
    await session.update({ output_modalities: ["text"], tracing: "auto" });
    session.type("hello");
    await session.until("response.done");
  },

  async audio(session) {
    const turn_detection = { type: "semantic_vad", eagerness: "high" };
    await session.update({ audio: { input: { transcription, turn_detection } } });
    await session.speak();
    await session.until("conversation.item.input_audio_transcription.completed");
    await session.until("response.done");
  },

  async barge_in(session) {
    await session.update({ audio: { input: { transcription } } });
    session.type("Tell me a story");
    await session.untilAudio(1000);
    await session.speak();
    // The second may have come while the page still spoke.
    const interrupted = await session.until("response.done");
    await session.until("response.done", session.events.indexOf(interrupted) + 1);
  },

  async cancel(session) {
    session.type("Tell me a story");
    await session.untilAudio(1000);
    const { item_id, content_index } = await session.until("response.output_audio.delta");
    session.send({ type: "response.cancel" });
    const truncation = { item_id, content_index, audio_end_ms: 500 };
    session.send({ type: "conversation.item.truncate", ...truncation });
    await session.until("response.done");
    await session.until("conversation.item.truncated");
    const place = session.events.length;
    session.type("hello");
    await session.until("response.done", place);
  },

  async call(session) {
    await session.update({ tools: [tool], output_modalities: ["text"] });
    session.type("What is the weather in Oslo?");
    const call = await session.until("response.function_call_arguments.done");
    await session.until("response.done");
    const { city } = JSON.parse(call.arguments);
    const output = `sunny in ${city}`;
    const item = { type: "function_call_output", call_id: call.call_id, output };
    session.send({ type: "conversation.item.create", item });
    const place = session.events.length;
    session.send({ type: "response.create" });
    await session.until("response.done", place);
  },
};

function fail(sentence) {
  console.error(sentence);
  process.exit(1);
}

async function main() {
  const session = new Session();
  await session.until("session.created");
  await scenarios[scenario](session);
  session.socket.close(1000);
  const { code } = await session.closed;
  console.log(JSON.stringify({
    protocol: session.socket.protocol,
    extensions: session.socket.extensions,
    model: session.events[0].session.model,
    errors: session.events.filter((event) => event.type === "error"),
    heard: session.events
      .filter((event) => event.type.endsWith("input_audio_transcription.completed"))
      .map((event) => event.transcript),
    replies: session.replies(),
    statuses: session.statuses(),
    audio: session.audioMilliseconds(),
    code,
  }));
}

main().catch((error) => fail(error.stack));
