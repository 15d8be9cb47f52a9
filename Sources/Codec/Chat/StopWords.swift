// Cuts a streamed reply in front of the first of its request's stop words (`stop` of "Create chat
// completion"), whatever the model is: the text of a reply is the server's own to cut. It does not end
// the model; Server does, as soon as a word was found.
//
// Invariant: no byte of a stop word is passed on, also where deltas divide it. What is held back is
// shorter than the longest word.

/// Looks for stop words in one message of a reply, delta by delta.
public struct StopWords: Equatable, Sendable {
    /// Words of one request: as many as OpenAI's API takes.
    public static let maxCount = 4

    private let words: [[UInt8]]
    /// The end of the text so far, which may be the beginning of a word.
    private var held: [UInt8] = []
    /// Whether a word was found. Nothing is passed on any more.
    public private(set) var hasStopped = false

    /// - Parameter words: empty ones are left out.
    public init(_ words: [String]) {
        self.words = words.filter { !$0.isEmpty }.map { Array($0.utf8) }
    }

    /// Whether there is a word to look for.
    public var isEmpty: Bool { words.isEmpty }

    /// Heap bytes of it.
    public var heldBytes: Int {
        words.reduce(words.heapBytes + held.heapBytes) { $0 + $1.heapBytes }
    }

    /// More text of the message.
    /// - Returns: the text that may be passed on now.
    public mutating func pass(_ text: String) -> String {
        guard !hasStopped else { return "" }
        guard !words.isEmpty else { return text }
        let bytes = held + text.utf8
        var start = 0
        while start < bytes.count {
            let rest = bytes[start...]
            if words.contains(where: { rest.starts(with: $0) }) {
                hasStopped = true
                held = []
                return String(decoding: bytes[..<start], as: UTF8.self)
            }
            // A word begins with the first byte of a character, so no character is divided here.
            if words.contains(where: { $0.starts(with: rest) }) { break }
            start += 1
        }
        held = Array(bytes[start...])
        return String(decoding: bytes[..<start], as: UTF8.self)
    }

    /// The message is over: no word follows.
    /// - Returns: the text that was held back.
    public mutating func flush() -> String {
        defer { held = [] }
        return String(decoding: held, as: UTF8.self)
    }
}
