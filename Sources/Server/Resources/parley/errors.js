// The failures that a user may see: each has a code for programs and a sentence for people.

const sentences = {
  insecure_context:
    "The microphone and the loudspeaker work only on pages over https, or of this machine.",
  unsupported_browser: "This browser cannot record or play live audio. A newer one can.",
  permission_denied:
    "The microphone is blocked. Allow it for this page in the browser's settings, and try again.",
  no_device: "No microphone was found. Connect one, and try again.",
  device_busy: "The microphone cannot be opened: another program may be using it.",
  device_lost: "The microphone was disconnected. Choose another one, or connect it again.",
  no_speaker: "This loudspeaker cannot be used. Choose another one.",
  playback_blocked: "The browser does not play sound before a tap on the page.",
  output_paused: "The sound is paused. The reply waits: tap on the page to hear it.",
  too_short: "Hold the button while you speak.",
  invalid_address: "The address of the server is not valid.",
  invalid_credential: "A browser cannot send this key: it has signs that are not allowed there.",
  insecure_address: (server) =>
    `A page over https connects only over wss. The address of the server is ${server}.`,
  policy_blocked: (source) =>
    `The Content-Security-Policy of this page blocks the server. It needs: ${source}.`,
  file_lost: (file) =>
    `A file of parley.js was not loaded: ${file}. Set workletUrl, where a bundler has moved it.`,
  credential_refused: "The server does not accept this key.",
  origin_refused: "The server does not accept connections from this page.",
  host_refused: "The server does not answer to this name (its setting allowed-hosts).",
  no_server: "There is no Parley server at this address.",
  websocket_blocked:
    "The server answers, but the connection does not open: a proxy may not pass WebSocket.",
  server_full: "The server has no free place at the moment. Try again in a few minutes.",
  rate_limited: "Too many requests. Try again in a moment.",
  network_lost: "The server cannot be reached. Check the network.",
  session_taken: "The conversation goes on in another window or on another device.",
  session_ended: "The server has ended the conversation.",
  speech_lost: "The connection was lost while you spoke. Please say it again.",
  message_lost: "The connection was lost with your message on its way. Send it again if you need to.",
  not_understood: "Your words were not understood.",
  reply_failed: "The reply failed.",
  tool_failed: "A function of the page failed.",
  server_error: "The server reports an error.",
};

/**
 * A failure. `code` is one of those above, `message` a sentence for people, and `detail` what the server
 * or the browser says about it, or an empty string.
 */
export class ParleyError extends Error {
  /** @param {keyof typeof sentences} code @param {string} [detail] @param {unknown} [cause] */
  constructor(code, detail = "", cause = undefined) {
    const sentence = sentences[code];
    super(typeof sentence === "function" ? sentence(detail) : sentence, cause === undefined ? undefined : { cause });
    this.name = "ParleyError";
    this.code = code;
    this.detail = detail;
  }
}

const codesOfDevices = {
  NotAllowedError: "permission_denied",
  SecurityError: "permission_denied",
  NotFoundError: "no_device",
  OverconstrainedError: "no_device",
  NotReadableError: "device_busy",
  AbortError: "device_busy",
};

/** The error of a microphone that could not be opened. */
export function microphoneError(cause) {
  if (cause instanceof ParleyError) return cause;
  const code = codesOfDevices[cause?.name] ?? "unsupported_browser";
  return new ParleyError(code, cause?.message ?? "", cause);
}

/**
 * The error of a connection that did not open or has ended.
 * @param {number} status what the server answers to an HTTP request; 0: it does not answer
 * @param {string} code of the answer's error
 */
export function refusal(status, code, message) {
  if (code === "origin_not_allowed") return new ParleyError("origin_refused", message);
  if (status === 421) return new ParleyError("host_refused", message);
  if (status === 404 || status === 405) return new ParleyError("no_server", message);
  if (status === 401 || status === 403) return new ParleyError("credential_refused", message);
  if (status === 429) return new ParleyError("rate_limited", message);
  if (status === 503) return new ParleyError("server_full", message);
  return new ParleyError("network_lost", message || `status ${status}`);
}
