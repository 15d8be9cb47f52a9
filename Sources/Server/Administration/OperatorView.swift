// The view of one operator's connection: what it shows, and what it waits for. OperatorTable has the
// views of one shard. ShardOperators acts on them.
//
// Invariants: at most one scan for the page and one for the card is under way for each connection, and at
// most `maxCalls` requests for a session. News that the connection does not wait for is ignored.

import Codec
import Session

/// News for an operator's connection, posted by any shard.
enum OperatorNews: Sendable {
    /// A shard's part of a scan.
    case report(SurveyReport, of: OperatorScan.Purpose, number: UInt64)
    /// A shard's answer about a session that is to be watched or closed.
    case answer(CallAnswer, to: UInt64)
}

/// A scan of all shards that is under way.
struct OperatorScan: Sendable {
    /// The purpose of the scan.
    enum Purpose: Sendable {
        /// A page of the sessions.
        case page
        /// The figures of one session.
        case card
    }

    let number: UInt64
    let query: SessionQuery
    /// How many shards were asked.
    let shards: Int
    var reports: [SurveyReport] = []

    /// Whether all shards have answered.
    var isComplete: Bool { reports.count >= shards }

    fileprivate var heldBytes: Int {
        query.search.heapBytes + reports.reduce(reports.heapBytes) { $0 + $1.rows.heapBytes }
    }
}

/// A request for one session that shards look for.
struct OperatorCall {
    enum Wish {
        case watch(SidebandLink)
        case close
    }

    let number: UInt64
    let sessionID: String
    let wish: Wish
    /// Shards that have not answered.
    var shards: Int
    let begun: Instant
}

/// The view of the server on one connection.
final class OperatorView {
    /// Time between two looks. 1 s.
    static let interval = Duration.seconds(1)
    /// Output that may wait when the server is shown again. 64 KiB: at more the second is skipped, so that a
    /// page that reads slowly gets fewer pages instead of old ones.
    static let maxWaitingBytes = 64 << 10
    /// Requests for sessions under way.
    static let maxCalls = 16
    /// Items of the conversation that are shown when a session is watched.
    static let maxPastItems = 50
    /// Bytes of their text.
    static let maxPastBytes = 64 << 10

    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(OperatorView.self)

    /// The operator's name for the log, if its credential has one.
    let subject: String?
    /// The page that is shown, if there is one.
    var query: SessionQuery?
    /// The session that is shown, if there is one.
    private(set) var sessionID: String?
    /// The request to watch it, whose answer is awaited.
    private var watchCall: UInt64?
    var page: OperatorScan?
    var card: OperatorScan?
    /// Whether the page was changed while a scan for it was under way.
    var isPageDue = false
    var lags = LagWindow()
    /// The change of the failures that was shown last, or nil where none was.
    var shownFailures: Int?
    private var calls: [OperatorCall] = []
    private var nextNumber: UInt64 = 1

    init(subject: String?) { self.subject = subject }

    /// Bytes of the view.
    var heldBytes: Int {
        Self.objectBytes + subject.heapBytes + sessionID.heapBytes + calls.heapBytes
            + (query?.search.heapBytes ?? 0) + (page?.heldBytes ?? 0) + (card?.heldBytes ?? 0)
            + lags.heldBytes
    }

    /// A number for a scan or a call.
    func takeNumber() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    // MARK: Scans

    /// Takes note of a shard's report.
    /// - Returns: the scan, if this was the last report that it waited for.
    func add(
        _ report: SurveyReport, to purpose: OperatorScan.Purpose, number: UInt64
    ) -> OperatorScan? {
        switch purpose {
        case .page: Self.add(report, to: &page, number: number)
        case .card: Self.add(report, to: &card, number: number)
        }
    }

    private static func add(
        _ report: SurveyReport, to scan: inout OperatorScan?, number: UInt64
    ) -> OperatorScan? {
        guard scan?.number == number else { return nil }
        scan?.reports.append(report)
        return scan?.isComplete == true ? scan.take() : nil
    }

    // MARK: Calls

    /// Whether no more sessions can be asked for now.
    var hasCallsEnough: Bool { calls.count >= Self.maxCalls }

