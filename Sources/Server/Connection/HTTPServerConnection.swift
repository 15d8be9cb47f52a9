// HTTP on one connection, the server's side, without IO: bytes come in, and what is to be done
// about them comes out, one event at a time. All transitions live in this file; it writes no byte,
// judges no request and reads no clock. ShardHTTP performs the events.
//
//               bytes            request              later
//        idle ─────────▶ receiving ────────▶ serving ────────▶ answering
//        │ ▲                │  ▲            ▲ │    │             │   │
//        │ │                │  │            │ │    │ kept        │   │
//        │ └────────────────┼──┼────────────┼─┼────┴─────────────┘   │
//        ├──────────────────┼──┼────────────┘ │                      │
//        ▼   an answer waits▼  │answer sent   ▼ not kept             ▼ not kept
//       paused ◀───────────────┘            ended ◀──────────────────┘   (ended from every phase)
//
//   phase            what happens                                   event         next phase
//   idle, receiving  the bytes are the beginning of a request       none          receiving
//   idle, receiving  the bytes begin with a whole request           request       serving
//   idle, receiving  the bytes are no request                       failed        ended
//   idle, receiving  bytes come while an answer waits to be sent     pause         paused
//   receiving        a long body is due, or the client waits        judgeHead     receiving
//   receiving        `beginJudging`: the verdict comes later                      judging
//   judging          `endJudging`: the rest of the request is wanted              receiving
//   receiving        the judged client waits for 100 Continue       sendContinue  receiving
//   serving          `beginAnswer`: the answer comes later                        answering
//   serving          `endAnswer`: the answer is queued                            idle, ended
//   answering        `endAnswer`: all of the answer is queued                     idle, ended
//   answering        `beginServing`: its sender was found out                     serving
//   paused           `resume`: the output has left                                idle, receiving
//   any              `end`: the connection is upgraded or closes                  ended
//
// Invariants: requests are answered in order, so that bytes behind an unfinished answer wait in
// `pending`; while `mustStopReading`, nothing more is read. A client that pipelines without reading
// costs one read buffer, not the sum of its answers.

import Codec
import Session

/// Names a survey of one shard.
typealias SurveyID = UInt64
/// Names a question of one shard for a session.
typealias CallID = UInt64
/// Names a question of one shard for ended sessions.
typealias RecordQuestionID = UInt64

/// The state of HTTP on a connection until its upgrade. An object of its own, because a WebSocket
/// frees it.
final class HTTPServerConnection {
    /// The progress of a request; the diagram is at the top of the file.
    enum Phase {
        /// No byte of the next request has been parsed.
        case idle
        /// The beginning of a request has been parsed.
        case receiving(IncompleteRequest)
        /// Nothing is read until the sender of an incomplete request is known.
        case judging(IncompleteRequest)
        /// A whole request has been handed out and is not answered yet.
        case serving
        /// The answer is completed in a later tick.
        case answering(Answer)
        /// Bytes wait until the output has left; some of them may have been parsed.
        case paused(IncompleteRequest?)
        /// Nothing more is parsed: an error, the last answer, the upgrade, or the connection's end.
        case ended
    }

    /// An answer that is completed in a later tick.
    enum Answer {
        /// A model's reply, in pieces.
        case reply(TextAnswer)
        /// The survey whose outcome is the answer, while the shards are asked.
        case survey(SurveyID)
        /// The question for ended sessions whose outcome is the answer, while it is asked.
        case record(RecordQuestionID)
        /// The question for one session whose outcome is the answer, while the shards are asked.
        case call(CallID)
        /// The session that the client comes back for, while the store is asked.
        case claim
        /// The store is asked who sends the request; then it is served or refused.
        case sender
        /// Another node answers, byte by byte.
        case relay(NodeRelay)
    }

    /// A step that the shell performs.
    enum Event {
        /// Answer this request, then call `beginAnswer`, `endAnswer` or `end`.
        case request(HTTPRequest)
        /// Decide by its head whether the rest of this request is wanted, before its body is read.
        /// If it is, ask for the next event; if not, refuse it and call `end`.
        case judgeHead(HTTPRequest)
        /// Send `100 Continue` (RFC 9110 §10.1.1).
        case sendContinue
        /// Stop reading, and call `resume` when the output has left.
        case pause
        /// Refuse the bytes, and end the connection: where the next request begins is not known.
        case failed(HTTPError)
    }

    /// The meaning of a `deadline` that has passed.
    enum Overdue {
        /// The reply was silent, or its reader is.
        case reply(TextAnswer)
        /// The other node was silent, or the client does not read.
        case relay(NodeRelay)
        /// A request is incomplete and took too long.
        case slowRequest
        /// The connection is idle, or does not read.
        case idleConnection
    }

