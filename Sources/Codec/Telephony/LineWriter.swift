// Writes the messages to a carrier: media, marks and `clear`, by the table of its names. For Asterisk
// media is a binary message, which has no form of its own, and the others are its commands.

/// Writes messages to one line.
public struct LineWriter: Sendable {
    /// The carrier.
    public let carrier: TelephoneCarrier
    /// How the line's audio is encoded.
    public let coding: LineCoding
    /// The carrier's name for the stream.
    private let streamID: String
    private let usesPlainText: Bool

    /// A writer for a call that has begun. A line without audio is written to by
    /// ConversationRelayWriter.
    public init(_ start: TelephoneStart, _ coding: LineCoding) {
        carrier = start.call.carrier
        streamID = start.call.streamID
        usesPlainText = start.usesPlainText
        self.coding = coding
    }

    /// Heap bytes of the stream's name.
    public var heapBytes: Int { streamID.heapBytes }

    /// Whether media are binary messages, not text.
    public var sendsBinaryMedia: Bool { carrier == .asterisk }

    /// Whether the carrier reports marks, and drops its queue on request. Asterisk passes Opus
    /// through, and knows neither then.
    public var hasQueue: Bool { carrier != .asterisk || coding != .opus }

    /// Whether the carrier can pause its queue, and keep it.
    public var canPause: Bool { carrier == .asterisk && hasQueue }

    /// Writes the message that the carrier needs before the first audio, and again after each
    /// `clear`.
    /// - Returns: false where the carrier needs none.
    public func open(into writer: inout ByteWriter) -> Bool {
        guard canPause else { return false }
        AsteriskControl.write(.startBuffering, asPlainText: usesPlainText, into: &writer)
        return true
    }

    /// Writes the command to stop playing and to keep the queued audio. Only for carriers that can
    /// do that.
    public func pause(into writer: inout ByteWriter) {
        AsteriskControl.write(.pause, asPlainText: usesPlainText, into: &writer)
    }

    /// Writes that the carrier is to play on. Only where it can pause.
    public func goOn(into writer: inout ByteWriter) {
        AsteriskControl.write(.goOn, asPlainText: usesPlainText, into: &writer)
    }

    /// Writes audio of the session.
    public func media(_ audio: UnsafeRawBufferPointer, into writer: inout ByteWriter) {
        guard let names = carrier.mediaStream else {
            return coding.appendPlayed(audio, to: &writer)
        }
        guard coding.isConverted else { return media(audio, names, into: &writer) }
        var samples = ByteWriter(capacity: max(1, audio.count * 2))
        coding.appendPlayed(audio, to: &samples)
        samples.withUnsafeBytes { media($0, names, into: &writer) }
    }

    private func media(
        _ payload: UnsafeRawBufferPointer, _ names: MediaStreamDialect,
        into writer: inout ByteWriter
    ) {
        write(names.mediaEvent, names, into: &writer) { json in
            json.key("media")
            json.beginObject()
            if names.describesMedia {
                json.key("contentType")
                json.string("\(coding.contentType.name)")
                json.member("sampleRate", coding.contentType.hertz)
            }
            json.key("payload")
            json.base64(payload.bytes)
            json.endObject()
        }
    }

    /// Writes a mark, which comes back once all audio before it was played.
    public func mark(_ mark: PlayoutMark, into writer: inout ByteWriter) {
        guard let names = carrier.mediaStream else {
            return AsteriskControl.write(
                .mark(mark.name), asPlainText: usesPlainText, into: &writer)
        }
        write(names.markEvent, names, into: &writer) { json in
            if names.namesMarkInside {
                json.key("mark")
                json.beginObject()
                json.member("name", mark.name)
                json.endObject()
            } else {
                json.member("name", mark.name)
            }
        }
    }

    /// Writes that the carrier is to drop the audio that it has not played.
    public func clear(into writer: inout ByteWriter) {
        guard let names = carrier.mediaStream else {
            return AsteriskControl.write(.flush, asPlainText: usesPlainText, into: &writer)
        }
        write(names.clearEvent, names, into: &writer) { _ in }
    }

    /// Writes that the call is to end, where the carrier wants a message for that.
    /// - Returns: false where closing the WebSocket is all.
    public func hangUp(into writer: inout ByteWriter) -> Bool {
        guard carrier == .asterisk else { return false }
        AsteriskControl.write(.hangUp, asPlainText: usesPlainText, into: &writer)
        return true
    }

    private func write(
        _ event: StaticString, _ names: MediaStreamDialect, into writer: inout ByteWriter,
        _ members: (inout JSONWriter) -> Void
    ) {
        var json = JSONWriter(writer)
        json.beginObject()
        json.key("event")
        json.string("\(event)")
        if !streamID.isEmpty { json.member(names.streamID, streamID) }
        members(&json)
        json.endObject()
        writer = json.finish()
    }
}
