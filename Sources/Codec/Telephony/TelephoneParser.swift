// Parses the messages of carriers: media streams of six carriers by the table of their names
// (MediaStreamDialect), the control messages of Asterisk, and ConversationRelay. Audio of a media
// stream is decoded from base64 into a buffer that is reused.
//
// Invariant: any bytes give a message or a `TelephoneError`, never a trap. An event that a carrier
// adds in a later version is `other`.

/// Parses carriers' messages, one after another, in buffers that it reuses. One parser serves all
/// lines of a thread. Media allocates nothing.
public struct TelephoneParser: ~Copyable {
    private let json: JSONParser
    /// Reads a JSON text within a message, while values of the message are in use.
    private let inner: JSONParser
    private var decodedAudio: ByteWriter

    /// Initial bytes of the audio buffer: 200 ms of G.711.
    private static let smallestAudioBuffer = 1_600
    /// Maximum bytes that the audio buffer keeps between messages. 64 KiB: far more than any carrier
    /// sends at once.
    private static let retainedAudioBytes = 64 << 10

    /// Creates a parser with room for ordinary media.
    public init() {
        json = JSONParser()
        inner = JSONParser()
        decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
    }

    /// The audio of the last `.media`; empty after any other message. Valid until the next `parse`.
    public var audio: UnsafeRawBufferPointer { decodedAudio.withUnsafeBytes { $0 } }

    /// Parses one text message.
    public mutating func parse(
        _ message: UnsafeRawBufferPointer, from carrier: TelephoneCarrier
    ) throws(TelephoneError) -> TelephoneMessage {
        let message = try read(message, from: carrier)
        if case .started(let start) = message { try start.call.checkNames() }
        return message
    }

    private mutating func read(
        _ message: UnsafeRawBufferPointer, from carrier: TelephoneCarrier
    ) throws(TelephoneError) -> TelephoneMessage {
        if decodedAudio.allocatedBytes > Self.retainedAudioBytes {
            decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
        } else {
            decodedAudio.removeAll()
        }
        if carrier == .asterisk, let first = message.first, first != UInt8(ascii: "{") {
            return try AsteriskControl.message(String(decoding: message, as: UTF8.self))
        }
        let root: JSONValue
        do {
            root = try json.parse(message)
        } catch {
            throw .notJSON
        }
        guard root.kind == .object else { throw .notAnObject }
        if let names = carrier.mediaStream { return try media(root, names, from: carrier) }
        if carrier == .asterisk { return try AsteriskControl.message(root) }
        return try relay(root, from: carrier)
    }

    // MARK: Media streams

    private mutating func media(
        _ root: JSONValue, _ names: MediaStreamDialect, from carrier: TelephoneCarrier
    ) throws(TelephoneError) -> TelephoneMessage {
        guard let event = root["event"] else { throw .missing(.init("event")) }
        // Checked first: nearly all messages of a call are media.
        if event.isString("media") { return try media(root) }
        if event.isString(names.playedEvent) {
            let holder = names.namesMarkInside ? root[names.playedEvent] : root
            guard let name = try holder?.text("name", atMost: TelephoneLimits.maxMarkBytes) else {
                throw .missing(.init("name"))
            }
            return PlayoutMark(name: name).map { .played(mark: $0) } ?? .other
        }
        if event.isString("dtmf") { return try digit(root["dtmf"]) }
        if event.isString("start") {
            return .started(try start(root, names, from: carrier))
        }
        if event.isString("stop") { return .stopped }
        if event.isString("error") {
            return .failed(String(decoding: root.rawBytes.prefix(512), as: UTF8.self))
        }
        return .other
    }

    private mutating func media(_ root: JSONValue) throws(TelephoneError) -> TelephoneMessage {
        guard let media = root["media"], let payload = media["payload"]?.utf8 else {
            throw .missing(.init("media.payload"))
        }
        // Where both directions are streamed, the reply's own audio comes back, too.
        if media["track"]?.isString("outbound") == true { return .other }
        do {
            try Base64.decode(payload, into: &decodedAudio)
        } catch {
            throw .payload
        }
        return .media(chunk: media["chunk"]?.wholeNumber)
    }

