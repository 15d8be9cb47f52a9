// How much audio one event of a client may bring. The session knows the limit, and the parser holds the
// event against it before the base64 is decoded: audio that is refused costs no more than its message.

/// The limit of one session.
public struct AudioLimit: Equatable, Sendable {
    /// Bytes of the session's input format that may be the audio of one event.
    public var maxBytes: Int
    /// The limit in seconds of audio, for the error.
    public var maxSeconds: Int

    /// Creates a limit.
    public init(maxBytes: Int, maxSeconds: Int) {
        self.maxBytes = maxBytes
        self.maxSeconds = maxSeconds
    }

    /// Refuses the audio of `input_audio_buffer.append`.
    func check(appended value: JSONValue) throws(ClientEventError) {
        guard exceeds(value) else { return }
        throw .inputBufferFull(maxSeconds: maxSeconds)
    }

    /// Refuses the audio of an item that an event brings: of `conversation.item.create`, and of the
    /// `input` of a response.
    func check(itemsOf event: JSONValue) throws(ClientEventError) {
        if let item = event["item"] { try check(item: item) }
        for item in event["response"]?["input"]?.elements?.map(\.self) ?? [] {
            try check(item: item)
        }
    }

    private func check(item: JSONValue) throws(ClientEventError) {
        for part in item["content"]?.elements?.map(\.self) ?? [] {
            guard let audio = part["audio"], exceeds(audio) else { continue }
            throw .itemAudioTooLong(maxSeconds: maxSeconds)
        }
    }

    private func exceeds(_ value: JSONValue) -> Bool {
        value.utf8.map { Base64.decodedCount(of: $0) > maxBytes } ?? false
    }
}
