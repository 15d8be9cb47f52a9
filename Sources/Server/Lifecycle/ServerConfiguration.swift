// Every setting of a server: those of its folders, composed, and the few that concern the whole. A
// folder declares its settings beside the code that reads them (ListenerSettings, TLSSettings …).
// Each is a property whose comment gives the default and the reason for it, and a `Setting` whose
// text says what it does. SessionLimits has the settings of one session, CodecSettings those of
// Opus.
//
// Not here: how values are read from options, environment and files; the `parley` command does that.

import Session

/// The configuration of a server. It never changes while the server runs.
public struct ServerConfiguration: Sendable {
    /// Event loops. One per core.
    public var shards = ProcessorShare.cores
    /// False: the route is for tests and measurements, and no part of the service.
    public var debugEcho = false
    /// False, also where the page is served: a server that hears no client stays below 20 MB. The page
    /// names its audio when it opens, which loads the model before the first sentence is over. `make run`
    /// sets it, so that there is nothing to wait for at all.
    public var warmsModels = false
    /// `parley`.
    public var defaultModel = "parley"
    /// True, as at OpenAI: a field that is misspelt, or of the beta, would otherwise count for nothing in
    /// silence.
    public var refusesUnknownFields = true

    /// Where the server listens.
    public var listener = ListenerSettings()
    /// Which clients may connect, and how many at once.
    public var admission = AdmissionSettings()
    /// Keys, tokens and client secrets.
    public var credentials = CredentialSettings()
    /// Quotas of those that have none of their own.
    public var quotas = QuotaSettings()
    /// Calls of telephone carriers.
    public var telephone = TelephoneSettings()
    /// Certificates, and how clients show theirs.
    public var tls = TLSSettings()
    /// How much the log reports about sessions.
    public var log = LogSettings()
    /// Threads for embedded speech models.
    public var workers = WorkerSettings()
    /// Requests to models, speech and tools.
    public var upstream = UpstreamSettings()
    /// Where sessions are kept.
    public var store = StoreSettings()
    /// Text requests over HTTP.
    public var textRequests = TextRequestSettings()
    /// Memory of one connection, and of the process.
    public var memory = MemorySettings()
    /// Requests, messages and output of a connection.
    public var connection = ConnectionSettings()
    /// Sessions that wait for their clients.
    public var resume = ResumeSettings()
    /// Connections that join a session.
    public var sidebands = SidebandSettings()
    /// Compression of messages.
    public var compression = CompressionSettings()
    /// The end of the server.
    public var drain = DrainSettings()
    /// Shares of a tick of the event loop.
    public var loop = LoopSettings()
    /// Phrases for turns that get no reply.
    public var phrases = PhraseSettings()
    /// Which sessions are recorded.
    public var recordings = SessionRecordingSettings()
    /// Limits of each session.
    public var session = SessionLimits()
    /// Opus, codecs kept for reuse, and spoken phrases kept for reuse.
    public var codecs = CodecSettings()

    private static let threads: [Setting<Self>] = [
        .integer(
            "shards", \.shards, 1...1_024, unit: "threads",
            "Event loops, each on its own thread. One per core.")
    ]

    private static let echo: [Setting<Self>] = [
        .toggle(
            "debug-echo", \.debugEcho,
            """
            Whether /debug/echo is served: a WebSocket that sends every message back, for \
            tests of conformance and for measurements.
            """)
    ]

    private static let models: [Setting<Self>] = [
        .toggle(
            "warm-models", \.warmsModels,
            """
            Whether the embedded speech models are loaded as soon as the server listens: 120 MB for \
            English, and 40 MB for the natural voice. By default they are loaded when the first \
            client names its audio in `session.update` or sends some, which takes a second or more.
            """)
    ]

    private static let sessions: [Setting<Self>] = [
        .text(
            "default-model", \.defaultModel, "a name",
            "The model's name in a session whose URL names none."),
        .toggle(
            "refuse-unknown-fields", \.refusesUnknownFields,
            """
            Whether a field that the protocol does not have is refused by name, in session.update, \
            response.create and requests for client secrets. Otherwise it is ignored.
            """),
    ]

    /// The defaults.
    public init() {}

    /// Every setting of a server, those of its sessions included, in the order in which those of one
    /// heading are shown.
    package static let settings: [SettingGroup<Self>] =
        places + limits + times
        + SessionLimits.settings.map { $0.within(\.session) }
        + [CodecSettings.settings.within(\.codecs)]

