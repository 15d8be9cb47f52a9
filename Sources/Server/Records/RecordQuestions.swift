// The questions for ended sessions that a shard has asked, and that are not answered.

import Codec
import Session

/// The questions that a shard has asked.
struct RecordQuestions {
    /// Questions of one shard that are not answered. 8: a page asks for one or two at a time.
    static let maxAsked = 8
    /// A request that waits for its answer.
    struct Asked {
        let id: RecordQuestionID
        let question: RecordQuestion
        let request: HTTPRequest
        let token: EventToken
        /// The operator's name for the log, if its credential has one.
        let subject: String?
    }

    private var asked: [Asked] = []
    private var nextID: RecordQuestionID = 1

    /// Whether no more can be asked now.
    var isFull: Bool { asked.count >= Self.maxAsked }

    mutating func takeID() -> RecordQuestionID {
        defer { nextID += 1 }
        return nextID
    }

    mutating func insert(_ question: Asked) { asked.append(question) }

    /// The question, which is over, or nil where it already was.
    mutating func remove(_ id: RecordQuestionID) -> Asked? {
        asked.firstIndex { $0.id == id }.map { asked.remove(at: $0) }
    }
}
