// The types of parley.js, the client of a Parley server in a web page.
// Names of the protocol (session, item, response) are those of PROTOCOL.md.

/** What went wrong, for programs. */
export type ErrorCode =
  /** The page is neither https nor of this machine: no microphone, no live sound. */
  | "insecure_context"
  | "unsupported_browser"
  /** The user or a policy has refused the microphone. */
  | "permission_denied"
  | "no_device"
  | "device_busy"
  /** The microphone was unplugged, and no other one took its place. */
  | "device_lost"
  /** The chosen loudspeaker cannot be used. */
  | "no_speaker"
  /** The browser plays nothing before a tap: call `unlock` inside one. */
  | "playback_blocked"
  /** A headset, a telephone call or the browser has paused the sound, and it does not go on by itself. The
   *  reply waits; `unlock` inside a tap lets it go on. */
  | "output_paused"
  /** Push to talk was shorter than the protocol's 100 ms. */
  | "too_short"
  | "invalid_address"
  /** A browser cannot send this credential as a subprotocol. */
  | "invalid_credential"
  /** The page came over https, and the server's address is not wss. */
  | "insecure_address"
  /** The page's Content-Security-Policy blocks the server or a file: `detail` has directive and source. */
  | "policy_blocked"
  /** A file of this module is not where it was looked for, as `detail` says: see `workletUrl`. */
  | "file_lost"
  | "credential_refused"
  /** The server's `allowed-origins` do not have this page. */
  | "origin_refused"
  /** The server's `allowed-hosts` do not have the name in its address. */
  | "host_refused"
  /** What answers at the address is no Parley server. */
  | "no_server"
  /** The server answers requests, but no WebSocket opens: a proxy may not pass it. */
  | "websocket_blocked"
  | "server_full"
  | "rate_limited"
  /** The server cannot be reached, or could not be for longer than the session waits. */
  | "network_lost"
  /** Another connection has resumed the session. */
  | "session_taken"
  | "session_ended"
  /** The connection was lost while push to talk was held, or the session while the user spoke. */
  | "speech_lost"
  /** A typed message was on its way when the connection was lost, and another session has begun: the entry
   *  has the state "unsure", and is not sent again. */
  | "message_lost"
  | "not_understood"
  | "reply_failed"
  /** A function of `tools` has thrown. The agent sees the error as its output. */
  | "tool_failed"
  | "server_error";

/** A failure that a user can see. */
export class ParleyError extends Error {
  /** For a `token` function that ends the session. */
  constructor(code: ErrorCode, detail?: string, cause?: unknown);
  readonly name: "ParleyError";
  readonly code: ErrorCode;
  /** A sentence for people. */
  readonly message: string;
  /** What the server or the browser says about it, or an empty string. */
  readonly detail: string;
  readonly cause?: unknown;
}

/** A function that the agent may call. */
export interface Tool {
  description: string;
  /** A JSON schema of the arguments; by default an object without properties. */
  parameters?: object;
  /** Returns the output: a text, or a value that becomes JSON. */
  run(args: any): unknown;
}

/** A type alone stands for the object with its defaults; null is push to talk. */
export type TurnDetection =
  | "server_vad"
  | "semantic_vad"
  | { type: "server_vad" | "semantic_vad"; [field: string]: unknown }
  | null;

export interface ConnectOptions {
  /** `wss://HOST/v1/realtime`, or the server's `https://HOST/`. By default the server that this module
   *  was loaded from. */
  url?: string;
  model?: string;
  /** A client secret, a token or a key; or a function that gets one, which is called for each connection.
   *  While a lost connection comes back, one that fails is called again, unless it throws a ParleyError. */
  token?: string | (() => string | Promise<string>);
  /** Fields of the protocol's session object: instructions, audio.output.voice, … */
  session?: object;
  /** Default "server_vad". */
  turnDetection?: TurnDetection;
  /** Functions by name. */
  tools?: Record<string, Tool>;
  /** Tool servers that the server reaches for the agent: the protocol's tools of type `mcp`. */
  toolServers?: object[];
  /** Whether replies are spoken. Default true. */
  speaks?: boolean;
  /** "auto" is Opus where the browser has it, and PCM elsewhere. */
  audio?: "auto" | "pcm";
  /** Where the page has `parley/worklet.js`, if not beside the other modules: a bundler may have moved it. */
  workletUrl?: string | URL;
}

/** A message, or a call of a function or of a tool server's tool. */
export interface Entry {
  id: string;
  kind: "message" | "call";
  role: "user" | "assistant";
  /** The words; of an interrupted reply those that were heard. */
  text: string;
  /** The words of a reply that were not heard, because it was interrupted. */
  cut: string;
  /** "pending": there are no words yet. "failed": there will be none, or the server does not have this typed
   *  message. "unsure": it may have been received before the session was lost. */
  state: "pending" | "streaming" | "done" | "failed" | "unsure";
  /** Of a call. */
  name?: string;
  arguments?: string;
  output?: string;
  /** The item was deleted: it is not part of the conversation any more. */
  isDeleted?: true;
}

/** The conversation so far. */
export class Transcript {
  readonly entries: Entry[];
  find(id: string): Entry | undefined;
  /** Takes an event of the server. Returns the entries that have changed; a response with `conversation`
   *  `none` changes none. A session does this itself. */
  apply(event: { type: string; [field: string]: any }): Entry[];
  toJSON(): object[];
  toText(): string;
}

