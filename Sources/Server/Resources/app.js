// The conversation page: it shows one session of parley.js, and passes on what the user does. The page
// uses the same protocol as every other client, at /v1/realtime of its own server.

import { ParleyError, ParleySession } from "./parley.js";
import { HopsChart } from "./page/hops.js";
import { Log } from "./page/log.js";
import { LostNotice } from "./page/lost.js";
import { Settings } from "./page/settings.js";
import { Setup } from "./page/setup.js";
import { tools } from "./page/tools.js";
import { Wave } from "./page/wave.js";
import { toText, toValues } from "./parley/conversation.js";

const find = (id) => document.getElementById(id);
const view = {
  state: find("state"), notice: find("notice"), noticeText: find("notice-text"),
  dismiss: find("dismiss"), talk: find("talk"), talkLabel: find("talk-label"), mute: find("mute"),
  stop: find("stop"), composer: find("composer"), message: find("message"), send: find("send"),
  keyForm: find("key-form"), key: find("key"), announcer: find("announcer"), save: find("save"),
  agent: find("agent"), listen: find("listen"),
};
const log = new Log(find("log"), find("welcome"));
const hops = new HopsChart(find("hops"), find("newest"));
const wave = new Wave(find("wave"));
const settings = new Settings(tools);
const setup = new Setup(find("local-model"));
const lost = new LostNotice(find("lost"), () => (session?.link === "lost" ? session.retry() : begin()));

/** The session; a closed one stays until the next begins. */
let session = null;
/** What is shown, by id: also of sessions that the server has lost. It is what can be saved. */
const entries = new Map();
/** The key that the user typed, if the server requires one. It is kept in memory only. */
let key = "";
/** The pause before the next attempt to begin a session, in s, and its timer; 0: there will be none. */
let retrySeconds = 1;
let retryTimer = 0;
/** The language of which the user was told that no voice speaks it. */
let missingVoice = "";
/** Whether a voice is being made for the user to hear it. */
let isPreviewing = false;

// ---- The session ----

/** Begins a conversation. Inside a tap, sound works at once; otherwise from the next tap on. */
async function begin() {
  const unsent = session?.link === "closed" ? session.transcript.entries.filter(isUnsent) : [];
  clearTimeout(retryTimer);
  retryTimer = 0;
  isPreviewing = false;
  end();
  const { speaks } = settings.values;
  const own = new ParleySession({
    token: key, speaks, turnDetection: settings.turnDetection, tools: settings.tools,
    toolServers: setup.toolServers,
    session: chosenSession({ hasVoice: true }),
  });
  // Both only count once sound begins.
  own.useMicrophone(settings.devices.microphone);
  own.useSpeaker(settings.devices.speaker);
  session = own;
  listen(own);
  for (const entry of unsent) {
    show({ ...entry, isDeleted: true });
    own.say(entry.text);
  }
  showState();
  try {
    await own.open();
  } catch (error) {
    if (session === own) handleEnd(error);
    return;
  }
  if (session !== own) return;
  retrySeconds = 1;
  startOver(own);
  showNotice("");
  showState();
  if (key && !setup.mayAdminister) readSetup();
}

/** The protocol's session, as the settings have it. A voice cannot change once the session has spoken. */
function chosenSession({ hasVoice }) {
  const { voice, language, instructions } = settings.values;
  return {
    ...(instructions ? { instructions } : {}),
    audio: {
      input: { transcription: { language: language || undefined } },
      ...(hasVoice ? { output: { voice } } : {}),
    },
  };
}

/** Whether an entry was typed, and no server has it. */
function isUnsent({ kind, role, state, text }) {
  return kind === "message" && role === "user" && state === "failed" && text !== "";
}

/** Shows a new or changed entry. */
function show(entry) {
  if (entry.isDeleted) entries.delete(entry.id);
  else entries.set(entry.id, entry);
  log.show(entry);
}

/** What is shown of another session stays, greyed. */
function startOver(own) {
  log.startOver(
    "The server has lost the conversation. A new one begins.",
    new Set(own.transcript.entries.map(({ id }) => id)));
}

/** Asks the server what answers, and shows it. */
async function readSetup() {
  await setup.read(key);
  setup.showQuestions(document.querySelectorAll(".try"));
  settings.offerVoices(setup.voices);
  settings.offerLanguages(setup.languages);
  view.agent.textContent = find("about-title").textContent = setup.sentence;
  view.agent.hidden = !setup.sentence;
  find("demo").hidden = find("how-to").hidden = !setup.isDemo;
  find("model-text").hidden = setup.isDemo;
  find("operators").hidden = !setup.mayAdminister;
}

/** Ends the conversation without a word. */
function end() {
  const old = session;
  session = null;
  missingVoice = "";
  old?.close();
}