    /// A request whose end has not come. An object of its own: nearly every request comes in one
    /// piece, so a waiting connection needs no parser of about 400 bytes, even in a storm of
    /// connections.
    final class IncompleteRequest {
        /// The permission to send a long body.
        enum Clearance {
            /// The head has not been judged.
            case unjudged
            /// The head was accepted.
            case accepted
            /// `100 Continue` has been sent.
            case continued
        }

        /// Bytes of the object itself.
        static let objectBytes = HeapBlock.object(IncompleteRequest.self)

        fileprivate var parser: HTTPRequestParser
        fileprivate var clearance = Clearance.unjudged
        /// Bytes of the input that the parser has seen. Below 4 GiB, as `maxHeaderBytes` and
        /// `maxBodyBytes` are.
        fileprivate var parsedBytes: UInt32

        fileprivate init(_ parser: HTTPRequestParser, parsedBytes: Int) {
            self.parser = parser
            self.parsedBytes = UInt32(clamping: parsedBytes)
        }
    }

    /// Bytes of a request that are read before its head is judged. 64 KiB.
    static let maxUnjudgedBytes = 64 << 10
    /// Bytes that may wait behind an answer; more are not read. 64 KiB: meanwhile the connection is
    /// only read to notice that the client has left.
    static let maxPendingBehindAnswer = 64 << 10
    /// Time that shards have to answer. 1 s: a shard that is away for longer is reported as missing.
    static let shardPatience = Duration.seconds(1)
    /// Time that the keeper of records has. 8 s: a database that is away is noticed after 5 s.
    static let recordPatience = Duration.seconds(8)
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(HTTPServerConnection.self)

    private(set) var phase = Phase.idle
    /// Whether an answer has promised to keep the connection.
    private(set) var isKeptAlive = false
    /// Bytes that came and are not used yet: a request's beginning, or requests that wait.
    private(set) var pending: [UInt8] = []
    /// When the time of the request in progress began. That of the first request begins with the
    /// connection; that of any other with its first byte, or the end of the request before it.
    private(set) var requestStart: Instant
    /// When the first byte of the request in progress came.
    private var firstByte: Instant
    /// The client's address: the socket's peer, or the address in a proxy's header.
    var client = NetworkAddress.unspecified

    init(at now: Instant) {
        requestStart = now
        firstByte = now
    }

    // MARK: Getters

    /// Whether bytes that come can be used at once.
    var isParsing: Bool {
        switch phase {
        case .idle, .receiving: true
        case .judging, .serving, .answering, .paused, .ended: false
        }
    }

    /// Whether requests wait until the output has left.
    var isPaused: Bool { if case .paused = phase { true } else { false } }

    /// Whether a request has come whole. The silence that follows its answer is an idle
    /// connection's, not a slow request's.
    var hasHadRequest: Bool {
        switch phase {
        case .serving, .answering: true
        case .idle, .receiving, .judging, .paused, .ended: isKeptAlive
        }
    }

    /// Whether the answer to a request comes later; the next request waits.
    var isAnswering: Bool { if case .answering = phase { true } else { false } }

    /// The reply that is being sent, while there is one.
    var reply: TextAnswer? { if case .answering(.reply(let reply)) = phase { reply } else { nil } }

    /// The survey that is being made, while there is one.
    var survey: SurveyID? {
        if case .answering(.survey(let survey)) = phase { survey } else { nil }
    }

    /// The question for ended sessions that is being asked, while there is one.
    var recordQuestion: RecordQuestionID? {
        if case .answering(.record(let question)) = phase { question } else { nil }
    }

    /// The question for one session that is being asked, while there is one.
    var call: CallID? { if case .answering(.call(let call)) = phase { call } else { nil } }

    /// The request that another node answers, while there is one.
    var relay: NodeRelay? { if case .answering(.relay(let relay)) = phase { relay } else { nil } }

    /// Whether the store is being asked for the client's session.
    var isClaiming: Bool { if case .answering(.claim) = phase { true } else { false } }

    /// Whether the store is being asked who sends the request.
    var awaitsSender: Bool {
        switch phase {
        case .judging, .answering(.sender): true
        case .idle, .receiving, .serving, .answering, .paused, .ended: false
        }
    }

    /// Whether shards, other nodes or the store are being asked for the answer, or for the sender.
    var asksElsewhere: Bool {
        switch phase {
        case .judging, .answering(.survey), .answering(.record), .answering(.call),
            .answering(.claim), .answering(.sender):
            true
        case .idle, .receiving, .serving, .answering(.reply), .answering(.relay), .paused, .ended:
            false
        }
    }

