// A session's use of its limits, as its record in a store has it. Times are those of the calendar,
// because each process has a clock of its own.
//
// Invariant: values that are read count only within the quotas. A member that cannot be read counts
// as no use.

import Codec
import Session

/// A session's use of its limits.
struct SavedUse: Equatable {
    /// Tokens of an estimate: more than any request has, and sums cannot overflow.
    private static let maxEstimate = 1 << 40

    /// Responses that it has begun.
    var turns: UInt32 = 0
    /// By the index of a bucket of its own quotas, when that will be full, in seconds since 1970.
    var quotasFullAt: [Int: Int] = [:]
    /// Tokens that are counted for a request whose response has not ended, by the response's id.
    var estimates: [String: Int] = [:]

    init() {}

    func write(into json: inout JSONWriter) {
        json.object { json in
            json.member("turns", Int(turns))
            if !quotasFullAt.isEmpty {
                json.array("full_at") { json in
                    for (bucket, time) in quotasFullAt.sorted(by: { $0.key < $1.key }) {
                        json.array { json in
                            json.integer(bucket)
                            json.integer(time)
                        }
                    }
                }
            }
            if !estimates.isEmpty {
                json.array("estimates") { json in
                    for (responseID, tokens) in estimates.sorted(by: { $0.key < $1.key }) {
                        json.array { json in
                            json.string(responseID)
                            json.integer(tokens)
                        }
                    }
                }
            }
        }
    }

    init(_ value: JSONValue?) {
        turns = value?["turns"]?.int.flatMap(UInt32.init(exactly:)) ?? 0
        for pair in Self.pairs(value?["full_at"]) {
            guard let bucket = pair[0].int, let time = pair[1].int else { continue }
            quotasFullAt[bucket] = time
        }
        for pair in Self.pairs(value?["estimates"]) {
            guard let responseID = pair[0].string, let tokens = pair[1].int,
                (1...Self.maxEstimate).contains(tokens)
            else { continue }
            estimates[responseID] = tokens
        }
    }

    private static func pairs(_ value: JSONValue?) -> [[JSONValue]] {
        (value?.elements.map(Array.init) ?? []).compactMap { pair in
            pair.elements.map(Array.init).flatMap { $0.count == 2 ? $0 : nil }
        }
    }
}
