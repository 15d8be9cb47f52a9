// The store of several servers: records of sessions in Redis, over the shard's own connection. All
// rules are in StoreScripts; here are their arguments and outcomes.
//
// A server that is slow or away is an outcome (`.failed`, `.unavailable`) at once or within the time
// limit of a command. Nothing waits for it.
//
// Invariant: confined to the shard's thread. Every call has exactly one outcome.

import Codec
import Session

/// Runs scripts on the shard's link and measures them. Confined to the shard's thread.
final class StoreLink {
    /// The purpose of the connection.
    static let purpose = "store"

    private let client: RedisClient
    private let address: RedisAddress
    private let metrics: ShardMetrics
    private var link: RedisLink?
    /// Commands without an outcome.
    private(set) var pending = 0
    /// Is called each time the server begins to answer.
    var onReady: (() -> Void)?

    init(client: RedisClient, address: RedisAddress, metrics: ShardMetrics) {
        (self.client, self.address, self.metrics) = (client, address, metrics)
    }

    /// Whether the server answers.
    var isReady: Bool { link?.isReady ?? false }
    /// Why the store cannot be used, or nil where it can, or was not asked yet.
    var trouble: RedisTrouble? { link?.trouble }

    /// Connects. On the shard's thread.
    func open() {
        guard link == nil,
            let made = try? client.link(
                to: address, for: Self.purpose,
                probe: .script(keys: ["parley:probe", StoreScripts.nodes]))
        else {
            return
        }
        link = made
        made.onReady = { [weak self] in self?.onReady?() }
        made.open()
    }

    /// Sends a command; where it cannot be sent, the outcome comes before the call returns.
    func send(
        _ operation: StoreOperation, _ command: RedisCommand,
        then: @escaping (Result<RedisValue, RedisError>) -> Void
    ) {
        open()
        let begin = client.now
        do throws(RedisError) {
            guard let link else { throw .unavailable }
            try link.send(command) { [self] result in
                pending -= 1
                note(operation, result, since: begin)
                then(result)
            }
            pending += 1
        } catch {
            note(operation, .failure(error), since: begin)
            then(.failure(error))
        }
    }

    private func note(
        _ operation: StoreOperation, _ result: Result<RedisValue, RedisError>, since begin: Instant
    ) {
        switch result {
        case .success: metrics.observe(operation.histogram, client.now - begin)
        case .failure: metrics.add(.storeFailures)
        }
    }
}

/// A shard's records in Redis.
final class RedisSessionStore: SessionStore {
    /// Bytes of a record that may be claimed. 12 MiB: a connection can read that much beside the
    /// names. A longer reply would end it.
    static let maxRecordBytes = 12 << 20

    private let link: StoreLink
    private let metrics: ShardMetrics
    /// This server, as records name their owner.
    private let node: String

    /// Creates a store that connects when it is first used or `link` is opened.
    init(over link: StoreLink, node: String, metrics: ShardMetrics) {
        (self.link, self.node, self.metrics) = (link, node, metrics)
    }

    var isShared: Bool { true }
    var isReachable: Bool { link.isReady }
    var pendingChanges: Int { link.pending }

    func write(_ change: SessionChange, then: @escaping (StoreWriteOutcome) -> Void) {
        var arguments = Self.texts(
            "\(change.fence)", node, change.isWhole ? "1" : "0", Self.text(of: change.lifetime),
            "\(change.removed.count)")
        arguments += change.removed.map { Array($0.utf8) }
        for field in change.set { arguments += [Array(field.name.utf8), field.value] }
        let command = RedisCommand(
            StoreScripts.write, keys: [StoreScripts.record(of: change.sessionID)],
            arguments: arguments)
        link.send(.write, command) { [metrics] result in
            let outcome = Self.writeOutcome(of: result)
            if outcome == .fenced { metrics.add(.storeFenced) }
            then(outcome)
        }
    }

    private static func writeOutcome(
        of result: Result<RedisValue, RedisError>
    ) -> StoreWriteOutcome {
        switch (try? result.get())?.text {
        case "written"?: .written
        case "fenced"?: .fenced
        case "missing"?: .missing
        default: .failed
        }
    }

    func claim(_ claim: SessionClaim, then: @escaping (ClaimOutcome) -> Void) {
        send(claim) { [self] result in
            // A server that has lost its scripts gets them with the next command.
            if case .failure(.refused("NOSCRIPT", _)) = result {
                send(claim) { then(Self.claimOutcome(of: $0)) }
            } else {
                then(Self.claimOutcome(of: result))
            }
        }
    }

    private func send(
        _ claim: SessionClaim, then: @escaping (Result<RedisValue, RedisError>) -> Void
    ) {
        var arguments = [claim.proof]
        arguments += Self.texts(
            node, claim.force ? "1" : "0", Self.text(of: claim.lifetime), claim.sessionID,
            "\(Self.maxRecordBytes)")
        let command = RedisCommand(
            StoreScripts.claim, keys: [StoreScripts.record(of: claim.sessionID)],
            arguments: arguments)
        link.send(.claim, command, then: then)
    }

    private static func claimOutcome(
        of result: Result<RedisValue, RedisError>
    ) -> ClaimOutcome {
        guard let answer = (try? result.get())?.array, let word = answer.first?.text else {
            return .unavailable
        }
        switch word {
        case "missing": return .missing
        case "held":
            guard answer.count == 2, let node = answer[1].text else { return .unavailable }
            return .heldBy(node: node)
        case "claimed":
            guard answer.count == 3, let fence = answer[1].text.flatMap({ UInt64($0) }),
                var fields = answer[2].fields
            else { return .unavailable }
            fields["owner"] = nil
            fields["fence"] = nil
            return .claimed(fields: fields, fence: fence)
        default: return .unavailable
        }
    }

    func release(_ sessionID: String, fence: UInt64, lifetime: Duration) {
        let command = RedisCommand(
            StoreScripts.release, keys: [StoreScripts.record(of: sessionID)],
            arguments: Self.texts("\(fence)", node, Self.text(of: lifetime)))
        link.send(.release, command) { _ in }
    }

    func remove(_ sessionID: String, fence: UInt64) {
        let command = RedisCommand(
            StoreScripts.remove, keys: [StoreScripts.record(of: sessionID)],
            arguments: Self.texts("\(fence)", node))
        link.send(.remove, command) { _ in }
    }

    private static func texts(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

    /// Whole milliseconds, 1 or more: Redis removes at once what lives for none.
    private static func text(of lifetime: Duration) -> String {
        "\(max(1, lifetime.wholeMilliseconds))"
    }
}
