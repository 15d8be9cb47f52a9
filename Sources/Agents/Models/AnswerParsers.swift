// JSON parsers for the pieces of models' answers, borrowed for one piece at a time. A parser's
// buffers take about 30 kB, and a response in progress needs one for a microsecond every 20 ms. The
// process therefore has only as many as threads that read at once, and they stay in the CPU's
// cache.

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
    /// A plausible count of tokens: 0 to 10⁹, a thousand times what any model reads. Nil for any
    /// other value, so that sums of counts fit an Int.
    var tokenCount: Int? { int.flatMap { (0...1_000_000_000).contains($0) ? $0 : nil } }
}
