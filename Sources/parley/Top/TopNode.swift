// One server as `parley top` knows it: its newest answers and the rates between two of them, or why
// it is lost. TopView shows one or several.
//
// Invariant: a server that is in trouble shows no sessions, because its last list may be old.

import Session

/// One server.
struct TopNode {
    /// The shortest time over which rates are computed, in seconds. 0.5.
    private static let shortestRate = 0.5

    /// Its URL.
    let server: String
    /// Why the server is lost; nil while it answers.
    var trouble: String?
    private(set) var list: TopList?
    private(set) var metrics: TopMetrics?
    private(set) var turnsPerSecond: Double?
    private(set) var lagBound: Double?
    /// The time of the newest metrics.
    private var ratedAt = 0.0

    init(server: String) { self.server = server }

    /// New answers have come.
    /// - Parameter seconds: now, on any clock.
    mutating func update(_ list: TopList, _ metrics: TopMetrics, at seconds: Double) {
        if let before = self.metrics {
            rate(metrics, before, at: seconds)
        } else {
            lagBound = metrics.lagBound(since: nil)
            (self.metrics, ratedAt) = (metrics, seconds)
        }
        self.list = list
        trouble = nil
    }

    /// Computes rates. After a key the server is asked at once, and the counts of the moment since
    /// then say little.
    private mutating func rate(_ metrics: TopMetrics, _ before: TopMetrics, at seconds: Double) {
        guard seconds >= ratedAt + Self.shortestRate else { return }
        turnsPerSecond = max(0, metrics.responses - before.responses) / (seconds - ratedAt)
        lagBound = metrics.lagBound(since: before)
        (self.metrics, ratedAt) = (metrics, seconds)
    }

    // MARK: Text

    /// `Memory 1.5M of 30.0M resident (5%)  Shards 2, busy 12% 3%  Turns 2.5/s  Lag p99 <= 0.2 ms`;
    /// nil before the first answer.
    var load: String? {
        guard let list, let metrics else { return nil }
        let share =
            list.residentBytes > 0
            ? " (\(100 * list.ledgerBytes / list.residentBytes)%)" : ""
        let busy = metrics.busy.map { "\(Int(($0 * 100).rounded()))%" }.joined(separator: " ")
        let silent = list.silentShards > 0 ? ", \(list.silentShards) without an answer" : ""
        let turns =
            turnsPerSecond.map { "\(TopText.tenths($0))/s" }
            ?? "\(TopText.grouped(Int(metrics.responses))) so far"
        let lag = lagBound.map { $0.isFinite ? "<= \(TopText.tenths($0 * 1_000)) ms" : "over 26 s" }
        return "Memory \(TopText.bytes(list.ledgerBytes)) of "
            + "\(TopText.bytes(list.residentBytes)) resident\(share)  "
            + "Shards \(list.shards)\(silent), busy \(busy)  Turns \(turns)  "
            + "Lag p99 \(lag ?? "-")"
    }

    /// `Process 12.4M: 3.8M start, 5.1M ledgers, 2.0M pools, 1.5M other`; nil where the server does not
    /// say.
    var memory: String? {
        guard let parts = metrics?.memory, !parts.isEmpty else { return nil }
        let sum = parts.reduce(0) { $0 + $1.bytes }
        let shown = parts.filter { $0.bytes.magnitude >= 50_000 }
        return "Process \(TopText.bytes(sum)): "
            + shown.map { "\(TopText.bytes($0.bytes)) \($0.name)" }.joined(separator: ", ")
    }

    /// The server's line in a cluster's header.
    /// - Parameters:
    ///   - number: its place in the list of servers, from 1.
    ///   - width: characters of the longest server.
    func line(number: Int, width: Int) -> String {
        let name = "\(number)  \(TopText.pad(server, to: width))  "
        if let trouble { return name + trouble }
        guard let list, let load else { return name + "asking" }
        let sessions = TopText.grouped(TopView.sessions(in: list.states))
        return name + TopText.pad(sessions, to: 7, isRight: true) + " sessions  " + load
    }
}
