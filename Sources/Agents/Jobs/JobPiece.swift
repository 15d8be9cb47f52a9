// One entry of a reply stream: a piece of a worker's answer. docs/agents.md has the table of its
// fields. It decides nothing; JobRun does.
//
// Invariant: whatever a worker writes is a piece or a JobPieceError.

import Codec
import Session

/// An error in a piece.
enum JobPieceError: Error, Equatable {
    /// A field is missing, or is not of its form.
    case badField(String)
    /// The piece has a type that Parley does not know.
    case unknownType(String)
}

/// A piece of the answer to a job.
struct JobPiece: Equatable {
    enum Content: Equatable {
        /// Text of the answer, which may begin and end within a character.
        case text([UInt8])
        /// The answer goes on with these.
        case deltas([ModelDelta])
        /// These are the last ones.
        case end([ModelDelta])
        /// The worker could not answer; for the operator.
        case error(String)
    }

    /// Where the piece comes in its answer: 1, 2, 3 …
    let number: Int
    let content: Content
    /// The bytes of its fields.
    let byteCount: Int

    /// Reads the fields of an entry.
    /// - Parameter job: the job of the entry.
    init(job: String, fields: [String: [UInt8]]) throws(JobPieceError) {
        func text(_ name: String) throws(JobPieceError) -> String {
            guard let text = try optional(name) else { throw .badField(name) }
            return text
        }
        func optional(_ name: String) throws(JobPieceError) -> String? {
            guard let bytes = fields[name] else { return nil }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw .badField(name)
            }
            return text
        }
        func tokens(_ name: String) throws(JobPieceError) -> Int? {
            guard let text = try optional(name) else { return nil }
            guard let count = Int(text), (0...1_000_000_000).contains(count) else {
                throw .badField(name)
            }
            return count
        }
        guard let number = Int(try text("n")), number > 0 else { throw .badField("n") }
        self.number = number
        byteCount = fields.reduce(0) { $0 + $1.value.count }
        switch try text("type") {
        case "text":
            guard let bytes = fields["text"] else { throw .badField("text") }
            content = .text(bytes)
        case "call":
            let name = try text("name")
            guard !name.isEmpty else { throw .badField("name") }
            let callID = try optional("call_id") ?? ""
            content = .deltas([
                .functionCallStarted(
                    callID: callID.isEmpty ? "call_\(job)_\(number)" : callID, name: name),
                .functionCallArguments(try optional("arguments") ?? ""),
            ])
        case "message_end": content = .deltas([.messageEnded])
        case "end":
            var last: [ModelDelta] = []
            if let reason = try optional("incomplete") { last.append(.incomplete(reason: reason)) }
            if let input = try tokens("input_tokens") {
                last.append(
                    .usage(
                        inputTokens: input, cachedTokens: try tokens("cached_tokens") ?? 0,
                        outputTokens: try tokens("output_tokens") ?? 0))
            }
            content = .end(last)
        case "error": content = .error(try optional("message") ?? "no reason")
        case let type: throw .unknownType(type)
        }
    }
}
