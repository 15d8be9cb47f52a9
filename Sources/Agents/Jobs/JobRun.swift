// One run of a job as a state machine: from the moment it is asked for to the end of its answer, or
// of its worker. It sends nothing and reads no clock. JobBoard finds the run of a piece; JobModel
// decides whether a job whose worker has died is run again.
//
//   waiting ─ a worker has it ─▶ taken ─ the last piece, an error, a limit ─▶ over
//
// That the worker seems to have died is news, not a state: only a script can tell for certain, and
// until it has, pieces may come.
//
// Invariant: pieces are taken in their order, each once. The buffer holds at most
// `maxBufferedBytes`. After the end nothing is taken.

import Session

/// The time limits of one run.
struct JobLimits: Equatable {
    /// Until when a worker must have taken it.
    var pickup: Instant
    /// When the wait for the first piece times out. Nil sets no limit.
    var firstPiece: Instant?
    /// The longest time between two pieces.
    var silence: Duration
    /// When the wait for the complete answer times out. Nil sets no limit.
    var total: Instant?
}

/// How a run has ended.
enum JobEnd: Equatable {
    /// The answer is complete.
    case completed
    /// There is no answer, or no more of it.
    case failed(AgentError)
    /// The heart of its worker has stopped, as it seems. The run goes on where it beats after all.
    case lost
    /// Redis does not have the job any more, and no piece has ended it.
    case gone
}

/// The deltas and the end that a run has had since the last time.
struct JobNews: Equatable {
    var deltas: [ModelDelta] = []
    /// How the job ended, or nil where it goes on.
    var end: JobEnd?
}

/// The state of a job in Redis; the raw values are those of watch.lua.
enum JobSight: String {
    case waiting, taken, running, lost, gone
}

/// The state of one run.
struct JobRun {
    /// Bytes of an answer that wait for the session, from which on the worker is asked to wait. 64 KiB:
    /// an hour of speech.
    static let heldBytes = 64 << 10
    /// The most bytes that may wait, in case a worker does not obey the request to wait. 1 MiB.
    static let maxBufferedBytes = 1 << 20
    /// Bytes of a whole answer. 16 MiB, as of every model's.
    static let maxReplyBytes = 16 << 20

    private enum Phase: Equatable {
        case waiting
        case taken
        case over
    }

    /// The id of its entry; nil until Redis has told it.
    private(set) var entry: String?
    /// Since when the worker is to send nothing, or nil where it may go on.
    private(set) var heldSince: Instant?
    /// Bytes that wait for the session.
    private(set) var bufferedBytes = 0
    private var phase = Phase.waiting
    private var limits: JobLimits
    private var news = JobNews()
    private var text = JobText()
    private var nextPiece = 1
    private var receivedBytes = 0
    /// When the last piece came.
    private var lastPiece: Instant?

    /// A job is asked for.
    init(limits: JobLimits) { self.limits = limits }

    /// Whether `takeNews` has something.
    var hasNews: Bool { news != JobNews() }
    /// Whether the worker has finished, or its answer is no longer wanted.
    var isOver: Bool { phase == .over }

    /// Takes the news since the last call. Where there is no news, a worker that was asked to wait
    /// may go on.
    /// - Returns: the news, and whether the worker must get the permission to go on.
    mutating func takeNews(at now: Instant) -> (news: JobNews, goesOn: Bool) {
        let taken = news
        news = JobNews()
        bufferedBytes = 0
        guard taken == JobNews(), let since = heldSince else { return (taken, false) }
        heldSince = nil
        lastPiece = now
        // Time in which the session takes nothing is not the worker's.
        if let total = limits.total { limits.total = total + (now - since) }
        return (taken, true)
    }

    /// Redis has the job.
    mutating func handleAsked(entry: String) { self.entry = entry }

    /// A piece of its answer.
    /// - Returns: whether the worker is to be told to wait.
    mutating func handle(_ piece: JobPiece, at now: Instant) -> Bool {
        guard phase != .over else { return false }
        phase = .taken
        // A piece that is read again.
        guard piece.number >= nextPiece else { return false }
        guard piece.number == nextPiece else {
            fail(.upstream(status: 0, message: "Redis has lost a piece of a worker's answer."))
            return false
        }
        nextPiece += 1
        receivedBytes += piece.byteCount
        guard receivedBytes <= Self.maxReplyBytes else {
            fail(.malformedReply(message: "The agent's answer is too large."))
            return false
        }
        // A worker that says something is alive.
        if news.end == .lost || news.end == .gone { news.end = nil }
        lastPiece = now
        switch piece.content {
        case .text(let bytes):
            return buffer(Self.delta(text.text(of: bytes)), piece.byteCount, at: now)
        case .deltas(let deltas):
            return buffer(Self.delta(text.finish()) + deltas, piece.byteCount, at: now)
        case .end(let deltas):
            news.deltas += Self.delta(text.finish()) + deltas
            end(.completed)
        case .error(let message):
            fail(.upstream(status: 0, message: "A worker could not answer: \(message)"))
        }
        return false
    }

    private static func delta(_ text: String) -> [ModelDelta] { text.isEmpty ? [] : [.text(text)] }

    private mutating func buffer(_ deltas: [ModelDelta], _ bytes: Int, at now: Instant) -> Bool {
        news.deltas += deltas
        bufferedBytes += bytes
        guard bufferedBytes <= Self.maxBufferedBytes else {
            fail(
                .malformedReply(
                    message: "The agent's answer is too large.",
                    detail: "a worker goes on though it was asked to wait"))
            return false
        }
        guard bufferedBytes >= Self.heldBytes, heldSince == nil else { return false }
        heldSince = now
        return true
    }

    /// A piece cannot be read.
    mutating func handle(_ error: JobPieceError) {
        let detail =
            switch error {
            case .badField(let name): "the field \(name) of a piece"
            case .unknownType(let type): "a piece of the type \(type)"
            }
        fail(.malformedReply(message: "The agent's answer cannot be read.", detail: detail))
    }

    /// Redis has been asked for the state of the job.
    /// - Parameter hasRead: whether all pieces were read that were there at that time.
    mutating func handle(_ sight: JobSight, hasRead: Bool) {
        guard phase != .over else { return }
        switch sight {
        case .waiting: break
        case .taken, .running: phase = .taken
        case .lost: news.end = .lost
        // Its last piece is on its way, or Redis has lost it.
        case .gone: if hasRead { news.end = .gone }
        }
    }

    /// Ends the job where one of its time limits has passed.
    mutating func handleTime(_ now: Instant) {
        guard phase != .over, heldSince == nil else { return }
        if phase == .waiting, limits.pickup <= now {
            return fail(.upstream(status: 0, message: "No worker has taken the turn in time."))
        }
        if nextPiece == 1, let limit = limits.firstPiece, limit <= now {
            return fail(.upstream(status: 0, message: "A worker said nothing in time."))
        }
        if let limit = limits.total, limit <= now {
            return fail(.upstream(status: 0, message: "A worker's answer took too long."))
        }
        if let lastPiece, lastPiece + limits.silence <= now {
            fail(.upstream(status: 0, message: "A worker said nothing more."))
        }
    }

    /// Ends the job with an error: no more pieces can come.
    mutating func fail(_ error: AgentError) { end(.failed(error)) }

    private mutating func end(_ end: JobEnd) {
        guard phase != .over else { return }
        phase = .over
        news.end = end
    }
}