    private var isJudging: Bool { if case .judging = phase { true } else { false } }

    /// Whether the bytes that were read must be used before more are read.
    var mustStopReading: Bool {
        isPaused || isJudging || (isAnswering && pending.count >= Self.maxPendingBehindAnswer)
    }

    /// Bytes of the object, of the request that it has a part of, and of its answer. The request's
    /// fields count as the bytes that they came in, which are `pending`.
    var heldBytes: Int {
        switch phase {
        case .receiving, .judging, .paused(.some):
            Self.objectBytes + IncompleteRequest.objectBytes
        case .answering(.reply): Self.objectBytes + TextAnswer.objectBytes
        case .answering(.relay(let relay)): Self.objectBytes + relay.heldBytes
        case .idle, .serving, .answering(.survey), .answering(.record), .answering(.call),
            .answering(.claim), .answering(.sender), .paused(nil), .ended:
            Self.objectBytes
        }
    }

    // MARK: Bytes

    /// The first bytes came after all earlier ones were used. To be called before `nextEvent`.
    func handleFirstBytes(at now: Instant) {
        // The first request's time counts from the connection's start.
        if hasHadRequest { requestStart = now }
        firstByte = now
    }

    /// Keeps bytes that no event has used. Called while no bytes are pending.
    func keep(_ unused: UnsafeMutableRawBufferPointer) { pending = Array(unused) }

    /// Adds bytes to those that are pending.
    func append(_ bytes: UnsafeMutableRawBufferPointer) { pending.append(contentsOf: bytes) }

    /// Hands the pending bytes to `body`, which asks for their events and returns how many of them
    /// no event has used. These stay pending, unless the connection has ended meanwhile.
    func usePending(_ body: (UnsafeMutableRawBufferPointer) -> Int) {
        var bytes: [UInt8] = []
        swap(&bytes, &pending)
        let unused = bytes.withUnsafeMutableBytes(body)
        if case .ended = phase { return }
        guard unused > 0 else { return }
        // The same array, not a copy: otherwise a head of many small reads costs their square.
        bytes.removeFirst(bytes.count - unused)
        pending = bytes
    }

    /// The next event. The caller repeats the call as long as there is one. Without one, it waits
    /// for more bytes, or calls the function for the outcome of the last event.
    /// - Parameters:
    ///   - input: all bytes since the last request's end; the bytes of a returned request are
    ///     removed.
    ///   - hasOutput: whether an answer has not left yet. The next request waits for that, so that
    ///     a connection that pipelines has one request for each write.
    func nextEvent(
        in input: inout UnsafeMutableRawBufferPointer, hasOutput: Bool, at now: Instant,
        _ settings: HTTPSettings
    ) -> Event? {
        guard !input.isEmpty else { return nil }
        var incomplete: IncompleteRequest?
        switch phase {
        case .idle: break
        case .receiving(let request):
            if Int(request.parsedBytes) == input.count { return step(of: request, input.count) }
            incomplete = request
        case .judging, .serving, .answering, .paused, .ended: return nil
        }
        if hasOutput {
            phase = .paused(incomplete)
            return .pause
        }
        do {
            let bytes = UnsafeRawBufferPointer(input)
            guard let (request, count) = try parse(bytes, incomplete, settings.parserLimits)
            else {
                guard case .receiving(let request) = phase else { return nil }
                return step(of: request, input.count)
            }
            phase = .serving
            requestStart = now
            firstByte = now
            input = UnsafeMutableRawBufferPointer(rebasing: input[count...])
            return .request(request)
        } catch {
            phase = .ended
            return .failed(error)
        }
    }

    /// Parses the request at the front of `bytes`; an incomplete one is kept in the phase.
    private func parse(
        _ bytes: UnsafeRawBufferPointer, _ incomplete: IncompleteRequest?, _ limits: HTTPLimits
    ) throws(HTTPError) -> (request: HTTPRequest, consumed: Int)? {
        if let incomplete {
            incomplete.parsedBytes = UInt32(clamping: bytes.count)
            return try incomplete.parser.parse(bytes)
        }
        var parser = HTTPRequestParser(limits: limits)
        if let result = try parser.parse(bytes) { return result }
        phase = .receiving(IncompleteRequest(parser, parsedBytes: bytes.count))
        return nil
    }

