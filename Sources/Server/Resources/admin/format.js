// Numbers and times as the operator's page shows them. It touches no browser interface.

/** `12,345` */
export function count(number) {
  return Math.round(number).toLocaleString("en");
}

/** Bytes in powers of 1,000: `999 B`, `12.3 kB`, `4.5 MB`. */
export function bytes(number) {
  if (number < 1000) return `${Math.round(number)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = number / 1000;
  let unit = 0;
  while (value >= 999.95 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** A span of time: `7 s`, `3 m 05 s`, `2 h 13 m`, `5 d 4 h`. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const two = (number) => String(number).padStart(2, "0");
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

/** A short time in microseconds: `0.2 ms`, `12 ms`, `1.3 s`. */
export function lag(microseconds) {
  const milliseconds = microseconds / 1000;
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`;
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** Milliseconds of a hop, or a dash. */
export function hop(milliseconds) {
  return milliseconds === null || milliseconds === undefined ? "–" : `${count(milliseconds)} ms`;
}

/** How long the last turn took until its reply began, in ms; null where it has none. */
export function replyDelay(turn) {
  return turn ? (turn.first_audio_ms ?? turn.first_token_ms) : null;
}

/** Two times in milliseconds with one unit: `310 / 450 ms`. */
export function hopPair(one, other) {
  const number = (value) => (value === null || value === undefined ? "–" : count(value));
  return one === null && other === null ? "–" : `${number(one)} / ${number(other)} ms`;
}

/** A session's id without what all of them have, so that the part that differs is seen first. */
export function shortID(id) {
  return id.replace(/^sess_/, "");
}

/** A time of day, with the date where it is another day. */
export function when(time) {
  const date = new Date(time);
  const clock = date.toLocaleTimeString("en-GB");
  if (date.toDateString() === new Date().toDateString()) return clock;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock.slice(0, 5)}`;
}

/** A state as a word for people. */
export function stateName(state) {
  return state === "connection" ? "No session" : state[0].toUpperCase() + state.slice(1);
}