    func begin(_ call: OperatorCall) {
        calls.append(call)
        if case .watch = call.wish { (sessionID, watchCall) = (call.sessionID, call.number) }
    }

    /// No session is shown any more.
    func ignoreSession() { (sessionID, watchCall, card) = (nil, nil, nil) }

    /// A session that was to be watched cannot be.
    func noteRefusal(of call: OperatorCall) { if watchCall == call.number { ignoreSession() } }

    /// A session was joined. The call is over.
    /// - Returns: whether it is still to be watched.
    func endWatchCall(_ number: UInt64) -> Bool {
        guard endCall(number) != nil, watchCall == number else { return false }
        watchCall = nil
        return true
    }

    /// The call, which is over.
    func endCall(_ number: UInt64) -> OperatorCall? {
        calls.firstIndex { $0.number == number }.map { calls.remove(at: $0) }
    }

    /// A shard does not have the session.
    /// - Returns: the call, if this was the last shard that it waited for.
    func noteMissing(_ number: UInt64) -> OperatorCall? {
        guard let index = calls.firstIndex(where: { $0.number == number }) else { return nil }
        calls[index].shards -= 1
        return calls[index].shards <= 0 ? calls.remove(at: index) : nil
    }

    /// The calls that a shard has not answered in time; they are over.
    func takeLateCalls(at now: Instant) -> [OperatorCall] {
        let late = calls.filter { now >= $0.begun + AwaitedCall.patience }
        if !late.isEmpty { calls.removeAll { now >= $0.begun + AwaitedCall.patience } }
        return late
    }

    // MARK: Past

    /// The items of a conversation that are shown at first: the newest, as far as their text has room.
    static func past(of items: [ConversationItem]) -> [ConversationItem] {
        var room = maxPastBytes
        var first = items.count
        while first > 0, items.count - first < maxPastItems {
            room -= items[first - 1].textBytes
            guard room >= 0 else { break }
            first -= 1
        }
        return Array(items[first...])
    }
}

/// The operators' connections of one shard.
struct OperatorTable {
    /// Connections of one shard. 8: each has the sessions scanned once a second, and operators are few.
    static let maxOperators = 8

    private var views: [EventToken: OperatorView] = [:]

    /// Whether another connection cannot be taken.
    var isFull: Bool { views.count >= Self.maxOperators }

    subscript(token: EventToken) -> OperatorView? { views[token] }

    mutating func insert(_ view: OperatorView, at token: EventToken) { views[token] = view }

    /// - Returns: the view, which is over, or nil where there was none.
    mutating func remove(_ token: EventToken) -> OperatorView? { views.removeValue(forKey: token) }
}

extension ServerEvent {
    /// Whether an operator that watches the session gets it: text, speech, calls, errors; no audio.
    var isShownToOperators: Bool {
        switch self {
        case .inputAudioBufferSpeechStarted, .inputAudioBufferSpeechStopped,
            .inputAudioBufferCommitted, .conversationItemAdded, .conversationItemDeleted,
            .conversationItemTruncated, .transcriptionDelta, .transcriptionCompleted,
            .transcriptionFailed, .responseCreated, .responseDone, .responseOutputItemAdded,
            .responseOutputTextDelta, .responseOutputAudioTranscriptDelta,
            .responseFunctionCallArgumentsDone, .dtmfReceived, .error:
            true
        // The result of a call that the server has made is in the item that is done.
        case .responseOutputItemDone(_, _, let item), .conversationItemDone(let item, _):
            item.isServerCall
        case .sessionCreated, .sessionUpdated, .inputAudioBufferCleared,
            .inputAudioBufferTimeoutTriggered, .conversationItemRetrieved,
            .responseContentPartAdded, .responseContentPartDone, .responseOutputTextDone,
            .responseOutputAudioTranscriptDone, .responseOutputAudioDelta, .responseOutputAudioDone,
            .responseFunctionCallArgumentsDelta, .rateLimitsUpdated, .outputAudioBufferCleared,
            .agentEvent, .resumed, .resumeUpdated, .goingAway, .recordingUpdated, .pong, .mcp:
            false
        }
    }
}

extension ConversationItem {
    /// Whether it is a call of a tool that the server makes itself.
    fileprivate var isServerCall: Bool {
        if case .mcp(.call) = kind { true } else { false }
    }
}
