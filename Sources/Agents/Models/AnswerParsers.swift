// JSON parsers for the pieces of models' answers, borrowed for one piece at a time. A parser's
// buffers take about 30 kB, and a response in progress needs one for a microsecond every 20 ms. The
// process therefore has only one for each thread that reads at the same time, and they stay in the
// CPU's cache.

import Codec
import Session
import Synchronization

/// The pool of parsers.
enum AnswerParsers {
    /// A parser that is used only by the thread that took it out of `free`.
    private struct Parser: @unchecked Sendable {
        let json = JSONParser(limits: .ofAnAnswer)
    }

    private static let free = Mutex<[Parser]>([])

    /// Reads a piece of an answer. Bytes that are not UTF-8 are replaced, as the standard of event
    /// streams demands.
    /// - Throws: `.malformedReply`, or what `body` throws.
    static func read<Result>(
        _ bytes: UnsafeRawBufferPointer, _ body: (JSONValue) throws(AgentError) -> Result
    ) throws(AgentError) -> Result {
        let parser = free.withLock { $0.popLast() } ?? Parser()
        defer { free.withLock { $0.append(parser) } }
        return try body(parse(bytes, parser.json))
    }

    private static func parse(
        _ bytes: UnsafeRawBufferPointer, _ parser: JSONParser
    ) throws(AgentError) -> JSONValue {
        do throws(JSONError) {
            do throws(JSONError) {
                return try parser.parse(bytes)
            } catch {
                guard error.reason == .invalidUTF8 else { throw error }
                return try parser.parse(String(decoding: bytes, as: UTF8.self))
            }
        } catch {
            throw .malformedReply(
                message: "The model server's answer cannot be read: \(error.explanation).")
        }
    }
}

extension JSONLimits {
    /// Limits of a parser for answers: it frees the memory that one long piece took.
    static var ofAnAnswer: JSONLimits {
        var limits = JSONLimits()
        limits.retainedDocumentBytes = 4 << 10
        return limits
    }
}

extension JSONValue {
    /// A whole number, which some services write as its digits.
    var wholeNumber: Int? { int ?? string.flatMap { Int($0) } }

    /// A name or an id, which some services write as a number; nil where it is empty or of another
    /// type.
    var identifier: String? {
        switch kind {
        case .string: utf8?.isEmpty == false ? string : nil
        case .number: raw.text
        case .null, .bool, .array, .object: nil
        }
    }

    /// The text of a message: a string, or a list of parts of which those with a text count, as
    /// Mistral's models that reason write it. `null` is no text.
    /// - Parameter halves: of characters that were cut between two texts.
    /// - Throws: `.malformedReply` for any other type, which would lose words.
    func saidText(_ halves: inout SurrogateHalves) throws(AgentError) -> String {
        switch kind {
        case .string: return halves.text(of: self) ?? ""
        case .null: return ""
        case .array:
            var said = ""
            for part in elements?.map(\.self) ?? [] {
                guard part.kind == .string || part.kind == .object else {
                    throw .unknownType("content")
                }
                guard let text = part["text"] else {
                    said += part.string ?? ""
                    continue
                }
                if part["type"] == nil || part.isText { said += text.string ?? "" }
            }
            return said
        case .object:
            guard let text = self["text"]?.string else { throw .unknownType("content") }
            return text
        case .bool, .number: throw .unknownType("content")
        }
    }

    private var isText: Bool {
        ["text", "output_text"].contains(self["type"]?.string ?? "text")
    }

    /// A piece of a call's arguments: text, or the object itself. `null` is no piece.
    /// - Parameter halves: of characters that were cut between two pieces.
    /// - Throws: `.malformedReply` for any other type: the call would be another one.
    func callArguments(_ halves: inout SurrogateHalves) throws(AgentError) -> String {
        switch kind {
        case .string: halves.text(of: self) ?? ""
        case .null: ""
        case .object: raw.text
        case .bool, .number, .array: throw .unknownType("arguments")
        }
    }

    /// The elements of a list, of which some services write a single one without the list; none
    /// where it is `null`.
    /// - Throws: `.malformedReply` for any other type.
    func listed(_ name: String) throws(AgentError) -> [JSONValue] {
        switch kind {
        case .array: elements?.map(\.self) ?? []
        case .object: [self]
        case .null: []
        case .bool, .number, .string: throw .unknownType(name)
        }
    }

    /// A plausible count of tokens: 0 to 10⁹, a thousand times what any model reads. Nil for any
    /// other value, so that sums of counts fit an Int.
    var tokenCount: Int? { int.flatMap { (0...1_000_000_000).contains($0) ? $0 : nil } }
}

extension AgentError {
    /// A field of an answer has a type that no server is known to send.
    static func unknownType(_ field: String) -> AgentError {
        .malformedReply(
            message: "The model server's answer cannot be read.",
            detail: "its field '\(field)' has a type that is not known")
    }
}
