// The demo page: one realtime session, typed or spoken. audio.js records and plays sound, and resume.js
// has the connection. The page uses the same protocol as every other client, at /v1/realtime of its own
// server.

import { Microphone, Player, audioContext, base64 } from "/audio.js";
import { ResumableSocket } from "/resume.js";

const find = (id) => document.getElementById(id);
const view = {
  state: find("state"), log: find("log"), welcome: find("welcome"), notice: find("notice"),
  talk: find("talk"), talkLabel: find("talk-label"), composer: find("composer"),
  message: find("message"), send: find("send"), handsFree: find("hands-free"),
  speak: find("speak"), stop: find("stop"), keyForm: find("key-form"), key: find("key"),
};

const player = new Player();
const microphone = new Microphone();

/** The connection, and the state of its conversation. */
const socket = new ResumableSocket();
let retrySeconds = 1;
/** The turn that was sent last: its events, and what the server is known to have of it. */
let sentTurn = null;
/** The id of the event that asks, after a return, whether the server has the turn. */
let search = null;
let returns = 0;
/** Whether the conversation is being told from its beginning, after events were lost. */
let isRetold = false;
/** The key that the user typed, if the server requires one. It is kept in memory only. */
let key = "";
/** Close code: another connection has the session. */
const takenOver = 4409;
/** Bubbles of the conversation by item id. */
const turns = new Map();
let activeResponse = null;
/** Responses that the user has stopped: audio of them that still arrives is not played. */
const stopped = new Set();
/** Hold-to-talk: whether the button is down, and how many pieces of 20 ms were sent. */
let isHolding = false;
let sentPieces = 0;
/** The end of the user's turn, to show the reply's delay; null once it is shown. */
let turnEnd = null;

// ---- Connection ----

function connect() {
  showState("connecting", "Connecting…");
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  // A browser can set no header on a WebSocket, so the key is sent as a subprotocol.
  const protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : ["realtime"];
  try {
    socket.open(`${scheme}://${location.host}/v1/realtime`, protocols);
  } catch {
    askForKey("A browser cannot send this key: it has signs that are not allowed there.");
  }
}

socket.onEvent = (event) => handlers[event.type]?.(event);
socket.played = () => player.kept;

socket.onLost = () => {
  if (isHolding) showNotice("The connection was lost while you spoke. Please say it again.");
  release({ commits: false });
  disable();
  showState("reconnecting", "Connection lost. Coming back…");
};

socket.onReturn = (what) => {
  if (what === "anew") {
    reset();
    addAside("The server has lost the conversation: a new one begins");
  }
  isRetold = what === "retold";
  if (isRetold) activeResponse = null;
  // The server may have missed the settings.
  configure();
  // The answer comes after everything that was missed. A spoken turn has no item of the page's: the
  // answer is an error.
  returns += 1;
  search = `find-${returns}`;
  const item_id = sentTurn?.event.item?.id ?? search;
  send({ type: "conversation.item.retrieve", event_id: search, item_id });
};

socket.onEnd = async ({ code, reason, wasOpen }) => {
  reset();
  const refusal = wasOpen ? null : await tellRefusal();
  if (refusal) {
    askForKey(key ? refusal : "");
    return;
  }
  if (code === takenOver) {
    showState("disconnected", "The conversation goes on elsewhere");
    return;
  }
  const why = reason || (code === 1006 ? "the server cannot be reached" : `code ${code}`);
  showState("disconnected", `Disconnected: ${why}. Trying again in ${retrySeconds} s`);
  setTimeout(connect, retrySeconds * 1000);
  retrySeconds = Math.min(retrySeconds * 2, 15);
};

/**
 * Returns the server's message if it refuses the page's key, otherwise null. A WebSocket does not
 * tell a page why it was refused; an HTTP request with the same key does.
 */
async function tellRefusal() {
  try {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    const response = await fetch("/v1/models", { headers });
    if (![401, 403, 429].includes(response.status)) return null;
    return (await response.json()).error?.message ?? "The server does not accept this key.";
  } catch {
    return null;
  }
}

