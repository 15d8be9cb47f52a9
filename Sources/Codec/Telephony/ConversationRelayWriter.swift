// Writes the messages to ConversationRelay, which speaks texts and recognises speech itself. Its own
// messages are read by TelephoneParser.
//
// Sources: Twilio "Getting and sending WebSocket messages" of ConversationRelay; Telnyx
// "ConversationRelay WebSocket channel".

/// Writes messages to a line that is spoken to in text.
public enum ConversationRelayWriter {
    /// Writes a piece of the text to speak.
    /// - Parameter isLast: whether the reply is complete.
    public static func text(
        _ token: String, isLast: Bool, into writer: inout ByteWriter
    ) {
        write("text", into: &writer) { json in
            json.member("token", token)
            json.member("last", isLast)
        }
    }

    /// Writes which language the carrier is to recognise and to speak from now on.
    /// - Parameter name: as the carrier spells it: `sv-SE`.
    public static func language(_ name: String, into writer: inout ByteWriter) {
        write("language", into: &writer) { json in
            json.member("ttsLanguage", name)
            json.member("transcriptionLanguage", name)
        }
    }

    /// Writes that the relay is to end; the call goes on with the carrier's next instruction.
    public static func end(into writer: inout ByteWriter) { write("end", into: &writer) { _ in } }

    private static func write(
        _ type: StaticString, into writer: inout ByteWriter,
        _ members: (inout JSONWriter) -> Void
    ) {
        var json = JSONWriter(writer)
        json.beginObject()
        json.member("type", "\(type)")
        members(&json)
        json.endObject()
        writer = json.finish()
    }
}
