// The settings dialog. The browser keeps the settings, but not keys and devices.

const storageKey = "parley-settings";
/** The voices of the protocol, for a server that does not say which it has. */
const protocolVoices = [
  "marin", "cedar", "alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse",
].map((name) => ({ name, description: "" }));
const defaults = {
  voice: "marin", language: "", detection: "server_vad", patience: "", interruption: "",
  instructions: "", speaks: true, tools: ["get_time"],
};
/** The names of languages, by their codes. */
const languageNames = new Intl.DisplayNames(["en"], { type: "language" });

/** The settings, and the dialog that changes them. */
export class Settings {
  #dialog = document.getElementById("settings");
  #form = document.getElementById("settings-form");
  #tools;
  #devices = { microphone: "", speaker: "" };

  /** The settings as they are: voice, language, detection, patience, interruption, instructions,
   *  speaks, names of tools. */
  values = { ...defaults };
  /** The user has applied settings: receives the values before. */
  onApply = () => {};
  /** The user wants to hear a voice, by its name. */
  onListen = () => {};
  /** The user has chosen a device: "microphone" or "speaker", and its id. */
  onDevice = () => {};
  /** The ids of the chosen devices; "" is the browser's choice. */
  get devices() {
    return { ...this.#devices };
  }

  /** Returns the devices, as `ParleySession.devices` does. */
  listDevices = async () => ({ microphones: [], speakers: [] });

  /** @param {object} tools the page's functions by name, each with a `title` */
  constructor(tools) {
    this.#tools = tools;
    this.#load();
    this.offerVoices([]);
    this.#find("tools").replaceChildren(...Object.entries(tools).map(toolChoice));
    document.getElementById("open-settings").addEventListener("click", () => this.open());
    this.#find("cancel-settings").addEventListener("click", () => this.#dialog.close());
    this.#find("listen").addEventListener("click", () => this.onListen(this.#find("voice").value));
    this.#find("detection").addEventListener("change", () => this.#showWhatCounts());
    this.#form.addEventListener("submit", () => this.#apply());
  }

  /** Offers the voices of the server, `{name, description}` each; none: those of the protocol. */
  offerVoices(voices) {
    const offered = voices.length ? voices : protocolVoices;
    const select = this.#find("voice");
    const chosen = select.value;
    select.replaceChildren(...offered.map(({ name, description }) => new Option(
      description ? `${name}: ${description}` : name, name, false, name === chosen)));
  }

  /** Offers the languages that the server hears, by their codes; none: those of the user's browser. With
   *  one language there is nothing to choose. */
  offerLanguages(heard) {
    const codes = heard.length ? heard
      : [...new Set(navigator.languages.map((language) => language.split("-")[0]))];
    const select = this.#find("language");
    const chosen = this.values.language;
    const names = codes.map((code) => new Option(languageNames.of(code), code));
    select.replaceChildren(new Option("found out while you speak", ""), ...names);
    this.#find("language-choice").hidden = codes.length < 2;
    this.values.language = codes.length > 1 && codes.includes(chosen) ? chosen : "";
    select.value = this.values.language;
  }

  /** The turn detection of the protocol; null: push to talk. */
  get turnDetection() {
    const [type, eagerness] = this.values.detection.split(":");
    if (type === "hold") return null;
    const { patience, interruption } = this.values;
    return {
      type,
      ...(eagerness && { eagerness }),
      ...(eagerness && patience && { patience }),
      ...(interruption && { interruption }),
    };
  }

  /** The chosen functions, by name. */
  get tools() {
    return Object.fromEntries(
      Object.entries(this.#tools).filter(([name]) => this.values.tools.includes(name)));
  }

  /** Shows the dialog. */
  async open() {
    const {
      voice, language, detection, patience, interruption, instructions, speaks, tools,
    } = this.values;
    this.#find("language").value = language;
    this.#find("voice").value = voice;
    // It was chosen at a server that has other voices.
    if (!this.#find("voice").value) this.#find("voice").selectedIndex = 0;
    this.#find("detection").value = detection;
    this.#find("patience").value = patience;
    this.#find("interruption").value = interruption;
    this.#showWhatCounts();
    this.#find("instructions").value = instructions;
    this.#find("speaks").checked = speaks;
    for (const box of this.#form.querySelectorAll("#tools input")) {
      box.checked = tools.includes(box.value);
    }
    await this.#showDevices();
    this.#dialog.showModal();
  }

  /** Patience needs words to judge, and nothing interrupts a reply by itself where a button ends turns. */
  #showWhatCounts() {
    const detection = this.#find("detection").value;
    this.#find("patience").disabled = !detection.startsWith("semantic_vad");
    this.#find("interruption").disabled = detection === "hold";
  }

  /** Shows the devices that there are now. */
  async refreshDevices() {
    if (this.#dialog.open) await this.#showDevices();
  }

  async #showDevices() {
    const { microphones, speakers } = await this.listDevices();
    this.#fill("microphone", microphones);
    this.#fill("speaker", speakers);
    const canChoose = "setSinkId" in HTMLMediaElement.prototype && speakers.length > 0;
    this.#find("speaker-choice").hidden = !canChoose;
  }

  #fill(kind, devices) {
    const select = this.#find(kind);
    const options = devices.map(({ id, label }, index) => new Option(label || `${index + 1}`, id));
    select.replaceChildren(new Option("The browser's choice", ""), ...options);
    const isThere = devices.some(({ id }) => id === this.#devices[kind]);
    if (!isThere) this.#devices[kind] = "";
    select.value = this.#devices[kind];
  }

  #apply() {
    const before = this.values;
    this.values = {
      voice: this.#find("voice").value,
      language: this.#find("language").value,
      detection: this.#find("detection").value,
      patience: this.#find("patience").value,
      interruption: this.#find("interruption").value,
      instructions: this.#find("instructions").value.trim(),
      speaks: this.#find("speaks").checked,
      tools: [...this.#form.querySelectorAll("#tools input:checked")].map((box) => box.value),
    };
    try {
      localStorage.setItem(storageKey, JSON.stringify(this.values));
    } catch {
      // The browser keeps nothing for this page.
    }
    this.onApply(before);
    for (const kind of ["microphone", "speaker"]) {
      const id = this.#find(kind).value;
      if (id === this.#devices[kind]) continue;
      this.#devices[kind] = id;
      this.onDevice(kind, id);
    }
  }

  #load() {
    try {
      const stored = JSON.parse(localStorage.getItem(storageKey) ?? "{}");
      for (const name of Object.keys(defaults)) {
        if (typeof stored[name] === typeof defaults[name]) this.values[name] = stored[name];
      }
    } catch {
      // Settings that cannot be read, such as another version's, are ignored.
    }
  }

  #find(id) {
    return document.getElementById(id);
  }
}

function toolChoice([name, { title }]) {
  const label = document.createElement("label");
  label.className = "check";
  const box = document.createElement("input");
  box.type = "checkbox";
  box.value = name;
  label.append(box, ` ${title}`);
  return label;
}
