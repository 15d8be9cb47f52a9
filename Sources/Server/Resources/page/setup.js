// The server's facts for the page before a session: the agent, the voices, the tool servers to offer.
// They also say whether a model of this machine runs, and whether the user may open the operator's page.

/** How often the page asks while the server does not know yet, and how long it waits between, in ms. */
const attempts = 10;
const pause = 400;

/** Questions that the guide answers best; the others are in the page. */
const guideQuestions = ["What is Parley?", "How many sessions are open?", "Count to 20"];

/** The setup, and the line about the model. */
export class Setup {
  #line;
  #agent = "";
  #model = null;
  #voices = [];
  #languages = [];
  #mayAdminister = false;
  #toolServers = [];
  #reading = 0;

  /** @param {HTMLElement} line shows the model of this machine */
  constructor(line) {
    this.#line = line;
  }

  /** What answers, as a sentence; "": that is not known. */
  get sentence() {
    if (this.isDemo) return "A demo agent answers";
    return this.#agent ? `${this.#model ?? "A model"} answers` : "";
  }

  /** Whether an agent without a model answers. */
  get isDemo() {
    return ["echo", "guide"].includes(this.#agent);
  }

  /** The server's voices, `{name, description}` each. */
  get voices() {
    return this.#voices;
  }

  /** The codes of the languages that the server hears; none: they are not known. */
  get languages() {
    return this.#languages;
  }

  /** Whether the user may open the operator's page. */
  get mayAdminister() {
    return this.#mayAdminister;
  }

  /** The tool servers for the agent, as the protocol's tools. */
  get toolServers() {
    return this.#toolServers.map((label) => (
      { type: "mcp", server_label: label, require_approval: "never" }));
  }

  /** Reads the setup, with the user's key or "". Resolves also where there is none. */
  async read(key) {
    this.#reading += 1;
    const setup = await fetchSetup(key);
    this.#agent = setup.agent ?? "";
    this.#model = setup.model ?? null;
    this.#voices = setup.voices ?? [];
    this.#languages = setup.languages ?? [];
    this.#mayAdminister = setup.administers ?? false;
    this.#toolServers = setup.tool_servers ?? [];
    this.#showModel(setup.local_model);
    this.#askAgain(setup.local_model, this.#reading);
  }

  /** Puts questions for this agent on the buttons. */
  showQuestions(buttons) {
    if (this.#agent !== "guide") return;
    [...buttons].forEach((button, index) => {
      button.textContent = guideQuestions[index] ?? button.textContent;
    });
  }

  /** The server asks the model when the page asks the server, and knows a moment later. */
  async #askAgain(model, reading) {
    let known = model;
    for (let attempt = 0; known?.state === "unknown" && attempt < attempts; attempt++) {
      await new Promise((resolve) => { setTimeout(resolve, pause); });
      const setup = await fetchSetup("");
      // Another reading has begun.
      if (reading !== this.#reading) return;
      known = setup.local_model;
      this.#showModel(known);
    }
  }

  #showModel(model) {
    const parts = model ? sentence(model) : [];
    this.#line.hidden = parts.length === 0;
    this.#line.replaceChildren(...parts);
  }
}

/** The line about a model: nothing where there is nothing to say. */
function sentence({ url, state, model, is_used: isUsed }) {
  if (state === "running" && isUsed) return [`${model} answers, from this machine.`];
  if (state === "running") {
    return [`A model runs on this machine. To talk to ${model}: `,
      code(`make run ARGS="--llm ${url} --model ${model}"`)];
  }
  if (state === "absent" && isUsed) {
    return ["The model of this machine does not answer. Start it: ", code("make brain")];
  }
  return [];
}

/** How long, in ms, the page waits for what its server has before it begins without. */
const LONGEST_WAIT = 10_000;

async function fetchSetup(key) {
  try {
    const response = await fetch("page/setup.json", {
      headers: key ? { Authorization: `Bearer ${key}` } : {}, signal: AbortSignal.timeout(LONGEST_WAIT),
    });
    return response.ok ? await response.json() : {};
  } catch {
    // The session's own connection shows what is wrong.
    return {};
  }
}

function code(text) {
  const element = document.createElement("code");
  element.textContent = text;
  return element;
}
