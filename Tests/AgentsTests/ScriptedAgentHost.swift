// An agent's host without a server: requests are answered from a script, and work runs at once on
// the caller's thread. The clock stands still.

import Session
import Synchronization

/// Answers each request with the next of its scripted answers.
final class ScriptedAgentHost: AgentHost {
    struct Answer: Sendable {
        var status = 200
        /// The delay that the service asks for (`Retry-After`).
        var retryAfter: Duration?
        var chunks: [[UInt8]] = []
        /// Thrown after the chunks: the answer breaks off.
        var failure: AgentError?
        var contentType: String?
        var header: (name: String, value: String)?
        /// Where a redirect points.
        var location: String?
    }

    private let answers: Mutex<[Answer]>
    private let sent = Mutex<[UpstreamRequest]>([])
    private let slept = Mutex<[Duration]>([])
    /// Pieces of a streaming computation that are accepted; `yield` returns false for the last.
    private let wantedPieces: Int

    init(answers: [Answer] = [], wantedPieces: Int = .max) {
        self.answers = Mutex(answers)
        self.wantedPieces = wantedPieces
    }

    /// The requests so far.
    var requests: [UpstreamRequest] { sent.withLock { $0 } }

    private let reported = Mutex<[ServiceFault]>([])

    /// The failures that were reported.
    var faults: [ServiceFault] { reported.withLock { $0 } }

    func report(_ fault: ServiceFault) { reported.withLock { $0.append(fault) } }

    private let charges = Mutex<(now: Int, most: Int)>((0, 0))

    /// The bytes charged to the session: now, and the most so far.
    var charged: (now: Int, most: Int) { charges.withLock { $0 } }

    func charge(_ bytes: Int) {
        charges.withLock { charges in
            charges.now += bytes
            charges.most = max(charges.most, charges.now)
        }
    }

    /// The durations of all calls of `sleep`.
    var sleeps: [Duration] { slept.withLock { $0 } }

    func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        slept.withLock { $0.append(duration) }
    }

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result { try work() }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        let pieces = Mutex<[Element]>([])
        try work { piece in
            pieces.withLock {
                if $0.count < wantedPieces { $0.append(piece) }
                return $0.count < wantedPieces
            }
        }
        for piece in pieces.withLock({ $0 }) { try await each(piece) }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        sent.withLock { $0.append(request) }
        let answer = answers.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        guard let answer else {
            throw AgentError.upstream(status: 0, message: "the script has no answer left")
        }
        return ScriptedResponse(answer)
    }
}

/// A host that runs work at once and refuses all requests; conforming types supply the clock.
protocol HostWithoutServices: AgentHost {}

extension HostWithoutServices {
    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result { try work() }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {}

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        throw AgentError.overloaded
    }
}

private final class ScriptedResponse: UpstreamResponse {
    let status: Int
    let retryAfter: Duration?
    let contentType: String?
    let location: String?
    private let kept: (name: String, value: String)?
    private let rest: Mutex<[[UInt8]]>
    private let failure: AgentError?

    init(_ answer: ScriptedAgentHost.Answer) {
        status = answer.status
        retryAfter = answer.retryAfter
        contentType = answer.contentType
        location = answer.location
        kept = answer.header
        rest = Mutex(answer.chunks)
        failure = answer.failure
    }

    func header(_ name: String) -> String? { kept?.name == name ? kept?.value : nil }

    func nextChunk() async throws -> [UInt8]? {
        try Task.checkCancellation()
        let chunk = rest.withLock { $0.isEmpty ? nil : $0.removeFirst() }
        if chunk == nil, let failure { throw failure }
        return chunk
    }
}

/// Collects what an agent replies.
final class Collected<Element: Sendable>: Sendable {
    private let elements = Mutex<[Element]>([])

    var all: [Element] { elements.withLock { $0 } }

    func append(_ element: Element) { elements.withLock { $0.append(element) } }
}

extension LanguageModel {
    /// The whole reply to a request.
    func deltas(for request: ModelRequest, on host: any AgentHost) async throws -> [ModelDelta] {
        let collected = Collected<ModelDelta>()
        try await respond(to: request, on: host) { collected.append($0) }
        return collected.all
    }
}

extension [ModelDelta] {
    /// The reply's text.
    var text: String {
        reduce(into: "") { text, delta in
            if case .text(let piece) = delta { text += piece }
        }
    }
}