/** Shows the form for a key, and stops reconnecting. */
function askForKey(problem) {
  showState("disconnected", "This server asks for a key");
  showNotice(problem);
  view.keyForm.hidden = false;
  view.key.value = "";
  view.key.focus();
}

function send(event) {
  socket.send(event);
}

/** Sends a turn of the user, and asks for the answer. */
function sendTurn(event) {
  sentTurn = { event, isKnown: false, isAnswered: false };
  search = null;
  send(event);
  send({ type: "response.create" });
  turnEnd = performance.now();
}

/** Everything that was missed has come: what the server does not know was lost on its way there. */
function catchUp() {
  if (!search) return;
  search = null;
  if (stopped.has(activeResponse)) send({ type: "response.cancel" });
  if (!sentTurn || sentTurn.isAnswered) return;
  if (!sentTurn.isKnown) send(sentTurn.event);
  send({ type: "response.create" });
}

function configure() {
  const format = { type: "audio/pcm", rate: 24000 };
  const detection = view.handsFree.checked ? { type: "server_vad" } : null;
  send({
    type: "session.update",
    session: {
      type: "realtime",
      output_modalities: [view.speak.checked ? "audio" : "text"],
      audio: {
        input: { format, transcription: { model: "default" }, turn_detection: detection },
        output: { format },
      },
    },
  });
}

function reset() {
  for (const [, turn] of turns) turn.classList.remove("pending");
  turns.clear();
  stopped.clear();
  activeResponse = null;
  sentTurn = null;
  isRetold = false;
  search = null;
  release({ commits: false });
  player.stop();
  player.forget();
  view.stop.hidden = true;
  disable();
}

function disable() {
  for (const control of [view.talk, view.send]) control.disabled = true;
}

function showState(state, text) {
  view.state.dataset.state = state;
  view.state.textContent = text;
}

// ---- Events of the server ----

const handlers = {
  "session.created"() {
    retrySeconds = 1;
    configure();
  },
  "session.updated"() {
    isRetold = false;
    showState("connected", "Connected");
    for (const control of [view.talk, view.send]) control.disabled = false;
  },
  "input_audio_buffer.speech_started"({ item_id }) {
    // The reply may resume from here, if the server decides that this was no interruption.
    acknowledge(player.stop());
    turn(item_id, "user");
  },
  "input_audio_buffer.speech_stopped"() {
    turnEnd = performance.now();
  },
  "input_audio_buffer.committed"({ item_id }) {
    if (sentTurn?.event.type === "input_audio_buffer.commit") sentTurn.isKnown = true;
    turn(item_id, "user");
  },
  "conversation.item.input_audio_transcription.delta"({ item_id, delta }) {
    append(item_id, "user", delta);
  },
  "conversation.item.input_audio_transcription.completed"({ item_id, transcript }) {
    settle(item_id, "user", transcript || "(no words were heard)");
  },
  "conversation.item.input_audio_transcription.failed"({ item_id, error }) {
    settle(item_id, "user", "(not understood)");
    showNotice(error?.message ?? "The transcription failed.");
  },
  "conversation.item.added"({ item }) {
    if (sentTurn && sentTurn.event.item?.id === item.id) sentTurn.isKnown = true;
    if (!isRetold || item.type !== "message") return;
    // The answer to the last turn is behind it.
    if (sentTurn) sentTurn.isAnswered = item.role === "assistant";
    settle(item.id, speaker(item), words(item));
    if (item.status === "in_progress") turn(item.id, speaker(item)).classList.add("pending");
  },
  "conversation.item.done"({ item }) {
    if (isRetold && item.type === "message") settle(item.id, speaker(item), words(item));
  },
  "conversation.item.retrieved"({ item }) {
    if (item.id === sentTurn?.event.item?.id) catchUp();
  },
  "response.created"({ response }) {
    if (sentTurn) sentTurn.isAnswered = true;
    activeResponse = response.id;
    view.stop.hidden = false;
  },
  "response.output_item.added"({ item }) {
    if (item.type === "message") turn(item.id, "agent");
  },
  "response.output_text.delta"({ item_id, delta }) {
    tellDelay("first words");
    append(item_id, "agent", delta);
  },
  "response.output_audio_transcript.delta"({ item_id, delta }) {
    append(item_id, "agent", delta);
  },
  "response.output_audio.delta"({ response_id, item_id, delta, audio_start_ms }) {
    if (stopped.has(response_id)) return;
    tellDelay("first sound");
    player.play(delta, item_id, audio_start_ms);
    view.stop.hidden = false;
  },
  "conversation.item.truncated"({ item_id, transcript }) {
    if (transcript !== undefined && turns.has(item_id)) settle(item_id, "agent", `${transcript} …`);
  },
  "conversation.item.deleted"({ item_id }) {
    turns.get(item_id)?.remove();
    turns.delete(item_id);
  },
  "response.function_call_arguments.done"({ name, arguments: text }) {
    addAside(`The agent calls ${name}(${text})`);
  },
  "response.done"({ response }) {
    if (activeResponse === response.id) activeResponse = null;
    stopped.delete(response.id);
    updateStop();
    for (const item of response.output ?? []) turns.get(item.id)?.classList.remove("pending");
    if (response.status === "failed") {
      showNotice(response.status_details?.error?.message ?? "The reply failed.");
    }
  },
  "error"({ error }) {
    if (error.event_id?.startsWith("find-")) {
      if (error.event_id === search) catchUp();
      return;
    }
    // The reply may have ended before the server received the request to cancel it.
    if (error.code !== "response_cancel_not_active") showNotice(error.message);
  },
};

