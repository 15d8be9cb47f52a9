// Whether a model of this machine runs (`make brain`), for the conversation page. A look never
// waits: it returns the last finding. When that is old, the shard that looks asks again.

import Codec
import Session
import Synchronization

/// The state of the model of this machine, which all shards share.
package final class LocalModelWatch: Sendable {
    /// The state of the model, as last found.
    enum Finding: Equatable {
        /// Nothing yet: the model is being asked.
        case unknown
        case absent
        /// It answers, and this is its first model's name.
        case running(model: String)
    }

    /// How long a finding is good; the model is asked no more often. 2 s: a page is opened seldom.
    /// A user who starts the model and reloads the page sees it.
    static let freshness = Duration.seconds(2)
    /// Time for the model's answer. It is asked on loopback; while it computes it may be slow.
    static let timeout = Duration.seconds(2)
    /// Bytes of its list of models. 64 KiB: a few hundred models.
    static let maxAnswerBytes = 64 << 10
    /// Bytes of a name that is shown.
    static let maxNameBytes = 100

    private struct State {
        var finding = Finding.unknown
        var foundAt: Instant?
        var isAsking = false
    }

    private let state = Mutex(State())

    package init() {}

    /// The finding of the last `freshness`, or `unknown` where there is none.
    /// - Returns: the finding; and whether the caller is to ask the model, and to call `note` with
    ///   the result in any case.
    func look(at now: Instant) -> (finding: Finding, asks: Bool) {
        state.withLock { state in
            let isFresh = state.foundAt.map { now - $0 < Self.freshness } ?? false
            if isFresh { return (state.finding, false) }
            let asks = !state.isAsking
            state.isAsking = true
            return (.unknown, asks)
        }
    }

    /// The model was asked.
    func note(_ finding: Finding, at now: Instant) {
        state.withLock {
            $0.finding = finding
            $0.foundAt = now
            $0.isAsking = false
        }
    }

    /// Asks for the list of models.
    static func ask(_ baseURL: String, on host: any AgentHost) async -> Finding {
        let request = UpstreamRequest(
            url: baseURL + "/models", method: "GET", timeout: timeout, totalTimeout: timeout)
        do {
            let response = try await host.send(request)
            guard response.status == 200 else { return .absent }
            var body: [UInt8] = []
            while let chunk = try await response.nextChunk() {
                guard body.count + chunk.count <= maxAnswerBytes else { return .absent }
                body += chunk
            }
            return finding(in: body)
        } catch {
            return .absent
        }
    }

    /// The finding in an answer: another program may listen on the same port. The page shows the name
    /// in a command for the user's shell, so a name with signs of the shell's language is not taken.
    static func finding(in body: [UInt8]) -> Finding {
        // A value is good only as long as its parser.
        let parser = JSONParser()
        guard let list = try? parser.parse(body), var models = list["data"]?.elements,
            let name = models.next()?["id"]?.string, !name.isEmpty, name.utf8.count <= maxNameBytes,
            name.utf8.allSatisfy(isPlain)
        else { return .absent }
        return .running(model: name)
    }

    /// Whether a byte of a name needs no quotes in a shell and in a Makefile.
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "-_./:@+".utf8.contains(byte)
    }
}