function listen(own) {
  const on = (name, listener) => own.on(name, (value) => {
    if (session === own) listener(value);
  });
  on("link", showState);
  on("activity", showState);
  on("entry", show);
  on("hops", (times) => hops.show(times));
  on("level", (levels) => wave.add(levels));
  on("waiting", ({ milliseconds }) => lost.expect(milliseconds));
  on("error", (error) => {
    isPreviewing = false;
    showError(error);
    showState();
  });
  on("closed", handleEnd);
  on("output", (output) => {
    if (output === "playing") showNotice("");
  });
  on("devices", () => settings.refreshDevices());
  on("leaving", ({ reason, milliseconds_left: left }) => {
    if (reason !== "session_limit") return;
    showNotice(`The server ends this conversation in ${Math.round(left / 1000)} s.`);
  });
  on("returned", (what) => {
    if (what !== "anew") return;
    // The server may have started again with another agent, which has other tool servers.
    own.toolServers = [];
    readSetup().then(() => {
      if (session === own && setup.toolServers.length) own.toolServers = setup.toolServers;
    });
    startOver(own);
  });
  on("event", (event) => {
    if (event.type !== "response.done") return;
    if (event.response.conversation_id !== null) {
      noteMissingVoice(event.response);
      return announce(event.response);
    }
    isPreviewing = false;
    showState();
  });
}

/** The session has ended, or did not begin. A cause that may pass is tried again. */
function handleEnd(error) {
  const text = error?.detail ? `${error.message} (${error.detail})` : error?.message;
  if (["network_lost", "websocket_blocked", "server_full", "rate_limited"].includes(error?.code)) {
    retryTimer = setTimeout(begin, retrySeconds * 1000);
    lost.show(text);
    lost.expect(retrySeconds * 1000);
    retrySeconds = Math.min(retrySeconds * 2, 15);
    return showState();
  }
  lost.hide();
  showState();
  if (!error) return;
  if (["credential_refused", "invalid_credential"].includes(error.code)) return askForKey(error);
  showNotice(`${text} Press New to begin another one.`);
}

/** Shows the form for a key. */
function askForKey(error) {
  view.state.textContent = "This server asks for a key";
  showNotice(key ? error.detail && error.code !== "invalid_credential" ? error.detail : error.message
    : "");
  view.keyForm.hidden = false;
  view.key.value = "";
  view.key.focus();
}

/** Says once that no voice of the server speaks the language of the conversation. */
function noteMissingVoice({ metadata }) {
  const language = metadata?.parley_no_voice;
  if (!language || language === missingVoice) return;
  missingVoice = language;
  const name = new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  showNotice(`No voice of this server speaks ${name}: the replies are text.`);
}

/** Replies that are not spoken are read by a screen reader, each once it is whole. */
function announce(response) {
  if (response.output_modalities?.[0] !== "text") return;
  const texts = (response.output ?? []).map((item) => session.transcript.find(item.id)?.text);
  view.announcer.textContent = texts.filter(Boolean).join(" ");
}

// ---- What is shown ----

/** A tap lets paused sound go on. */
document.addEventListener("click", () => {
  if (session?.isOutputPaused) session.unlock();
});

const activities = {
  idle: "Ready", listening: "Listening", hearing: "You speak", thinking: "Thinking…",
  speaking: "Speaking",
};
const links = {
  connecting: "Connecting…", lost: "Connection lost", closed: "Disconnected",
};

function showState() {
  const link = session?.link ?? "closed";
  const isOpen = link === "open";
  const state = isOpen ? session.activity : link;
  view.state.dataset.state = state;
  view.state.textContent = isOpen ? activities[state] : links[link];
  view.talk.disabled = !isOpen;
  // A text that is typed meanwhile is sent when there is a connection.
  view.send.disabled = link === "closed" && !retryTimer;
  view.listen.disabled = !isOpen || isPreviewing;
  if (isOpen) lost.hide();
  if (link === "lost") lost.show("Connection lost. What you type now is sent when it is back.");
  view.stop.hidden = !isOpen || !["speaking", "thinking"].includes(state);
  showTalk(state);
  if (isOpen) showFacts();
}

function showTalk(state) {
  const isHold = session?.turnDetection === null;
  const isOn = isHold ? state === "hearing" : Boolean(session?.isTalking);
  view.talk.setAttribute("aria-pressed", String(isOn));
  view.talkLabel.textContent = isHold ? (isOn ? "Release to send" : "Hold to speak")
    : isOn ? "Microphone off" : "Start talking";
  view.mute.hidden = isHold || !isOn;
  view.mute.setAttribute("aria-pressed", String(Boolean(session?.isMuted)));
}

function showFacts() {
  const { input, output, gaps } = session.statistics;
  const names = {
    opus: "compressed (Opus), also for slow networks", pcm: "uncompressed (PCM), for fast networks",
  };
  const voice = session.session.audio?.output?.voice;
  const known = setup.voices.find(({ name }) => name === voice);
  find("fact-voice").textContent = known?.description ? `${voice}: ${known.description}` : voice ?? "–";
  find("fact-sound").textContent = input === output ? names[input]
    : `microphone ${names[input]}; reply ${names[output]}`;
  find("fact-gaps").textContent = String(gaps);
  find("fact-session").textContent = session.session.id;
}

