// Leaves a model's thoughts out of its reply. Reasoning models behind servers without a parser write
// them between tags into the text: <think>…</think> and its other spellings (ThoughtTag). Thoughts are
// neither shown, nor spoken, nor kept for the next request, and neither are the tags.
//
// A tag in code, between backquotes, is text. A thought ends with the first closing tag of any
// spelling, or with the message. Where a closing tag has no opening one, only the tag is left out:
// the text before it was already shown. White space that a message begins with waits for its first
// word.
//
// Invariant: the result depends on the text alone, however it is cut into deltas. Held back is a tag
// that is not complete, at most `ThoughtTag.maxBytes`, and white space. Each byte is looked at three times
// at most.

import Codec

/// Filters the text of one message after another.
struct ThoughtFilter {
    private enum Place {
        case text
        case thought
        /// Between the marks of a message's head, which names its channel.
        case head
    }

    /// Bytes of a head. 64: a role, a channel and a recipient.
    private static let maxHeadBytes = 64

    private var place = Place.text
    private var tag: ThoughtTag?
    /// The head so far.
    private var head: [UInt8] = []
    /// White space before the first word of the message, also the kinds without a width.
    private var space: [UInt8] = []
    /// The first bytes of a character before the first word.
    private var character: [UInt8] = []
    private var hasText = false
    private var hasThought = false
    private var code = CodeSpan()
    private var shown: [UInt8] = []

    /// Bytes on the heap.
    var heldBytes: Int { space.heapBytes + head.heapBytes + character.heapBytes }

    /// More of the message.
    /// - Returns: what may be shown of the text so far; may be empty.
    mutating func append(_ text: String) -> String {
        // Most deltas are words, and pass as they are.
        if hasText, place == .text, tag == nil, !code.isOpen, !text.utf8.contains(where: mayMatter)
        {
            TextSteps.note(text.utf8.count)
            return text
        }
        for byte in text.utf8 { take(byte) }
        return takeShown()
    }

    /// Whether a tag or code may begin with a byte.
    private func mayMatter(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "`") || ThoughtTag.mayBegin(with: byte)
    }

    /// The message is complete.
    /// - Returns: what was held back and is no tag.
    mutating func finish() -> String {
        if let tag { release(tag.bytes) }
        defer { self = ThoughtFilter() }
        return takeShown()
    }

    private mutating func takeShown() -> String {
        defer { shown = [] }
        return String(decoding: shown, as: UTF8.self)
    }

    private mutating func take(_ byte: UInt8) {
        TextSteps.note()
        guard var tag else { return begin(byte) }
        // Taken out, so that its bytes have one owner and are changed in place.
        self.tag = nil
        switch tag.take(byte) {
        case .more: self.tag = tag
        case .found(let kind): handle(kind)
        case .none:
            release(tag.bytes)
            begin(byte)
        }
    }

    private mutating func begin(_ byte: UInt8) {
        if !code.isOpen || place != .text, let begun = ThoughtTag(beginningWith: byte) {
            tag = begun
        } else {
            release(byte)
        }
    }

    private mutating func handle(_ kind: ThoughtTag.Kind) {
        switch (kind, place) {
        case (.opening, _): beginThought()
        case (.closing, .thought), (.end, .thought): place = .text
        case (.head, _):
            place = .head
            head = []
        case (.body, .head):
            // Harmony: all channels but the final one are the model's own.
            let channel = String(decoding: head, as: UTF8.self)
            if channel.contains("analysis") || channel.contains("commentary") {
                beginThought()
            } else {
                place = .text
            }
        case (.body, _), (.closing, _), (.end, _), (.token, _): break
        }
    }

    private mutating func beginThought() {
        place = .thought
        hasThought = true
    }

    private mutating func release(_ bytes: [UInt8]) {
        for byte in bytes { release(byte) }
    }

    /// A byte is no part of a tag.
    private mutating func release(_ byte: UInt8) {
        TextSteps.note()
        switch place {
        case .thought: return
        case .head:
            head.append(byte)
            guard head.count > Self.maxHeadBytes else { return }
            place = .text
            for byte in head { show(byte) }
        case .text: show(byte)
        }
    }

    private mutating func show(_ byte: UInt8) {
        guard !hasText else {
            code.take(byte)
            shown.append(byte)
            return
        }
        character.append(byte)
        guard character.count == Self.length(from: character[0]) else { return }
        defer { character = [] }
        guard !Self.isBlank(character) else { return space += character }
        // A thought and the lines behind it leave no trace.
        if !hasThought { shown += space }
        space = []
        hasText = true
        for byte in character { show(byte) }
    }

    /// Bytes of a character in UTF-8, by its first one.
    private static func length(from byte: UInt8) -> Int {
        switch byte {
        case 0xC0..<0xE0: 2
        case 0xE0..<0xF0: 3
        case 0xF0...: 4
        default: 1
        }
    }

    /// Whether a character shows nothing: white space, a control character, and what has no width,
    /// such as the byte order mark.
    private static func isBlank(_ character: [UInt8]) -> Bool {
        if character.count == 1 { return character[0] <= 32 }
        return String(decoding: character, as: UTF8.self).unicodeScalars.allSatisfy { scalar in
            scalar.properties.isWhitespace
                || ["\u{200B}", "\u{200C}", "\u{200D}", "\u{2060}", "\u{FEFF}"].contains(scalar)
        }
    }
}

/// Whether a text is within code: a span between backquotes, which ends with its line, or a fenced
/// block.
private struct CodeSpan {
    private var isInSpan = false
    private var isInBlock = false
    /// Backquotes in a row.
    private var run = 0

    var isOpen: Bool { isInSpan || isInBlock || run > 0 }

    mutating func take(_ byte: UInt8) {
        if byte == UInt8(ascii: "`") {
            run += 1
            return
        }
        if run >= 3 {
            isInBlock.toggle()
            isInSpan = false
        } else if run > 0, !isInBlock {
            isInSpan.toggle()
        }
        run = 0
        if byte == UInt8(ascii: "\n") { isInSpan = false }
    }
}
