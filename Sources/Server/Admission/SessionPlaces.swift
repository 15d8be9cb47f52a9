// The number of open sessions of each principal. One table for all shards; used at the beginning
// and the end of a session, and only where a principal's sessions are limited.
//
// Where servers share a store, each reports the places that were taken or given back, and learns
// how many the others have. It reports principals that have a session here, and follows some that
// have none: the limited keys of its file, and those whose last session here ended lately. It
// does not know the places that others have given since the last report, nor those of a principal
// that it does not follow. So several servers may give more than the limit.
//
// Invariant: `taken` has a principal only while it has a session, and the counts of other servers
// are known for such principals and for at most `maxFollowed` more.

import Codec
import Synchronization

/// A report: principals, and how many places each has on this server.
typealias PlaceReport = [(principal: SHA256Digest, count: Int)]

/// Counts of open sessions. Any thread.
package final class SessionPlaces: Sendable {
    /// Principals of one report; the others wait for the next. 500: the script takes about 1 ms.
    static let maxReport = 500
    /// The most principals without a session here whose count is followed. The oldest is dropped
    /// first. 500: as many as one report has.
    static let maxFollowed = maxReport

    private struct State {
        var taken: [SHA256Digest: Int] = [:]
        /// Places that other servers have given.
        var others: [SHA256Digest: Int] = [:]
        /// Principals that are asked about also without a session here, oldest first.
        var followed: [SHA256Digest] = []
        var isFollowed: Set<SHA256Digest> = []
        /// Principals to report, in the order in which their counts changed.
        var changed: [SHA256Digest] = []
        var isChanged: Set<SHA256Digest> = []
        /// Called when there is something to report. Nil where there is no other server.
        var wake: (@Sendable () -> Void)?

        /// - Returns: the function to call, if there is something to report.
        mutating func note(_ principal: SHA256Digest) -> (@Sendable () -> Void)? {
            guard wake != nil, isChanged.insert(principal).inserted else { return nil }
            changed.append(principal)
            return changed.count == 1 ? wake : nil
        }

        func isKnown(_ principal: SHA256Digest) -> Bool {
            taken[principal] != nil || isFollowed.contains(principal)
        }

        /// All principals that are asked about.
        var known: Set<SHA256Digest> { isFollowed.union(taken.keys) }

        mutating func follow(_ principal: SHA256Digest) {
            guard wake != nil, isFollowed.insert(principal).inserted else { return }
            followed.append(principal)
            guard followed.count > SessionPlaces.maxFollowed else { return }
            let oldest = followed.removeFirst()
            isFollowed.remove(oldest)
            if taken[oldest] == nil { others[oldest] = nil }
        }
    }

    private let state = Mutex(State())

    /// Creates an empty table.
    package init() {}

    /// Principals that have a session now.
    package var count: Int { state.withLock { $0.taken.count } }

    /// Takes a place. Where others have the last one, they are asked anew: it may be free by now.
    /// - Parameter isMoved: whether the session comes from another server, which may count it yet.
    /// - Returns: false where the principal has that many already.
    func take(_ principal: SHA256Digest, atMost limit: Int, isMoved: Bool = false) -> Bool {
        let (isTaken, wake) = state.withLock { state -> (Bool, (@Sendable () -> Void)?) in
            let open = state.taken[principal] ?? 0
            guard open < limit else { return (false, nil) }
            let others = max(0, (state.others[principal] ?? 0) - (isMoved ? 1 : 0))
            let isFree = others < limit - open
            if isFree { state.taken[principal] = open + 1 }
            return (isFree, state.note(principal))
        }
        wake?()
        return isTaken
    }

    /// Gives a place back. Once per place.
    func release(_ principal: SHA256Digest) {
        let wake = state.withLock { state in
            guard let open = state.taken[principal] else {
                preconditionFailure("released twice")
            }
            state.taken[principal] = open > 1 ? open - 1 : nil
            if open == 1 { state.follow(principal) }
            return state.note(principal)
        }
        wake?()
    }

    // MARK: Several servers

    /// Reports changes from now on.
    /// - Parameter wake: is called when there is something to report, on any thread.
    func share(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }

    /// Asks also about principals that have no session here. Nothing is done where there is no
    /// other server.
    func follow(_ principals: [SHA256Digest]) {
        state.withLock { state in
            for principal in principals.prefix(Self.maxFollowed) { state.follow(principal) }
        }
    }

    /// Whether one report has all principals that are asked about.
    var fitsOneReport: Bool {
        state.withLock { $0.taken.count <= Self.maxReport && $0.known.count <= Self.maxReport }
    }

    /// Forgets the places of other servers, which cannot be asked. Only this server's own sessions
    /// count until a report is made again.
    func forgetOthers() { state.withLock { $0.others = [:] } }

    /// Whether there is something to report.
    var hasChanges: Bool { state.withLock { !$0.changed.isEmpty } }

    /// Takes the principals to report next.
    func takeReport() -> PlaceReport {
        state.withLock { state in
            let principals = state.changed.prefix(Self.maxReport)
            state.changed.removeFirst(principals.count)
            return principals.map { principal in
                state.isChanged.remove(principal)
                return (principal, state.taken[principal] ?? 0)
            }
        }
    }

    /// Takes back a report that may not have been made: its principals are to be reported again.
    func putBack(_ report: PlaceReport) {
        state.withLock { state in
            for (principal, _) in report where state.isChanged.insert(principal).inserted {
                state.changed.append(principal)
            }
        }
    }

    /// Handles a report that was made.
    /// - Parameter others: the places that other servers have given, in the report's order.
    func apply(_ others: [Int], of report: PlaceReport) {
        state.withLock { state in
            for ((principal, _), count) in zip(report, others) {
                state.others[principal] = state.isKnown(principal) ? count : nil
            }
        }
    }

    /// Reports everything again: a store forgets counts that are not renewed.
    func renew() {
        let wake = state.withLock { state in
            // In an order that does not depend on the process.
            let principals = state.known.filter { !state.isChanged.contains($0) }
                .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
            return principals.reduce(nil as (@Sendable () -> Void)?) { wake, principal in
                state.note(principal) ?? wake
            }
        }
        wake?()
    }
}
