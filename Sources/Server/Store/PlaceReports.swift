// Reports to Redis how many sessions principals have on this server, and learns how many they have
// on others. One shard of a server does this for all. SessionPlaces says what is reported.
//
// A count lives for 30 s and is renewed every second, or every 10 s where there are many. The
// answer has the places that others have taken meanwhile. The count of a dead server is removed,
// and is not part of the answer.
//
// Invariant: at most one report is under way.

import Codec
import Session

/// The reports of a server. Confined to its shard's thread.
final class PlaceReports {
    /// Heartbeats between two renewals of more counts than one report has.
    private static let beatsPerRenewal = 10

    private let link: StoreLink
    private let places: SessionPlaces
    private let node: String
    private var isUnderWay = false
    private var beats = 0

    init(over link: StoreLink, places: SessionPlaces, node: String) {
        (self.link, self.places, self.node) = (link, places, node)
    }

    /// Whether there is something to report.
    var hasChanges: Bool { places.hasChanges }

    /// Has everything reported again from time to time.
    /// - Parameter isReachable: false: the store is away.
    func handleHeartbeat(isReachable: Bool) {
        if !isReachable { places.forgetOthers() }
        beats += 1
        if beats.isMultiple(of: Self.beatsPerRenewal) || places.fitsOneReport { places.renew() }
    }

    /// Reports the changes, unless a report has no outcome yet.
    func send() {
        guard !isUnderWay, link.isReady else { return }
        let report = places.takeReport()
        guard !report.isEmpty else { return }
        isUnderWay = true
        let command = RedisCommand(
            Self.script,
            keys: report.map { "parley:places:\($0.principal.hexadecimal(ofBytes: 16))" },
            arguments: [Array(node.utf8)] + report.map { Array("\($0.count)".utf8) })
        link.send(.places, command) { [self] result in
            isUnderWay = false
            switch result {
            case .success(let reply):
                let counts = reply.array?.map { Int(clamping: max(0, $0.integer ?? 0)) } ?? []
                places.apply(counts, of: report)
            // A count is reported, not a difference, so it may be reported twice.
            case .failure: places.putBack(report)
            }
        }
    }

    /// Keys: a hash of counts by node for each principal. Arguments: the node, and its count for
    /// each of them. Answers with the counts of the other nodes that are alive.
    private static let script = RedisScript(
        """
        local alive, answer = {}, {}
        for i = 1, #KEYS do
            local own, others = tonumber(ARGV[i + 1]), 0
            if own > 0 then redis.call('HSET', KEYS[i], ARGV[1], own)
            else redis.call('HDEL', KEYS[i], ARGV[1]) end
            local counts = redis.call('HGETALL', KEYS[i])
            for j = 1, #counts, 2 do
                local node = counts[j]
                if node ~= ARGV[1] then
                    if alive[node] == nil then
                        alive[node] = redis.call('EXISTS', 'parley:node:' .. node) == 1
                    end
                    if alive[node] then others = others + (tonumber(counts[j + 1]) or 0)
                    else redis.call('HDEL', KEYS[i], node) end
                end
            end
            redis.call('PEXPIRE', KEYS[i], 30000)
            answer[i] = others
        end
        return answer
        """)
}
