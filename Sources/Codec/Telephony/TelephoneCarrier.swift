// The carriers whose calls this server takes over a WebSocket, and which protocol each of them
// speaks. MediaStreamDialect has the names of those that stream media as JSON; AsteriskControl and
// ConversationRelayWriter have the two others.

/// A system that connects telephone calls with a WebSocket server.
public enum TelephoneCarrier: String, CaseIterable, Sendable {
    /// Twilio Media Streams.
    case twilio
    /// SignalWire's compatibility API.
    case signalwire
    /// Telnyx media streaming.
    case telnyx
    /// Exotel's Voicebot applet.
    case exotel
    /// Plivo audio streaming.
    case plivo
    /// Vobiz audio streaming.
    case vobiz
    /// The media channel of Asterisk (`chan_websocket`).
    case asterisk
    /// ConversationRelay of Twilio and Telnyx: the carrier itself recognises and speaks.
    case conversationRelay = "conversation-relay"

    /// The names of its media streams; nil where its messages are of another protocol.
    public var mediaStream: MediaStreamDialect? {
        switch self {
        case .twilio, .signalwire: .twilio
        case .telnyx: .telnyx
        case .exotel: .exotel
        case .plivo, .vobiz: .plivo
        case .asterisk, .conversationRelay: nil
        }
    }

    /// How it signs the request with which it connects, if it does.
    public var signing: CallSigning? {
        switch self {
        case .twilio, .conversationRelay: .twilio
        case .plivo: .plivo
        case .signalwire, .telnyx, .exotel, .vobiz, .asterisk: nil
        }
    }
}

extension TelephoneCarrier {
    /// Whether a text can be an id of this carrier's: ASCII letters and digits, and the marks that
    /// its documentation shows in ids. Twilio: `CA` and 32 hexadecimal digits; SignalWire, Plivo,
    /// Vobiz and Exotel: hexadecimal digits, some as UUIDs; Telnyx: `v3:` and base64; Asterisk: the
    /// name or number of a channel (`PJSIP/alice-00000001`, `Local/5@default-00000002;1`,
    /// `1700000000.12`).
    ///
    /// The lengths are not checked: carriers have changed them.
    func isIdentifier(_ text: String) -> Bool {
        let marks = marksOfIdentifiers
        return text.utf8.allSatisfy { $0.isASCIIAlphanumeric || marks.contains($0) }
    }

    private var marksOfIdentifiers: String.UTF8View {
        switch self {
        case .twilio, .signalwire, .exotel, .plivo, .vobiz: "-_".utf8
        case .telnyx, .conversationRelay: "-_:=+/".utf8
        case .asterisk: "-_.:/@;+".utf8
        }
    }
}

extension TelephoneCarrier: LosslessStringConvertible {
    /// The carrier with this name.
    public init?(_ description: String) { self.init(rawValue: description) }

    /// Its name.
    public var description: String { rawValue }
}

/// The names that a carrier's media streams have for the same things. One parser and one writer serve
/// all of them.
///
/// Sources: Twilio "Media Streams - WebSocket Messages"; Telnyx "Stream call media over WebSocket";
/// Exotel "WebSocket protocol" of AgentStream; Plivo "Audio Streaming Guide"; Vobiz, which has
/// Plivo's names.
public struct MediaStreamDialect: Sendable {
    /// The call's id in `start`. The first of these names that is there counts.
    let callID: [StaticString]
    /// The stream's id, in every message.
    let streamID: StaticString
    /// The members of `start` that describe the audio.
    let mediaFormat: StaticString
    let sampleRate: StaticString
    /// The application's own parameters of the call.
    let parameters: StaticString
    /// The event with which a mark comes back. The mark's name is in an object of the same name,
    /// or, in Plivo's dialect, beside `event`.
    let playedEvent: StaticString
    let namesMarkInside: Bool
    /// The events that are sent.
    let mediaEvent: StaticString
    let markEvent: StaticString
    let clearEvent: StaticString
    /// Whether a media message says how its payload is encoded.
    let describesMedia: Bool
    /// Whether media may come out of order.
    public let isReordered: Bool

    static let twilio = MediaStreamDialect(
        callID: ["callSid"], streamID: "streamSid", mediaFormat: "mediaFormat",
        sampleRate: "sampleRate", parameters: "customParameters", playedEvent: "mark",
        namesMarkInside: true, mediaEvent: "media", markEvent: "mark", clearEvent: "clear",
        describesMedia: false, isReordered: false)

    static let telnyx = MediaStreamDialect(
        callID: ["call_control_id", "call_sid"], streamID: "stream_id", mediaFormat: "media_format",
        sampleRate: "sample_rate", parameters: "custom_parameters", playedEvent: "mark",
        namesMarkInside: true, mediaEvent: "media", markEvent: "mark", clearEvent: "clear",
        describesMedia: false, isReordered: true)

    static let exotel = MediaStreamDialect(
        callID: ["call_sid"], streamID: "stream_sid", mediaFormat: "media_format",
        sampleRate: "sample_rate", parameters: "custom_parameters", playedEvent: "mark",
        namesMarkInside: true, mediaEvent: "media", markEvent: "mark", clearEvent: "clear",
        describesMedia: false, isReordered: false)

    static let plivo = MediaStreamDialect(
        callID: ["callId"], streamID: "streamId", mediaFormat: "mediaFormat",
        sampleRate: "sampleRate", parameters: "extra_headers", playedEvent: "playedStream",
        namesMarkInside: false, mediaEvent: "playAudio", markEvent: "checkpoint",
        clearEvent: "clearAudio", describesMedia: true, isReordered: false)
}
