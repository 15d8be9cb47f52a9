// Cuts a streamed reply in front of the first of its request's stop words (`stop` of "Create chat
// completion"). It does so for every model: the text of a reply is the server's own to cut. It does
// not end the model; Server does, as soon as a word was found.
//
// Invariant: no byte of a stop word is passed on, also where deltas divide it. The text that is
// held back is shorter than the longest word. A text costs its length, whatever the words are: each
// is searched for by the method of Knuth, Morris and Pratt ("Fast pattern matching in strings",
// 1977).

/// Looks for stop words in one message of a reply, delta by delta.
public struct StopWords: Equatable, Sendable {
    /// Words of one request: as many as OpenAI's API takes.
    public static let maxCount = 4

    private var words: [Word]
    /// The end of the text so far, which may be the beginning of a word.
    private var held: [UInt8] = []
    /// Whether a word was found. Nothing is passed on any more.
    public private(set) var hasStopped = false

    /// - Parameter words: empty ones are left out.
    public init(_ words: [String]) {
        self.words = words.filter { !$0.isEmpty }.map { Word(Array($0.utf8)) }
    }

    /// Whether there is a word to look for.
    public var isEmpty: Bool { words.isEmpty }

    /// Heap bytes of the words and the text that waits.
    public var heldBytes: Int {
        words.reduce(words.heapBytes + held.heapBytes) { $0 + $1.heapBytes }
    }

    /// Takes the next text of the message.
    /// - Returns: the text that may be passed on now. If the text has several stop words, the one
    ///   that ends first counts.
    public mutating func pass(_ text: String) -> String {
        guard !hasStopped else { return "" }
        guard !words.isEmpty else { return text }
        let bytes = held + text.utf8
        for position in held.count..<bytes.count {
            for index in words.indices where words[index].ends(with: bytes[position]) {
                hasStopped = true
                held = []
                let start = position + 1 - words[index].bytes.count
                return String(decoding: bytes[..<start], as: UTF8.self)
            }
        }
        // A word begins with the first byte of a character, so no character is divided here.
        let kept = words.reduce(0) { max($0, $1.matched) }
        held = Array(bytes.suffix(kept))
        return String(decoding: bytes.dropLast(kept), as: UTF8.self)
    }

    /// The message is over: no word follows.
    /// - Returns: the text that was held back.
    public mutating func flush() -> String {
        defer {
            held = []
            for index in words.indices { words[index].matched = 0 }
        }
        return String(decoding: held, as: UTF8.self)
    }
}

/// One word, and how much of it the text so far ends with.
private struct Word: Equatable {
    let bytes: [UInt8]
    /// For each beginning of the word: how long the longest shorter one is that it ends with.
    private let shorter: [Int]
    /// Bytes of the word that the text so far ends with.
    var matched = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        var shorter = [0]
        for byte in bytes.dropFirst() {
            var length = shorter[shorter.count - 1]
            while length > 0, bytes[length] != byte { length = shorter[length - 1] }
            shorter.append(bytes[length] == byte ? length + 1 : 0)
        }
        self.shorter = shorter
    }

    var heapBytes: Int { bytes.heapBytes + shorter.heapBytes }

    /// Whether the text ends with the word, now that a byte has followed.
    mutating func ends(with byte: UInt8) -> Bool {
        TextSteps.note()
        while matched > 0, bytes[matched] != byte {
            TextSteps.note()
            matched = shorter[matched - 1]
        }
        if bytes[matched] == byte { matched += 1 }
        return matched == bytes.count
    }
}
