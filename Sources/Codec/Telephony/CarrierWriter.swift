// The carrier's side of a line, for a client that plays a carrier: `parley call`, load tests. It
// writes what TelephoneParser reads, by the same table of names. CarrierParser reads what LineWriter
// writes.

/// Writes a carrier's messages on one line.
public struct CarrierWriter: Sendable {
    /// The facts of the call.
    public let call: TelephoneCall
    /// How the line's audio is encoded.
    public let coding: LineCoding

    /// A writer for a call.
    public init(_ call: TelephoneCall, _ coding: LineCoding = .mulaw) {
        self.call = call
        self.coding = coding
    }

    /// Whether media are binary messages, not text.
    public var sendsBinaryMedia: Bool { call.carrier == .asterisk }

    /// Writes the beginning of the call.
    public func start(into writer: inout ByteWriter) {
        guard let names = call.carrier.mediaStream else {
            return call.carrier == .asterisk
                ? startChannel(into: &writer) : setUpRelay(into: &writer)
        }
        write("event", "start", into: &writer) { json in
            json.member(names.streamID, call.streamID)
            json.key("start")
            json.beginObject()
            json.member(names.callID[0], call.callID)
            json.member(names.streamID, call.streamID)
            if let from = call.from { json.member("from", from) }
            if let to = call.to { json.member("to", to) }
            json.key(names.mediaFormat)
            json.beginObject()
            json.member("encoding", "\(coding.contentType.name)")
            json.member(names.sampleRate, coding.contentType.hertz)
            json.endObject()
            json.key(names.parameters)
            parameters(into: &json)
            json.endObject()
        }
    }

    private func startChannel(into writer: inout ByteWriter) {
        let format =
            switch coding {
            case .mulaw: "ulaw"
            case .alaw: "alaw"
            case .linear8: "slin"
            case .linear16: "slin16"
            case .linear24: "slin24"
            case .opus: "opus"
            }
        write("event", "MEDIA_START", into: &writer) { json in
            json.member("connection_id", call.streamID)
            json.member("channel_id", call.callID)
            json.member("format", format)
            json.key("channel_variables")
            json.beginObject()
            for parameter in call.parameters {
                json.key(text: "PARLEY_" + parameter.name.uppercased())
                json.string(parameter.value)
            }
            json.endObject()
        }
    }

    private func setUpRelay(into writer: inout ByteWriter) {
        write("type", "setup", into: &writer) { json in
            json.member("sessionId", call.streamID)
            json.member("callSid", call.callID)
            if let from = call.from { json.member("from", from) }
            if let to = call.to { json.member("to", to) }
            json.key("customParameters")
            parameters(into: &json)
        }
    }

    private func parameters(into json: inout JSONWriter) {
        json.beginObject()
        for parameter in call.parameters {
            json.key(text: parameter.name)
            json.string(parameter.value)
        }
        json.endObject()
    }

    /// Writes audio of the caller, in the session's format for the line's coding.
    /// - Parameter chunk: its number, from 1.
    public func media(
        _ audio: UnsafeRawBufferPointer, chunk: Int, into writer: inout ByteWriter
    ) {
        guard let names = call.carrier.mediaStream else {
            return coding.appendPlayed(audio, to: &writer)
        }
        var payload = ByteWriter(capacity: max(1, audio.count * 2))
        coding.appendPlayed(audio, to: &payload)
        let bytes = payload.copiedBytes
        write("event", "media", into: &writer) { json in
            json.member(names.streamID, call.streamID)
            json.key("media")
            json.beginObject()
            json.member("track", "inbound")
            json.member("chunk", chunk)
            json.key("payload")
            json.base64(bytes.span.bytes)
            json.endObject()
        }
    }

    /// Writes that a key was pressed.
    public func digit(_ digit: Character, into writer: inout ByteWriter) {
        if let names = call.carrier.mediaStream {
            write("event", "dtmf", into: &writer) { json in
                json.member(names.streamID, call.streamID)
                json.key("dtmf")
                json.beginObject()
                json.member("digit", String(digit))
                json.endObject()
            }
        } else if call.carrier == .asterisk {
            write("event", "DTMF_END", into: &writer) { $0.member("digit", String(digit)) }
        } else {
            write("type", "dtmf", into: &writer) { $0.member("digit", String(digit)) }
        }
    }

