// The tags around a model's thoughts, byte by byte. Known are the spellings of models in use:
//
//     <think> <thinking> <thought> <reasoning> …     DeepSeek, Qwen, Claude's prompts, many others
//     <seed:think> <mm:think> <thinking>        with the name of a vendor before it
//     <|thought|> <|begin_of_thought|> <|START_THINKING|>   and their <|/thought|> <|end_of_thought|>
//     [THINK] ◁think▷                                 Magistral, Kimi
//     <|channel|>analysis<|message|> … <|end|>        harmony (gpt-oss)
//     <unused94> … <unused95>                         MedGemma
//
// Any other name between <| and |> is a token of the model's template, such as <|im_end|>, <|eot_id|>
// and <|START_RESPONSE|>, which its server should have taken out.
//
// Case, `_` and `-` do not count, and attributes are skipped. ThoughtFilter decides what a tag means
// where it stands.
//
// Invariant: a tag has at most `maxBytes`; a byte that no tag has at its place ends the attempt.

import Codec

/// A tag that is being read.
struct ThoughtTag {
    /// The effect of a tag.
    enum Kind: Equatable {
        /// A thought begins, or ends.
        case opening, closing
        /// The head of a message begins, its body begins, the message ends (harmony).
        case head, body, end
        /// Another token of the model's template.
        case token
    }

    /// The result of another byte.
    enum Outcome: Equatable {
        case more
        case found(Kind)
        /// It is no tag; the byte is not part of it.
        case none
    }

    /// 64: the longest name and some attributes.
    static let maxBytes = 64

    private enum Place { case start, name, attributes, end }

    /// The bytes read so far.
    private(set) var bytes: [UInt8]
    private var place = Place.start
    private var isClosing = false
    /// The name so far, in small letters.
    private var name = ""
    /// The bytes that the tag ends with.
    private let closer: [UInt8]
    private var matchedCloser = 0

    /// Begins a tag that may start with this byte, or returns nil where none does.
    init?(beginningWith byte: UInt8) {
        switch byte {
        case UInt8(ascii: "<"): closer = Self.closingAngle
        case UInt8(ascii: "["): closer = Self.closingBracket
        case Self.triangle[0]: closer = Self.closingTriangle
        default: return nil
        }
        bytes = [byte]
    }

    /// Whether a tag may begin with a byte.
    static func mayBegin(with byte: UInt8) -> Bool {
        byte == UInt8(ascii: "<") || byte == UInt8(ascii: "[") || byte == triangle[0]
    }

    /// ◁ and ▷.
    private static let triangle: [UInt8] = [0xE2, 0x97, 0x81]
    private static let closingAngle = Array(">".utf8)
    private static let closingBracket = Array("]".utf8)
    private static let closingTriangle: [UInt8] = [0xE2, 0x96, 0xB7]

    /// Reads another byte.
    mutating func take(_ byte: UInt8) -> Outcome {
        guard bytes.count < Self.maxBytes else { return .none }
        if bytes[0] == Self.triangle[0], bytes.count < Self.triangle.count {
            guard byte == Self.triangle[bytes.count] else { return .none }
            bytes.append(byte)
            return .more
        }
        if byte == closer[matchedCloser], place != .start {
            matchedCloser += 1
            bytes.append(byte)
            guard matchedCloser == closer.count else { return .more }
            if let kind { return .found(kind) }
            bytes.removeLast()
            return .none
        }
        guard matchedCloser == 0, accepts(byte) else { return .none }
        bytes.append(byte)
        return .more
    }

    /// Whether a byte may stand here.
    private mutating func accepts(_ byte: UInt8) -> Bool {
        let isAngle = bytes[0] == UInt8(ascii: "<")
        switch byte {
        case UInt8(ascii: "/") where place == .start:
            isClosing = true
            return true
        case UInt8(ascii: "|") where isAngle:
            if place != .start { place = .end }
            return true
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"):
            // The brackets of Magistral hold capitals; [think] is a link or a remark.
            if bytes[0] == UInt8(ascii: "["), byte >= UInt8(ascii: "a") { return false }
            return acceptsInName(byte | 0x20)
        case UInt8(ascii: "0")...UInt8(ascii: "9") where isAngle && place == .name:
            return acceptsInName(byte)
        case UInt8(ascii: "_"), UInt8(ascii: "-"): return place == .name || place == .attributes
        case UInt8(ascii: ":") where place == .name && isAngle:
            name = ""
            return true
        case 32 where place == .name || place == .attributes:
            guard isAngle, ThoughtNames.kinds[name] != nil else { return false }
            place = .attributes
            return true
        case 33...126:
            return place == .attributes && byte != UInt8(ascii: "<") && byte != UInt8(ascii: "[")
        default: return false
        }
    }

    private mutating func acceptsInName(_ byte: UInt8) -> Bool {
        switch place {
        case .start, .name:
            place = .name
            name.unicodeScalars.append(Unicode.Scalar(byte))
            return isTemplate || ThoughtNames.beginnings.contains(name)
        case .attributes: return true
        case .end: return false
        }
    }

    /// Whether it begins with <|, as all tokens of templates do.
    private var isTemplate: Bool { bytes.count > 1 && bytes[1] == UInt8(ascii: "|") }

    private var kind: Kind? {
        guard let kind = ThoughtNames.kinds[name] else {
            return isTemplate && place == .end ? .token : nil
        }
        // The marks of harmony have bars: <end> and <message> may be anything.
        if ThoughtNames.marks[name] != nil, !bytes.contains(UInt8(ascii: "|")) { return nil }
        return isClosing ? .closing : kind
    }
}

/// The names of the tags.
private enum ThoughtNames {
    private static let thoughts = [
        "think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad",
        "innermonologue", "innerthought", "innerthoughts", "internalmonologue",
        "chainofthought", "cot", "antthinking", "reasoningcontent", "thoughtprocess",
        "deliberation", "rationale",
    ]
    /// The marks of harmony.
    static let marks: [String: ThoughtTag.Kind] = [
        "channel": .head, "start": .head, "message": .body, "end": .end, "return": .end,
        "call": .end,
    ]
    /// All names, and what they do.
    static let kinds: [String: ThoughtTag.Kind] = {
        var kinds = marks
        for thought in thoughts {
            kinds[thought] = .opening
            for word in ["begin", "beginof", "start", "startof"] {
                kinds[word + thought] = .opening
            }
            for word in ["begin", "start"] { kinds[thought + word] = .opening }
            for word in ["end", "endof"] { kinds[word + thought] = .closing }
            kinds[thought + "end"] = .closing
        }
        kinds["unused94"] = .opening
        kinds["unused95"] = .closing
        return kinds
    }()
    /// The beginnings of all names, and letters that may be the name of a vendor before a colon.
    static let beginnings: Set<String> = {
        var beginnings: Set<String> = []
        for name in Array(kinds.keys) + ["seed", "mm", "antml", "ant", "qwen", "kimi"] {
            for length in 1...name.utf8.count { beginnings.insert(String(name.prefix(length))) }
        }
        return beginnings
    }()
}