// ---- The conversation on the page ----

/** Whose bubble an item has. */
function speaker({ role }) {
  return role === "assistant" ? "agent" : "user";
}

/** The words of an item. */
function words({ content }) {
  return (content ?? []).map((part) => part.transcript ?? part.text ?? "").join(" ");
}

function turn(itemID, who) {
  let element = turns.get(itemID);
  if (!element) {
    element = document.createElement("p");
    element.className = `turn ${who} pending`;
    const label = document.createElement("span");
    label.className = "who";
    label.textContent = who === "user" ? "You: " : "Agent: ";
    const text = document.createElement("span");
    text.className = "text";
    text.textContent = "…";
    element.append(label, text);
    turns.set(itemID, element);
    addToLog(element);
  }
  return element;
}

function append(itemID, who, text) {
  const element = turn(itemID, who);
  const target = element.querySelector(".text");
  if (element.classList.contains("pending")) target.textContent = "";
  element.classList.remove("pending");
  target.textContent += text;
  scrollToEnd();
}

function settle(itemID, who, text) {
  const element = turn(itemID, who);
  element.querySelector(".text").textContent = text;
  element.classList.remove("pending");
  scrollToEnd();
}

function addAside(text) {
  const element = document.createElement("p");
  element.className = "aside";
  element.textContent = text;
  addToLog(element);
}

function addToLog(element) {
  view.welcome.hidden = true;
  view.log.append(element);
  scrollToEnd();
}

function scrollToEnd() {
  view.log.scrollTop = view.log.scrollHeight;
}

function tellDelay(what) {
  if (turnEnd === null) return;
  addAside(`${what} after ${Math.round(performance.now() - turnEnd)} ms`);
  turnEnd = null;
}

function showNotice(text) {
  view.notice.textContent = text;
  view.notice.hidden = !text;
}

/** Shows the stop button while a reply is generated or played. */
function updateStop() {
  view.stop.hidden = !activeResponse && !player.isPlaying;
}

// ---- What the user does ----

/** Tells the server how much of a reply has been played. */
function acknowledge(heard) {
  if (!heard) return;
  send({
    type: "output_audio_buffer.played", item_id: heard.item, content_index: 0,
    audio_end_ms: heard.ms,
  });
}