    /// Writes that the audio before a mark was played.
    public func played(_ name: String, into writer: inout ByteWriter) {
        guard let names = call.carrier.mediaStream else {
            return write("event", "MEDIA_MARK_PROCESSED", into: &writer) {
                $0.member("correlation_id", name)
            }
        }
        write("event", names.playedEvent, into: &writer) { json in
            json.member(names.streamID, call.streamID)
            if names.namesMarkInside {
                json.key(names.playedEvent)
                json.beginObject()
                json.member("name", name)
                json.endObject()
            } else {
                json.member("name", name)
            }
        }
    }

    /// Writes what the caller has said, where the carrier recognises speech.
    public func prompt(_ words: String, into writer: inout ByteWriter) {
        write("type", "prompt", into: &writer) { json in
            json.member("voicePrompt", words)
            json.member("last", true)
        }
    }

    /// Writes that the call has ended.
    /// - Returns: false where closing the WebSocket is all.
    public func stop(into writer: inout ByteWriter) -> Bool {
        guard let names = call.carrier.mediaStream else { return false }
        write("event", "stop", into: &writer) { $0.member(names.streamID, call.streamID) }
        return true
    }

    private func write(
        _ key: StaticString, _ name: StaticString, into writer: inout ByteWriter,
        _ members: (inout JSONWriter) -> Void
    ) {
        var json = JSONWriter(writer)
        json.beginObject()
        json.member(key, "\(name)")
        members(&json)
        json.endObject()
        writer = json.finish()
    }
}

/// A command of the server to a carrier.
public enum CarrierCommand: Equatable, Sendable {
    /// Play the audio that is in the parser's `audio` until its next call.
    case play
    /// Report when the audio before this was played.
    case mark(String)
    /// Drop the audio that was not played.
    case clear
    /// Play nothing, and keep the audio that was not played.
    case pause
    /// Play on.
    case goOn
    /// Speak these words.
    case speak(String, isLast: Bool)
    /// Recognise and speak this language.
    case language(String)
    /// End the call.
    case hangUp
    /// Something that a carrier has no meaning for.
    case other
}

/// Parses what a server sends to a carrier.
public struct CarrierParser: ~Copyable {
    private let json = JSONParser()
    private var decodedAudio = ByteWriter(capacity: 1_600)

    /// A parser.
    public init() {}

    /// The audio of the last `.play`, in the line's coding.
    public var audio: UnsafeRawBufferPointer { decodedAudio.withUnsafeBytes { $0 } }

    /// Parses one text message.
    /// - Throws: `notJSON`, or `payload`.
    public mutating func parse(
        _ message: [UInt8], of carrier: TelephoneCarrier
    ) throws(TelephoneError) -> CarrierCommand {
        decodedAudio.removeAll()
        let root: JSONValue
        do {
            root = try json.parse(message)
        } catch {
            throw .notJSON
        }
        guard let names = carrier.mediaStream else { return command(root) }
        guard let event = root["event"] else { return .other }
        if event.isString(names.mediaEvent) {
            guard let payload = root["media"]?["payload"]?.utf8 else { throw .payload }
            do {
                try Base64.decode(payload, into: &decodedAudio)
            } catch {
                throw .payload
            }
            return .play
        }
        if event.isString(names.markEvent) {
            let holder = names.namesMarkInside ? root["mark"] : root
            return .mark(holder?["name"]?.string ?? "")
        }
        return event.isString(names.clearEvent) ? .clear : .other
    }

    private func command(_ root: JSONValue) -> CarrierCommand {
        switch root["command"]?.string ?? root["type"]?.string {
        case "MARK_MEDIA": .mark(root["correlation_id"]?.string ?? "")
        case "FLUSH_MEDIA": .clear
        case "PAUSE_MEDIA": .pause
        case "CONTINUE_MEDIA": .goOn
        case "HANGUP", "end": .hangUp
        case "text":
            .speak(root["token"]?.string ?? "", isLast: root["last"]?.bool ?? false)
        case "language": .language(root["transcriptionLanguage"]?.string ?? "")
        default: .other
        }
    }
}
