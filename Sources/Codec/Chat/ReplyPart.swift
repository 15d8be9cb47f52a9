// The parts of a model's reply to a text request, independent of the format: ChatCompletionWriter
// and UIMessageStreamWriter write them. Server's ReplyLog creates them.
//
// Invariant of a reply: a call's parts come after its start; `finished` or `failed` is the last
// part and comes once.

/// A part of a reply, in the order in which the model produces them.
public enum ReplyPart: Equatable, Sendable {
    /// Why a reply ended.
    public enum Ending: Equatable, Sendable {
        /// The model ended the reply itself.
        case stop
        /// A limit of tokens, or of the server, was reached.
        case length
        /// A content filter ended it.
        case contentFilter
        /// The client or the server cancelled it.
        case cancelled
    }

    /// More text. `message` numbers the reply's messages, so that two of them are kept apart.
    case text(message: Int, String)
    /// A function call begins. `call` numbers the reply's calls from 0.
    case callStarted(call: Int, callID: String, name: String)
    /// More of a call's JSON arguments.
    case callArguments(call: Int, String)
    /// A call is complete.
    case callFinished(call: Int, callID: String, name: String, arguments: String)
    /// The reply is complete.
    case finished(Ending, ResponseUsage)
    /// The reply cannot be completed: a stable code and a sentence. `isRequestError`: the request
    /// is the cause. `retryAfterSeconds`: when another request may succeed, if that is known.
    case failed(
        code: String, message: String, isRequestError: Bool, retryAfterSeconds: Int? = nil)

    /// UTF-8 bytes of its texts.
    public var byteCount: Int {
        switch self {
        case .text(_, let text), .callArguments(_, let text): text.utf8.count
        case .callStarted(_, let callID, let name): callID.utf8.count + name.utf8.count
        case .callFinished(_, let callID, let name, let arguments):
            callID.utf8.count + name.utf8.count + arguments.utf8.count
        case .finished: 0
        case .failed(let code, let message, _, _): code.utf8.count + message.utf8.count
        }
    }

    /// Whether it is the last part of its reply.
    public var isLast: Bool {
        switch self {
        case .finished, .failed: true
        case .text, .callStarted, .callArguments, .callFinished: false
        }
    }

    /// Maximum bytes of a joined part. 1 KiB: joining copies the text so far, and that cost must
    /// not grow with the reply.
    private static let maxJoinedBytes = 1_024

    /// Joins another part's text to this one's, if both belong to the same text and are small.
    /// - Returns: whether they were joined.
    public mutating func append(_ next: ReplyPart) -> Bool {
        guard byteCount + next.byteCount <= Self.maxJoinedBytes else { return false }
        switch (self, next) {
        case (.text(let message, let text), .text(let other, let more)) where message == other:
            self = .text(message: message, text + more)
        case (.callArguments(let call, let text), .callArguments(let other, let more))
        where call == other:
            self = .callArguments(call: call, text + more)
        default: return false
        }
        return true
    }

    /// The part without the first `bytes` of its text, which were read already; nil when nothing is
    /// left.
    public func dropping(_ bytes: Int) -> ReplyPart? {
        guard bytes > 0 else { return self }
        switch self {
        case .text(let message, let text):
            let rest = Self.suffix(of: text, after: bytes)
            return rest.isEmpty ? nil : .text(message: message, rest)
        case .callArguments(let call, let text):
            let rest = Self.suffix(of: text, after: bytes)
            return rest.isEmpty ? nil : .callArguments(call: call, rest)
        case .callStarted, .callFinished, .finished, .failed: return nil
        }
    }

    private static func suffix(of text: String, after bytes: Int) -> String {
        let start = text.utf8.index(text.startIndex, offsetBy: min(bytes, text.utf8.count))
        return String(text[start...])
    }
}