    private static let places: [SettingGroup<Self>] = [
        SettingGroup(.listening, ListenerSettings.address).within(\.listener),
        SettingGroup(.listening, threads),
        SettingGroup(.listening, ListenerSettings.queue).within(\.listener),
        SettingGroup(.listening, echo),
        SettingGroup(.admission, AdmissionSettings.rules).within(\.admission),
        SettingGroup(.credentials, CredentialSettings.keys).within(\.credentials),
        SettingGroup(.credentials, QuotaSettings.settings).within(\.quotas),
        SettingGroup(.credentials, CredentialSettings.limits).within(\.credentials),
        SettingGroup(.telephone, TelephoneSettings.settings).within(\.telephone),
        SettingGroup(.tls, TLSSettings.settings).within(\.tls),
        SettingGroup(.logging, LogSettings.settings).within(\.log),
        SettingGroup(.agents, WorkerSettings.settings).within(\.workers),
        SettingGroup(.agents, models),
        SettingGroup(.services, UpstreamSettings.settings).within(\.upstream),
        SettingGroup(.services, StoreSettings.settings).within(\.store),
        SettingGroup(.compression, CompressionSettings.settings).within(\.compression),
        SettingGroup(.fairness, LoopSettings.settings).within(\.loop),
        SettingGroup(.session, sessions),
        SettingGroup(.session, PhraseSettings.settings).within(\.phrases),
        SettingGroup(.recordings, SessionRecordingSettings.settings).within(\.recordings),
    ]

    private static let limits: [SettingGroup<Self>] = [
        SettingGroup(.limits, AdmissionSettings.limits).within(\.admission),
        SettingGroup(.limits, TextRequestSettings.counts).within(\.textRequests),
        SettingGroup(.limits, MemorySettings.settings).within(\.memory),
        SettingGroup(.limits, HTTPSettings.limits).within(\.connection.http),
        SettingGroup(.limits, WebSocketSettings.limits).within(\.connection.webSocket),
        SettingGroup(.limits, ConnectionSettings.limits).within(\.connection),
        SettingGroup(.limits, TextRequestSettings.output).within(\.textRequests),
        SettingGroup(.limits, ListenerSettings.limits).within(\.listener),
        SettingGroup(.limits, ResumeSettings.settings).within(\.resume),
        SettingGroup(.limits, SidebandSettings.settings).within(\.sidebands),
    ]

    private static let times: [SettingGroup<Self>] = [
        SettingGroup(.time, HTTPSettings.times).within(\.connection.http),
        SettingGroup(.time, WebSocketSettings.times).within(\.connection.webSocket),
        SettingGroup(.time, ConnectionSettings.times).within(\.connection),
        SettingGroup(.time, ListenerSettings.times).within(\.listener),
        SettingGroup(.time, TextRequestSettings.times).within(\.textRequests),
        SettingGroup(.time, ConnectionSettings.closing).within(\.connection),
        SettingGroup(.time, DrainSettings.settings).within(\.drain),
        SettingGroup(.time, AdmissionSettings.times).within(\.admission),
    ]
}

extension ServerConfiguration {
    /// Where other nodes reach this one, or nil where they cannot.
    /// - Parameter port: the port that it listens on. The default is the configured one.
    func reachableURL(atPort port: Int?) -> String? {
        if let url = store.nodeURL { return url }
        let host = listener.host
        guard host != "0.0.0.0", host != "::", !host.isEmpty else { return nil }
        let name = host.contains(":") ? "[\(host)]" : host
        let url = "\(tls.isOn ? "https" : "http")://\(name):\(port ?? listener.port)"
        return NodeRecord.isURL(url) ? url : nil
    }

    /// The first error in the settings, as one line that names the option; nil where there is none. It
    /// is looked for before a server starts, also in a program that uses the package. A server within
    /// all ranges and rules keeps every promise of its documentation.
    package var objection: String? {
        for setting in Self.settings.flatMap(\.settings) {
            if let objection = setting.objection(to: self) { return objection }
        }
        // The answers of one tick, and the last of them, must fit a queue that was within its share.
        if connection.maxQueuedOutputBytes < 2 * loop.maxWriteBytesPerTick {
            return "max-queued-output-bytes must be at least twice max-write-bytes-per-tick"
        }
        return tls.objection ?? credentials.objection ?? quotas.objection ?? connection.objection
            ?? admission.objection
    }
}
