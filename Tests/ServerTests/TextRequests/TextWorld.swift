// The setting of the tests of text over HTTP: a real shard on a simulated kernel, a model that
// follows a script, and a client that parses the answers.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// A model whose answer is a closure; it counts the outcomes.
final class ClosureModel: LanguageModel {
    typealias Reply = @Sendable (ModelDelta) async throws -> Void
    typealias Script = @Sendable (ModelRequest, any AgentHost, Reply) async throws -> Void

    private let script: Script
    private let asked = Mutex<[ModelRequest]>([])
    private let counts = Mutex<(deltas: Int, cancelled: Int)>((0, 0))

    init(_ script: @escaping Script) { self.script = script }

    /// Replies with these words.
    convenience init(words: [String]) {
        self.init { _, _, reply in
            for word in words { try await reply(.text(word)) }
            try await reply(.usage(inputTokens: 7, cachedTokens: 2, outputTokens: words.count))
        }
    }

    /// The requests that it got.
    var requests: [ModelRequest] { asked.withLock { $0 } }
    /// Deltas that it has delivered.
    var deltas: Int { counts.withLock { $0.deltas } }
    /// Answers that were stopped.
    var cancelled: Int { counts.withLock { $0.cancelled } }

    func respond(to request: ModelRequest, on host: any AgentHost, reply: Reply) async throws {
        asked.withLock { $0.append(request) }
        do {
            try await script(request, host) { delta in
                try await reply(delta)
                counts.withLock { $0.deltas += 1 }
            }
        } catch let error as CancellationError {
            counts.withLock { $0.cancelled += 1 }
            throw error
        }
    }
}

/// A server whose sessions are answered by a script.
struct TextWorld {
    let server: SimulatedServer
    let model: ClosureModel

    init(
        _ model: ClosureModel, faults: SimulatedFaults = SimulatedFaults(), seed: UInt64 = 1,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        change(&configuration)
        #expect(configuration.objection == nil)
        self.model = model
        server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model), seed: seed,
            faults: faults)
    }

    /// A request with a body.
    static func post(
        _ path: String, _ body: String, fields: String = "", version: String = "1.1"
    ) -> String {
        "POST \(path) HTTP/\(version)\r\nHost: localhost\r\n\(fields)"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// Sends a request on a new connection and runs until the server is idle.
    func send(_ request: String, window: Int = 1 << 20) -> SimulatedPeer {
        let peer = server.connect(window: window)
        peer.send(request)
        #expect(server.run())
        return peer
    }

    /// Text requests in flight.
    var openRequests: Int { server.metrics.textRequests.load(ordering: .relaxed) }

    /// No text request and no connection is left.
    func expectNothingLeft(after time: Duration = .seconds(300)) {
        let waits = server.io.waits
        #expect(server.run(for: time))
        #expect(server.io.waits - waits < 1_000, "it spins")
        #expect(openRequests == 0 && server.shard.textRequests.all.isEmpty)
        #expect(server.shard.services.replies.count == 0)
        #expect(server.io.openHandles == 0 && server.shard.fixtures.chunks.chunksInUse == 0)
        for metric in [ShardMetric.textRequestsOpen, .ledgerBytes, .agentTasks, .connectionsOpen] {
            #expect(server.metrics.total(of: metric) == 0, "\(metric)")
        }
    }
}

/// The part of an answer in chunks that has come.
struct StreamedAnswer {
    var status = 0
    var head = ""
    /// The data of each event.
    var events: [String] = []
    /// Comments between them.
    var comments = 0
    /// Whether the last chunk has come.
    var isComplete = false
    /// Bytes behind it.
    var rest: [UInt8] = []

    init(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n") else { return }
        head = String(text[..<end.lowerBound])
        status = Int(head.split(separator: " ")[1]) ?? 0
        var body: [UInt8] = []
        var left = Array(text[end.upperBound...].utf8)[...]
        while let line = left.firstIndex(of: 13) {
            let size = Int(String(decoding: left[..<line], as: UTF8.self), radix: 16) ?? 0
            guard left.count >= line - left.startIndex + 4 + size else { break }
            body += left[(line + 2)..<(line + 2 + size)]
            left = left[(line + 4 + size)...]
            guard size > 0 else {
                isComplete = true
                break
            }
        }
        rest = Array(left)
        for event in String(decoding: body, as: UTF8.self).split(separator: "\n\n") {
            if event.hasPrefix("data: ") { events.append(String(event.dropFirst(6))) }
            if event.hasPrefix(":") { comments += 1 }
        }
    }

    /// Values of a member that is a string, event by event.
    func values(of key: String) -> [String] {
        events.compactMap { event in
            event.split(separator: "\"\(key)\":\"").dropFirst().first.map {
                String($0.prefix { $0 != "\"" })
            }
        }
    }
}

extension String {
    /// Where another text first occurs.
    func range(of other: String) -> Range<String.Index>? {
        let (own, wanted) = (Array(utf8), Array(other.utf8))
        guard own.count >= wanted.count else { return nil }
        for start in 0...(own.count - wanted.count)
        where own[start..<(start + wanted.count)].elementsEqual(wanted) {
            let lower = utf8.index(startIndex, offsetBy: start)
            return lower..<utf8.index(lower, offsetBy: wanted.count)
        }
        return nil
    }
}

/// Counts calls from any thread.
final class CallCounter: Sendable {
    private let calls = Atomic<Int>(0)

    /// Calls so far.
    var count: Int { calls.load(ordering: .relaxed) }

    func increase() { calls.add(1, ordering: .relaxed) }
}
