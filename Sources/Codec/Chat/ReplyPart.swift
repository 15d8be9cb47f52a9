// What a model's reply is made of for a text front end, before either format has dressed it:
// ChatCompletionWriter and UIMessageStreamWriter do that. Who makes the parts is Server's ReplyLog.
//
// Invariant of a reply: a call's parts come after its start; `finished` or `failed` comes once, as
// the last.

/// A piece of a reply, in the order in which the model makes them.
public enum ReplyPart: Equatable, Sendable {
    /// Why a reply ended.
    public enum Ending: Equatable, Sendable {
        /// The model has said, or called, what it wanted to.
        case stop
        /// The limit of tokens, or a limit of the server.
        case length
        /// A filter cut it.
        case contentFilter
        /// It was stopped from outside.
        case cancelled
    }

    /// More text. `message` counts the reply's items, so that two messages are told apart.
    case text(message: Int, String)
    /// A function call begins. `call` counts the reply's calls from 0.
    case callStarted(call: Int, callID: String, name: String)
    /// More of a call's JSON arguments.
    case callArguments(call: Int, String)
    /// A call is complete.
    case callFinished(call: Int, callID: String, name: String, arguments: String)
    /// The reply is complete.
    case finished(Ending, ResponseUsage)
    /// The reply cannot be completed: a stable word and a sentence. `isRequestError`: because of
    /// what was asked.
    case failed(code: String, message: String, isRequestError: Bool)

    /// UTF-8 bytes of what it holds; some more for what it is.
    public var byteCount: Int {
        switch self {
        case .text(_, let text), .callArguments(_, let text): text.utf8.count
        case .callStarted(_, let callID, let name): callID.utf8.count + name.utf8.count
        case .callFinished(_, let callID, let name, let arguments):
            callID.utf8.count + name.utf8.count + arguments.utf8.count
        case .finished: 0
        case .failed(let code, let message, _): code.utf8.count + message.utf8.count
        }
    }

    /// Whether nothing follows it.
    public var isLast: Bool {
        switch self {
        case .finished, .failed: true
        case .text, .callStarted, .callArguments, .callFinished: false
        }
    }

    /// Bytes up to which parts are joined. 1 KiB: joining copies the text so far, which must not
    /// grow with the reply.
    private static let maxJoinedBytes = 1_024

    /// Adds another part's text to this one's, where the two are one piece in two and small.
    /// - Returns: whether they are.
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

    /// The part without the first bytes of its text, which have been read; nil where nothing is
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