function showNotice(text) {
  view.noticeText.textContent = text;
  view.notice.hidden = !text;
}

function showError(error) {
  const isTold = error instanceof ParleyError && error.detail
    && ["server_error", "reply_failed", "tool_failed", "rate_limited"].includes(error.code);
  showNotice(isTold ? error.detail : error.message);
}

// ---- What the user does ----

/** Runs what the user has asked for, and shows why it fails. */
async function attempt(action) {
  showNotice("");
  try {
    await action();
  } catch (error) {
    showError(error);
  }
  showState();
}

/** Sends what was typed, also without a connection: as soon as there is one. */
function say(text) {
  if (view.send.disabled) return;
  if (session.link === "closed") begin();
  attempt(() => session.say(text));
}

function isHoldMode() {
  return session?.link === "open" && session.turnDetection === null;
}

view.composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = view.message.value.trim();
  if (!text || view.send.disabled) return;
  view.message.value = "";
  say(text);
});
for (const button of document.querySelectorAll(".try")) {
  button.addEventListener("click", () => say(button.textContent));
}

view.talk.addEventListener("click", (event) => {
  if (isHoldMode()) {
    // The key Enter or a screen reader, which cannot hold: one click begins the turn, the next ends it.
    const isHeld = view.talk.getAttribute("aria-pressed") === "true";
    if (event.detail === 0) attempt(() => (isHeld ? session.release() : session.press()));
    return;
  }
  attempt(() => (session.isTalking ? session.hush() : session.talk()));
});
view.talk.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || !isHoldMode() || view.talk.disabled) return;
  view.talk.setPointerCapture(event.pointerId);
  attempt(() => session.press());
});
const release = () => session?.release();
view.talk.addEventListener("pointerup", release);
view.talk.addEventListener("pointercancel", release);
view.talk.addEventListener("contextmenu", (event) => event.preventDefault());
window.addEventListener("blur", release);

/** In push to talk the space bar acts as the button, unless the focused control uses it. */
function isTalkKey(event) {
  const own = event.target.closest?.("input, textarea, select, button, a, summary, dialog");
  return event.code === "Space" && isHoldMode() && (!own || own === view.talk);
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !view.stop.hidden && !document.querySelector("dialog[open]")) session.interrupt();
  if (!isTalkKey(event)) return;
  event.preventDefault();
  if (!event.repeat) attempt(() => session.press());
});
document.addEventListener("keyup", (event) => {
  if (event.code !== "Space" || !isHoldMode()) return;
  if (isTalkKey(event)) event.preventDefault();
  release();
});

view.mute.addEventListener("click", () => {
  session.isMuted = !session.isMuted;
  showState();
});
view.stop.addEventListener("click", () => session.interrupt());
view.dismiss.addEventListener("click", () => {
  showNotice("");
  view.message.focus();
});

view.keyForm.addEventListener("submit", (event) => {
  event.preventDefault();
  key = view.key.value.trim();
  view.key.value = "";
  view.keyForm.hidden = true;
  showNotice("");
  begin();
});

find("new").addEventListener("click", () => {
  entries.clear();
  log.clear();
  hops.clear();
  showNotice("");
  lost.hide();
  end();
  begin();
  session.unlock();
});

settings.listDevices = async () => session?.devices() ?? { microphones: [], speakers: [] };
settings.onApply = (before) => {
  if (!session) return;
  const { speaks, instructions } = settings.values;
  if (before.detection !== settings.values.detection) session.hush();
  session.turnDetection = settings.turnDetection;
  session.speaks = speaks;
  session.tools = settings.tools;
  const isNew = session.transcript.entries.length === 0;
  session.update({ ...chosenSession({ hasVoice: isNew }), instructions });
  showState();
};
/** The agent answers a greeting in a voice, outside of the conversation. */
settings.onListen = (voice) => attempt(() => {
  session.interrupt();
  session.unlock();
  session.send({
    type: "response.create",
    response: {
      conversation: "none", output_modalities: ["audio"], audio: { output: { voice } }, tools: [],
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Hello" }] }],
    },
  });
  isPreviewing = true;
});
settings.onDevice = (kind, id) => attempt(
  () => (kind === "microphone" ? session?.useMicrophone(id) : session?.useSpeaker(id)));

/** On a narrow screen the times and facts are folded away. */
find("details").addEventListener("click", ({ currentTarget: button }) => {
  button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") === "false"));
});

for (const button of [view.agent, find("connect-model")]) {
  button.addEventListener("click", () => find("about").showModal());
}

// ---- Saving ----

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  view.save.open = false;
}

find("save-text").addEventListener("click", () => {
  download("conversation.txt", "text/plain", toText([...entries.values()]));
});
find("save-json").addEventListener("click", () => {
  const saved = { savedAt: new Date().toISOString(), entries: toValues([...entries.values()]) };
  download("conversation.json", "application/json", `${JSON.stringify(saved, null, 2)}\n`);
});
document.addEventListener("click", (event) => {
  if (!view.save.contains(event.target)) view.save.open = false;
});

await readSetup();
if (!session) begin();