/** Stops the reply at the user's request. */
function interrupt() {
  acknowledge(player.stop());
  if (activeResponse) stopped.add(activeResponse);
  view.stop.hidden = true;
}

function cancelReply() {
  const isActive = activeResponse && !stopped.has(activeResponse);
  interrupt();
  if (isActive) send({ type: "response.cancel" });
}

function say(text) {
  showNotice("");
  cancelReply();
  const id = `item_${crypto.getRandomValues(new Uint32Array(2)).join("")}`.slice(0, 24);
  settle(id, "user", text);
  sendTurn({
    type: "conversation.item.create",
    item: { id, type: "message", role: "user", content: [{ type: "input_text", text }] },
  });
}

async function hold() {
  if (isHolding || view.talk.disabled || view.handsFree.checked) return;
  isHolding = true;
  sentPieces = 0;
  showNotice("");
  cancelReply();
  showTalking(true);
  try {
    await microphone.open();
  } catch (error) {
    release({ commits: false });
    showNotice(`The microphone cannot be used: ${error.message}.`);
    return;
  }
  if (!isHolding) return;
  send({ type: "input_audio_buffer.clear" });
  microphone.onSamples = sendSamples;
}

function release({ commits }) {
  if (!isHolding) return;
  isHolding = false;
  microphone.onSamples = null;
  showTalking(false);
  // The protocol requires at least 100 ms of audio in a turn; a shorter press was accidental.
  if (commits && sentPieces >= 5) {
    sendTurn({ type: "input_audio_buffer.commit" });
  } else if (commits) {
    showNotice("Hold the button while you speak.");
  }
}

function sendSamples(buffer) {
  sentPieces += 1;
  send({ type: "input_audio_buffer.append", audio: base64(buffer) });
}

async function setHandsFree() {
  const isOn = view.handsFree.checked;
  microphone.onSamples = null;
  if (isOn) {
    try {
      await microphone.open();
      microphone.onSamples = sendSamples;
    } catch (error) {
      view.handsFree.checked = false;
      showNotice(`The microphone cannot be used: ${error.message}.`);
    }
  }
  configure();
  showTalking(view.handsFree.checked);
}

function showTalking(isTalking) {
  view.talk.setAttribute("aria-pressed", String(isTalking));
  const label = view.handsFree.checked ? "Listening, just speak" : "Hold to speak";
  view.talkLabel.textContent = isTalking && !view.handsFree.checked ? "Listening…" : label;
}

view.composer.addEventListener("submit", (event) => {
  event.preventDefault();
  audioContext();
  const text = view.message.value.trim();
  if (!text || view.send.disabled) return;
  view.message.value = "";
  say(text);
});

view.keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  key = view.key.value.trim();
  view.key.value = "";
  view.keyForm.hidden = true;
  showNotice("");
  connect();
});

view.talk.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  view.talk.setPointerCapture(event.pointerId);
  hold();
});
view.talk.addEventListener("pointerup", () => release({ commits: true }));
view.talk.addEventListener("pointercancel", () => release({ commits: true }));
view.talk.addEventListener("contextmenu", (event) => event.preventDefault());

/** The space bar acts as the talk button, unless the focused control uses it. */
function isTalkKey(event) {
  const own = event.target.closest?.("input, button, a");
  return event.code === "Space" && (!own || own === view.talk);
}
document.addEventListener("keydown", (event) => {
  if (!isTalkKey(event)) return;
  event.preventDefault();
  if (!event.repeat) hold();
});
document.addEventListener("keyup", (event) => {
  if (event.code !== "Space" || !isHolding) return;
  event.preventDefault();
  release({ commits: true });
});
window.addEventListener("blur", () => release({ commits: true }));

view.handsFree.addEventListener("change", setHandsFree);
view.speak.addEventListener("change", configure);
view.stop.addEventListener("click", cancelReply);

player.onEnd = updateStop;
setInterval(() => player.isPlaying && acknowledge(player.heard), 250);

connect();