/** Milliseconds from the end of the user's turn. Null: not reached yet. */
export interface Hops {
  /** The transcript was complete; 0 for a typed turn. */
  wordsMs: number | null;
  /** The first token of the reply. */
  tokenMs: number | null;
  /** The first sound of the reply left the audio thread. */
  soundMs: number | null;
}

export interface Device {
  id: string;
  /** Empty before the user has given permission. */
  label: string;
}

export type Link = "connecting" | "open" | "lost" | "closed";

export type Activity =
  | "idle"
  /** The microphone is on. */
  | "listening"
  /** The user speaks. */
  | "hearing"
  /** The turn is over, and nothing of the reply has been heard. */
  | "thinking"
  | "speaking";

export interface EventMap {
  link: Link;
  activity: Activity;
  /** An entry of the transcript is new or has changed. */
  entry: Entry;
  /** The newest turn has reached another hop. */
  hops: Hops;
  /** Loudness of microphone and reply, 0 to 1, some 20 to 50 times a second. */
  level: { input: number; output: number };
  /** The session goes on; a session that has ended says so with `closed`. */
  error: ParleyError;
  /** The list of devices has changed, or another microphone is in use. */
  devices: Device | null;
  /** The session object that the server has confirmed. */
  updated: object;
  /** The connection is back: with the missed events, with the whole conversation again, or with another
   *  session. */
  returned: "recovered" | "retold" | "anew";
  /** The connection is lost, and is tried again after so many milliseconds: `retry` does it at once. */
  waiting: { milliseconds: number };
  /** Sound has stopped and does not go on by itself, or goes on. What plays waits meanwhile. */
  output: "playing" | "paused";
  /** The server announces the end of the session. */
  leaving: { reason: string; milliseconds_left: number };
  /** The end; null after `close`. Where `open` rejects, it does not come. */
  closed: ParleyError | null;
  /** Every event of the server, as it came, except signs of life. */
  event: { type: string; [field: string]: any };
}

export class ParleySession {
  constructor(options?: ConnectOptions);

  /** Connects, once. Rejects with a ParleyError, also where the server refuses the settings; the session
   *  is closed then. `connect` calls it. */
  open(): Promise<void>;
  /** Ends the session, and frees microphone and loudspeaker. */
  close(): void;

  /** Makes the next attempt to come back at once, while the connection is lost. */
  retry(): void;

  /** Calls the listener for each event. Returns a function that ends it. What a listener throws is
   *  reported as an error of the page; the session goes on. */
  on<Name extends keyof EventMap>(
    name: Name, listener: (value: EventMap[Name]) => void): () => void;

  readonly link: Link;
  readonly activity: Activity;
  /** Whether the reply waits because its sound is paused. */
  readonly isOutputPaused: boolean;
  readonly transcript: Transcript;
  /** The session object that the server has confirmed; null before the first. */
  readonly session: any;
  /** Formats in use, gaps heard, and the jitter buffer's delay and content in ms. */
  readonly statistics: {
    input: "opus" | "pcm"; output: "opus" | "pcm"; gaps: number; bufferTargetMs: number;
    bufferedMs: number;
  };

  /** Makes sound possible. Call it inside a tap, before anything asynchronous. Returns the reason where
   *  the page has no live sound; replies are text then. `talk`, `press` and `say` call it themselves. */
  unlock(): ParleyError | null;

  /** Opens the microphone: the user may speak at any time. Call it inside a tap. Rejects with a
   *  ParleyError, as `press` does: why it cannot be opened, or `session_ended`. */
  talk(): Promise<void>;
  /** Closes the microphone. Speech that has begun ends as a turn. */
  hush(): void;
  /** Whether the microphone is open. */
  readonly isTalking: boolean;
  /** Whether silence is sent instead of what the microphone hears. */
  isMuted: boolean;

  /** Push to talk, with `turnDetection` null: begins a turn, and interrupts the reply. */
  press(): Promise<void>;
  /** Push to talk: ends the turn. */
  release(): Promise<void>;

  /** Sends a typed message, at once or when there is a connection, also into another session. Interrupts
   *  the reply. Throws `session_ended` after the end. */
  say(text: string): void;
  /** Stops the reply, also one that has not begun. Functions that are at work end; their outputs are
   *  not answered. */
  interrupt(): void;

  /** Merges fields into the protocol's session object. Where the server refuses a change of settings,
   *  an `error` comes, and the settings are what they were. */
  update(session: object): void;
  speaks: boolean;
  turnDetection: TurnDetection;
  /** Replaces the functions that are offered. */
  set tools(tools: Record<string, Tool>);
  /** The tool servers that are offered. */
  toolServers: object[];

  devices(): Promise<{ microphones: Device[]; speakers: Device[] }>;
  /** The microphone in use. */
  readonly device: Device | null;
  /** An empty id is the browser's choice, which also takes the place of a microphone that is gone. */
  useMicrophone(id: string): Promise<void>;
  /** An empty id is the browser's choice, which also takes the place of a loudspeaker that is gone.
   *  Without effect where the browser cannot choose. Rejects with `no_speaker`; the one before stays. */
  useSpeaker(id: string): Promise<void>;

  /** Sends an event of the protocol. Returns false where there is no connection. */
  send(event: { type: string; [field: string]: any }): boolean;
}

/** Opens a session. Rejects with a ParleyError. */
export function connect(options?: ConnectOptions): Promise<ParleySession>;

/** What this browser can do. */
export function capabilities(): Promise<{
  hasAudio: boolean; encodesOpus: boolean; decodesOpus: boolean;
}>;
