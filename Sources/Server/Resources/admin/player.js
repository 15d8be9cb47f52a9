// Plays a recording of a session: two files of one timeline, the user and the agent. A page cannot give an
// <audio> element the operator's key, so the files are fetched piece by piece and played from memory.

/** How far, in seconds, the agent's side may be from the user's before it is moved. */
const TOLERANCE = 0.15;

/** Plays one recording in an element. */
export class Player {
  #element;
  #fetchPiece;
  #urls = [];
  #isClosed = false;

  /**
   * @param {HTMLElement} element gets the controls
   * @param fetchPiece `(name, side, offset)` gives `{bytes, total}`
   */
  constructor(element, fetchPiece) {
    this.#element = element;
    this.#fetchPiece = fetchPiece;
  }

  /** Fetches both sides, shows the controls, and begins to play. */
  async play({ name, user_bytes: user, agent_bytes: agent }) {
    const note = document.createElement("p");
    note.className = "faint";
    note.role = "status";
    this.#element.replaceChildren(note);
    let loaded = 0;
    const progress = (count) => {
      loaded += count;
      note.textContent = `Loading: ${Math.floor((100 * loaded) / (user + agent))} %`;
    };
    progress(0);
    const [leader, follower] = await Promise.all(
      ["user", "agent"].map((side) => this.#fetch(name, side, progress)));
    if (this.#isClosed) return;
    leader.controls = true;
    leader.setAttribute("aria-label", `Recording ${name}`);
    follower.hidden = true;
    follow(leader, follower);
    this.#element.replaceChildren(leader, follower);
    // A browser that wants another click has the controls for it.
    leader.play().catch(() => {});
  }

  /** Frees what was fetched. */
  close() {
    this.#isClosed = true;
    for (const audio of this.#element.querySelectorAll("audio")) audio.pause();
    for (const url of this.#urls) URL.revokeObjectURL(url);
    this.#element.replaceChildren();
  }

  async #fetch(name, side, progress) {
    const pieces = [];
    let offset = 0;
    for (;;) {
      const { bytes, total } = await this.#fetchPiece(name, side, offset);
      pieces.push(bytes);
      offset += bytes.byteLength;
      progress(bytes.byteLength);
      if (offset >= total || this.#isClosed) break;
    }
    if (this.#isClosed) return null;
    const url = URL.createObjectURL(new Blob(pieces, { type: "audio/ogg; codecs=opus" }));
    this.#urls.push(url);
    const audio = document.createElement("audio");
    audio.src = url;
    return audio;
  }
}

/** One element does what the other one does, at the same time of the recording. */
function follow(leader, follower) {
  const align = () => {
    if (Math.abs(follower.currentTime - leader.currentTime) > TOLERANCE) {
      follower.currentTime = leader.currentTime;
    }
  };
  leader.addEventListener("play", () => {
    align();
    follower.play().catch(() => {});
  });
  leader.addEventListener("pause", () => follower.pause());
  for (const event of ["seeked", "timeupdate"]) leader.addEventListener(event, align);
  leader.addEventListener("ratechange", () => {
    follower.playbackRate = leader.playbackRate;
  });
  leader.addEventListener("volumechange", () => {
    [follower.volume, follower.muted] = [leader.volume, leader.muted];
  });
}
