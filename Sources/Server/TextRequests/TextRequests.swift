// The text requests of one shard: which there are, and what follows when the readers of a reply
// come, read, leave or stay away, and when a time is over. State in, actions out: no IO, no clock,
// no agent. ShardTextRequests performs the actions, at one place.
//
//              too much of the reply is unread
//      writing ───────────────────────────────▶ paused
//        │ ▲                                      │ │
//        │ └───────────half of that is read───────┘ │
//        └───────────the reply is complete──────────┴───────▶ complete
//
// A request is removed when its reply has no reader, in every phase: at once, or after
// `resume-timeout-ms` where a client can come back for the reply. One that a record waits for has no
// reader, and is removed when it is complete.
//
// Invariants: the work of a request ends once, and before the request is removed. A paused model is
// resumed, at the latest with the end of the work. A request whose reply has no reader has an
// expiry, or is removed.

import Codec
import Session

/// The steps that the shard performs for a text request, in the order of the members.
struct TextRequestActions: OptionSet, Hashable {
    let rawValue: UInt8

    /// The work is done, or no longer wanted: end its agents, and give back its reservations.
    static let endWork = TextRequestActions(rawValue: 1 << 0)
    /// The model waits for a reader.
    static let pauseModel = TextRequestActions(rawValue: 1 << 1)
    /// The model goes on.
    static let resumeModel = TextRequestActions(rawValue: 1 << 2)
    /// The reply was not complete: readers that have just found it must see an end.
    static let breakOff = TextRequestActions(rawValue: 1 << 3)
    /// The request is gone: forget its reply, its deadline and its ledger.
    static let remove = TextRequestActions(rawValue: 1 << 4)
    /// Bring its ledger and its deadline up to date.
    static let update = TextRequestActions(rawValue: 1 << 5)
}

/// Why a text request's deadline has passed.
enum TextRequestDue: Equatable {
    /// No client came back for the reply, or a later deadline is to be set.
    case reply(TextRequestActions)
    /// The request has lasted as long as its credential allows.
    case credential
    /// Its session has something to do.
    case session
}

/// The text requests of one shard, by token.
struct TextRequests {
    /// Made for the first request, because many servers never get one.
    lazy var parser = ChatRequestParser()
    private let maxUnreadBytes: Int
    private let resumeTimeout: Duration
    private var requests: [EventToken: TextRequest] = [:]
    /// Requests whose work is not done.
    private(set) var openCount = 0

    init(_ settings: TextRequestSettings) {
        maxUnreadBytes = settings.maxUnreadReplyBytes
        resumeTimeout = settings.resumeTimeout
    }

    // MARK: The table

    /// Adds a request whose work begins.
    mutating func insert(_ request: TextRequest) {
        requests[request.token] = request
        openCount += 1
    }

    /// The request that a token means, if it still is there.
    subscript(token: EventToken) -> TextRequest? { requests.isEmpty ? nil : requests[token] }

    /// Visits all of them, in no order.
    func forEach(_ body: (TextRequest) -> Void) { requests.values.forEach(body) }

    /// Whether a record waits for the reply of one. Asked while the server drains only.
    var hasAwaited: Bool { openCount > 0 && requests.values.contains(where: \.isAwaited) }

    /// All of them, the oldest first.
    var all: [TextRequest] {
        requests.values.sorted {
            ($0.started.nanoseconds, $0.token.index) < ($1.started.nanoseconds, $1.token.index)
        }
    }

    // MARK: Events

    /// The reply has grown, or its readers have come, gone, or read.
    /// - Parameter canBeResumed: whether a client can find the reply again; asked where it has no
    ///   reader.
    mutating func review(
        _ request: TextRequest, _ status: ReplyLog.Status, at now: Instant,
        canBeResumed: @autoclosure () -> Bool
    ) -> TextRequestActions {
        var actions: TextRequestActions = .update
        if status.isOver { actions.formUnion(endWork(of: request)) }
        if let action = pace(request, status.unreadBytes) { actions.insert(action) }
        if status.readers > 0 || request.isAwaited {
            request.expiry = nil
        } else if resumeTimeout <= .zero || !canBeResumed() {
            actions.formUnion(remove(request))
        } else if request.expiry == nil {
            request.expiry = now + resumeTimeout
        }
        return actions
    }

    /// Pauses the model while no reader reads what it has written, and lets it go on.
    private func pace(_ request: TextRequest, _ unreadBytes: Int) -> TextRequestActions? {
        switch request.phase {
        case .writing where unreadBytes > maxUnreadBytes:
            request.phase = .paused
            return .pauseModel
        // Half, so that a reader at the limit does not stop and start the model at every part.
        case .paused where unreadBytes <= maxUnreadBytes / 2:
            request.phase = .writing
            return .resumeModel
        case .writing, .paused, .complete: return nil
        }
    }

    private mutating func endWork(of request: TextRequest) -> TextRequestActions {
        let phase = request.phase
        guard phase != .complete else { return [] }
        request.phase = .complete
        openCount -= 1
        return phase == .paused ? [.endWork, .resumeModel] : .endWork
    }

    /// Removes a request. Its work ends with it, where it is not done.
    mutating func remove(_ request: TextRequest) -> TextRequestActions {
        guard requests.removeValue(forKey: request.token) != nil else { return [] }
        let isComplete = request.phase == .complete
        return isComplete ? .remove : endWork(of: request).union([.breakOff, .remove])
    }

    /// The deadline of a request has passed.
    /// - Parameter readers: how many readers its reply has now.
    mutating func handleDeadline(
        of request: TextRequest, readers: Int, at now: Instant
    ) -> TextRequestDue {
        if let expiry = request.expiry, expiry <= now {
            if readers == 0 { return .reply(remove(request)) }
            // A reader has come back; its `review` is on its way.
            request.expiry = nil
        }
        guard request.phase != .complete else { return .reply(.update) }
        if let end = request.live.grant?.end, end <= now { return .credential }
        return .session
    }

    /// When a request must be handled, or nil where only an event concerns it.
    func deadline(of request: TextRequest, after now: Instant) -> Instant? {
        guard request.phase != .complete else { return request.expiry }
        let session = request.live.session.nextDeadline(after: now)
        return [session, request.live.grant?.end, request.expiry].compactMap(\.self).min()
    }
}
