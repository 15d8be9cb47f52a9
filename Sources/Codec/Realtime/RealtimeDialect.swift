// The two dialects of the protocol: general availability, and the beta before it. The parser and
// the writer of events take the dialect; everything between them speaks of the same events and
// values. Beta/ has what differs, as tables. Server decides the dialect at the upgrade.

/// A dialect of the Realtime protocol.
public enum RealtimeDialect: Sendable {
    /// General availability (August 2025), which PROTOCOL.md describes.
    case ga
    /// The beta of October 2024, for clients that ask for it by its header or subprotocol.
    case beta

    /// The value of the header `OpenAI-Beta` with which a client asks for the beta.
    public static let betaToken = "realtime=v1"
    /// The subprotocol with which a browser asks for the beta; it cannot set a header.
    public static let betaSubprotocol = "openai-beta.realtime-v1"

    /// The dialect that the fields of an opening handshake ask for. Without the beta's header or
    /// subprotocol it is general availability.
    public init(askedForBy fields: HTTPFields) {
        let isBeta =
            fields.contains(token: Self.betaToken, in: "OpenAI-Beta")
            || fields.contains(token: Self.betaSubprotocol, in: "Sec-WebSocket-Protocol")
        self = isBeta ? .beta : .ga
    }

    /// Whether the dialect has this event. The beta announces an item once, when it is added.
    public func has(_ event: ServerEvent) -> Bool {
        guard self == .beta, case .conversationItemDone = event else { return true }
        return false
    }

    /// The `type` of the event on the wire.
    func name(of event: ServerEvent) -> String {
        self == .ga ? event.wireName : event.betaName
    }

    /// The error as the dialect has it: fields by the dialect's names.
    func wording(of error: ClientEventError) -> ClientEventError {
        self == .ga ? error : BetaPaths.wording(of: error)
    }

    /// The type of text in a message of the agent's.
    var outputText: String { self == .ga ? "output_text" : "text" }

    /// The type of audio in a message of the agent's.
    var outputAudio: String { self == .ga ? "output_audio" : "audio" }
}