    /// The step that an incomplete request needs before more of it comes. A client that waits for
    /// `100 Continue` is refused at once, if its request is (RFC 9110 §10.1.1).
    private func step(of request: IncompleteRequest, _ byteCount: Int) -> Event? {
        let awaitsContinue = request.parser.awaitsContinue
        let isDue = awaitsContinue || byteCount > Self.maxUnjudgedBytes
        if isDue, request.clearance == .unjudged, let head = request.parser.requestInBody {
            request.clearance = .accepted
            return .judgeHead(head)
        }
        guard awaitsContinue, request.clearance != .continued else { return nil }
        request.clearance = .continued
        return .sendContinue
    }

    /// Begins to answer a request that was handed out before. Either its connection has come from
    /// another shard, or its sender had to be looked up first.
    func beginServing() { phase = .serving }

    /// The verdict on the head that was handed out comes later.
    func beginJudging() {
        guard case .receiving(let request) = phase else {
            return assertionFailure("no request is received")
        }
        phase = .judging(request)
    }

    /// Accepts the request: its rest is read.
    func endJudging() {
        guard case .judging(let request) = phase else {
            return assertionFailure("no request is judged")
        }
        phase = .receiving(request)
    }

    /// Hands out the bytes behind a request; `putBack` returns those that were not used.
    func takePending() -> [UInt8] {
        defer { pending = [] }
        return pending
    }

    /// Takes bytes back that came behind a request.
    func putBack(_ bytes: [UInt8]) { pending = bytes }

    // MARK: Outcomes

    /// The answer to the request that was handed out comes later.
    func beginAnswer(_ answer: Answer) {
        guard case .serving = phase else { return assertionFailure("no request is served") }
        phase = .answering(answer)
    }

    /// All of the answer is queued.
    /// - Parameter keepsConnection: whether the connection is kept: the answer has promised it, and
    ///   it still may be.
    func endAnswer(keepsConnection: Bool, at now: Instant) {
        switch phase {
        case .serving, .answering(.survey), .answering(.record), .answering(.call),
            .answering(.claim), .answering(.sender):
            break
        // Requests that have waited behind a reply have their time from here on.
        case .answering(.reply), .answering(.relay): requestStart = now
        case .idle, .receiving, .judging, .paused, .ended:
            return assertionFailure("no request is served")
        }
        isKeptAlive = keepsConnection
        phase = keepsConnection ? .idle : .ended
    }

    /// The output has left: the requests that waited for it are parsed.
    func resume() {
        guard case .paused(let incomplete) = phase else { return }
        phase = incomplete.map { .receiving($0) } ?? .idle
    }

    /// The connection speaks HTTP no more.
    /// - Returns: the reply that was being sent.
    @discardableResult
    func end() -> TextAnswer? {
        defer { phase = .ended }
        return reply
    }

    // MARK: Time

    /// When the connection must be handled, unless an event comes before.
    /// - Parameter lastReceived: when bytes came last.
    func deadline(
        lastReceived: Instant, _ settings: ConnectionSettings
    ) -> Instant {
        switch phase {
        case .answering(.reply(let reply)):
            reply.deadline(
                ping: settings.webSocket.pingInterval, patience: settings.slowReaderTimeout)
        case .answering(.relay(let relay)):
            relay.deadline(settings.webSocket, patience: settings.slowReaderTimeout)
        // All of them end sooner, with an answer.
        case .answering(.record):
            requestStart + settings.http.headerTimeout + Self.recordPatience
        case .answering(.survey), .answering(.call), .answering(.claim), .answering(.sender),
            .judging:
            requestStart + settings.http.headerTimeout + NodeRequest.patience + Self.shardPatience
        // The answer that the next request waits behind may be long, and its reader slow.
        case .paused: lastReceived + settings.http.keepAliveTimeout
        case .idle, .receiving, .serving, .ended:
            if pending.isEmpty && hasHadRequest {
                lastReceived + settings.http.keepAliveTimeout
            } else {
                requestDeadline(settings.http)
            }
        }
    }

    /// By when the request must be there: its head within a fixed time, and both head and body at
    /// the pace of a request once they have begun.
    private func requestDeadline(_ settings: HTTPSettings) -> Instant {
        let head = requestStart + settings.headerTimeout
        guard !pending.isEmpty else { return head }
        let pace = settings.pace
        let paced = firstByte + pace.grace + pace.credit(forBytes: pending.count)
        guard case .receiving(let request) = phase, request.parser.isInBody else {
            return min(head, paced)
        }
        return paced
    }

    /// The meaning of a `deadline` that has passed.
    var overdue: Overdue {
        if let reply { return .reply(reply) }
        if let relay { return .relay(relay) }
        return pending.isEmpty || mustStopReading ? .idleConnection : .slowRequest
    }
}
