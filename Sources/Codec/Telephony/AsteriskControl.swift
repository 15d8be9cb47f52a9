// The control messages of Asterisk's media channel: events of the channel, and commands to it. Media
// are binary messages, bare samples, which Asterisk cuts into frames and times itself.
//
// A channel has its control messages as JSON (`f(json)` of its dial string, from Asterisk 20.18, 22.8
// and 23.2 on) or as plain text (`MEDIA_XOFF`, `DTMF_END digit:5 channel_id:…`). The first message
// shows which, and commands have the same form. A command of more than 128 bytes is ignored.
//
// Where a message is no whole number of frames, the channel drops the rest of it, unless media are
// buffered: then it joins the rest with the next message. `flush` ends the buffering, and does not
// end a pause.
//
// Source: asterisk/asterisk, channels/chan_websocket.c.

/// Reads events of a channel, and writes commands to it.
enum AsteriskControl {
    /// A command to the channel.
    enum Command {
        /// Reports with this id once all media before it was played. Dropped by `flush`.
        case mark(String)
        /// Joins messages of media that are no whole number of frames.
        case startBuffering
        /// Drops all media that waits, and the marks among it.
        case flush
        /// Plays silence, and keeps all media that waits.
        case pause
        /// Plays on after `pause`.
        case goOn
        /// Ends the call.
        case hangUp
    }

    /// An event in JSON.
    static func message(_ root: JSONValue) throws(TelephoneError) -> TelephoneMessage {
        guard let event = try root.name("event") else { throw .missing(.init("event")) }
        switch event {
        case "MEDIA_START":
            var call = TelephoneCall(carrier: .asterisk)
            call.callID = try root.name("channel_id") ?? ""
            call.streamID = try root.name("connection_id") ?? ""
            try addVariables(of: root["channel_variables"], to: &call)
            return .started(try start(call, format: try root.name("format")))
        case "MEDIA_MARK_PROCESSED":
            return played(try root.name("correlation_id"))
        case "DTMF_END":
            return TelephoneMessage.ofDigit(try root.name("digit") ?? "")
        case "ERROR":
            return .failed(try root.text("error_text", atMost: 4_096) ?? "")
        default:
            return message(named: event)
        }
    }

    /// An event as plain text: its name, and pairs of a name and a value with a colon between them.
    static func message(_ text: String) throws(TelephoneError) -> TelephoneMessage {
        guard text.utf8.count <= 4_096 else { throw .tooLong(.init("event")) }
        let words = text.split { $0 == " " || $0 == "\r" || $0 == "\n" }
        func value(_ name: String) -> String? {
            words.dropFirst().first { $0.hasPrefix(name + ":") }
                .map { String($0.dropFirst(name.count + 1)) }
        }
        switch words.first ?? "" {
        case "MEDIA_START":
            var call = TelephoneCall(carrier: .asterisk)
            call.callID = value("channel_id") ?? ""
            call.streamID = value("connection_id") ?? ""
            guard
                max(call.callID.utf8.count, call.streamID.utf8.count)
                    <= TelephoneLimits.maxNameBytes
            else { throw .tooLong(.init("channel_id")) }
            var start = try start(call, format: value("format"))
            start.usesPlainText = true
            return .started(start)
        case "MEDIA_MARK_PROCESSED": return played(words.dropFirst().first.map(String.init))
        case "DTMF_END": return TelephoneMessage.ofDigit(value("digit") ?? "")
        case "ERROR": return .failed(text)
        case let name: return message(named: String(name))
        }
    }

    private static func message(named name: String) -> TelephoneMessage {
        switch name {
        case "MEDIA_XOFF": .queue(hasRoom: false)
        case "MEDIA_XON": .queue(hasRoom: true)
        default: .other
        }
    }

    private static func played(_ id: String?) -> TelephoneMessage {
        id.flatMap(PlayoutMark.init(name:)).map { .played(mark: $0) } ?? .other
    }

    private static func start(
        _ call: TelephoneCall, format: String?
    ) throws(TelephoneError) -> TelephoneStart {
        guard let format else { throw .missing(.init("format")) }
        guard let coding = LineCoding(named: format, hertz: nil) else { throw .coding(format) }
        var call = call
        call.from = call.parameter("from")
        call.to = call.parameter("to")
        return TelephoneStart(call: call, coding: coding)
    }

    /// Channel variables whose names begin with `PARLEY_` are the application's parameters: the rest
    /// of the name, in lower case. Others are Asterisk's own.
    private static func addVariables(
        of value: JSONValue?, to call: inout TelephoneCall
    ) throws(TelephoneError) {
        guard let members = value?.members else { return }
        for (name, value) in members where name.hasPrefix("PARLEY_") {
            try call.add(name.dropFirst(7).lowercased(), value.string ?? "")
        }
    }

    // MARK: Commands

    /// Writes a command.
    static func write(
        _ command: Command, asPlainText isPlain: Bool, into writer: inout ByteWriter
    ) {
        guard !isPlain else {
            writer.append(command.name)
            if case .mark(let id) = command {
                writer.append(UInt8(ascii: " "))
                writer.append(id)
            }
            return
        }
        var json = JSONWriter(writer)
        json.beginObject()
        json.member("command", "\(command.name)")
        if case .mark(let id) = command { json.member("correlation_id", id) }
        json.endObject()
        writer = json.finish()
    }
}

extension AsteriskControl.Command {
    fileprivate var name: StaticString {
        switch self {
        case .mark: "MARK_MEDIA"
        case .startBuffering: "START_MEDIA_BUFFERING"
        case .flush: "FLUSH_MEDIA"
        case .pause: "PAUSE_MEDIA"
        case .goOn: "CONTINUE_MEDIA"
        case .hangUp: "HANGUP"
        }
    }
}