    private func start(
        _ root: JSONValue, _ names: MediaStreamDialect, from carrier: TelephoneCarrier
    ) throws(TelephoneError) -> TelephoneStart {
        guard let start = root["start"] else { throw .missing(.init("start")) }
        var call = TelephoneCall(carrier: carrier)
        for name in names.callID where call.callID.isEmpty {
            call.callID = try start.name(name) ?? ""
        }
        let streamID = try start.name(names.streamID)
        call.streamID = try (streamID == nil ? root : start).name(names.streamID) ?? ""
        try addParameters(of: start[names.parameters] ?? root[names.parameters], to: &call)
        call.from = try start.name("from") ?? call.parameter("from")
        call.to = try start.name("to") ?? call.parameter("to")
        let format = start[names.mediaFormat]
        let encoding = try format?.name("encoding") ?? "audio/x-mulaw"
        let hertz = format?[names.sampleRate]?.wholeNumber
        guard let coding = LineCoding(named: encoding, hertz: hertz) else {
            throw .coding(hertz.map { "\(encoding) at \($0) Hz" } ?? encoding)
        }
        return TelephoneStart(call: call, coding: coding)
    }

    /// Parameters are members of an object, or one text: an object as JSON, or `name=value` pairs
    /// with semicolons between them and values that are percent-encoded.
    private func addParameters(
        of value: JSONValue?, to call: inout TelephoneCall
    ) throws(TelephoneError) {
        guard let value else { return }
        if let members = value.members { return try add(members, to: &call) }
        guard let text = value.utf8 else { return }
        guard text.count <= TelephoneLimits.maxParameterBytes else {
            throw .tooLong(.init("parameters"))
        }
        if let members = (try? inner.parse(text))?.members { return try add(members, to: &call) }
        for pair in String(decoding: text, as: UTF8.self).split(separator: ";") {
            let parts = pair.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, let text = HTTPRequest.percentDecoded(parts[1]) else {
                continue
            }
            try call.add(String(parts[0]), text)
        }
    }

    private func add(
        _ members: JSONMembers, to call: inout TelephoneCall
    ) throws(TelephoneError) {
        for (name, value) in members {
            try call.add(name, value.string ?? String(decoding: value.rawBytes, as: UTF8.self))
        }
    }

    private func digit(_ holder: JSONValue?) throws(TelephoneError) -> TelephoneMessage {
        guard let text = try holder?.text("digit", atMost: 8) else {
            throw .missing(.init("digit"))
        }
        return TelephoneMessage.ofDigit(text)
    }

    // MARK: ConversationRelay

    private func relay(
        _ root: JSONValue, from carrier: TelephoneCarrier
    ) throws(TelephoneError) -> TelephoneMessage {
        guard let type = root["type"] else { throw .missing(.init("type")) }
        if type.isString("prompt") {
            guard let words = try root.text("voicePrompt", atMost: TelephoneLimits.maxPromptBytes)
            else { throw .missing(.init("voicePrompt")) }
            return .prompt(words, isLast: root["last"]?.bool ?? true)
        }
        if type.isString("interrupt") {
            let heard = try root.text(
                "utteranceUntilInterrupt", atMost: TelephoneLimits.maxPromptBytes)
            return .interrupted(heard: heard ?? "")
        }
        if type.isString("dtmf") { return try digit(root) }
        if type.isString("setup") {
            var call = TelephoneCall(carrier: carrier)
            call.callID = try root.name("callSid") ?? ""
            call.streamID = try root.name("sessionId") ?? ""
            try addParameters(of: root["customParameters"], to: &call)
            call.from = try root.name("from") ?? call.parameter("from")
            call.to = try root.name("to") ?? call.parameter("to")
            return .started(TelephoneStart(call: call, coding: nil))
        }
        if type.isString("error") {
            return .failed(try root.text("description", atMost: 4_096) ?? "")
        }
        return .other
    }
}

extension TelephoneMessage {
    /// A key that was pressed, by its name on the wire. Anything else has no meaning.
    static func ofDigit(_ text: String) -> TelephoneMessage {
        guard text.utf8.count == 1, let digit = text.uppercased().first,
            "0123456789*#ABCD".contains(digit)
        else { return .other }
        return .digit(digit)
    }
}

extension JSONValue {
    /// A member's text; nil where it is absent, null or no string.
    func text(
        _ key: StaticString, atMost limit: Int
    ) throws(TelephoneError) -> String? {
        guard let utf8 = self[key]?.utf8 else { return nil }
        guard utf8.count <= limit else { throw .tooLong(.init(key)) }
        return String(decoding: utf8, as: UTF8.self)
    }

    /// A member's text that is an id, a number or a name.
    func name(_ key: StaticString) throws(TelephoneError) -> String? {
        try text(key, atMost: TelephoneLimits.maxNameBytes)
    }

    /// A whole number from 0, which carriers write as a number or as its digits.
    var wholeNumber: Int? {
        if let int { return int >= 0 ? int : nil }
        guard let utf8, (1...15).contains(utf8.count) else { return nil }
        var number = 0
        for byte in utf8 {
            guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
            number = number * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return number
    }
}
