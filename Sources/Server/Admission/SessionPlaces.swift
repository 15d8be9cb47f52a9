// The number of open sessions of each principal. One table for all shards; used at the beginning
// and the end of a session, and only where a principal's sessions are limited.
//
// Invariant: a principal has an entry only while it has a session, so that there are never more
// entries than sessions.

import Codec
import Synchronization

/// Counts of open sessions. Any thread.
package final class SessionPlaces: Sendable {
    private let taken = Mutex<[SHA256Digest: Int]>([:])

    /// Creates an empty table.
    package init() {}

    /// Principals that have a session now.
    package var count: Int { taken.withLock { $0.count } }

    /// Takes a place; false where the principal has that many already.
    func take(_ principal: SHA256Digest, atMost limit: Int) -> Bool {
        taken.withLock { taken in
            let open = taken[principal] ?? 0
            guard open < limit else { return false }
            taken[principal] = open + 1
            return true
        }
    }

    /// Gives a place back. Once per place.
    func release(_ principal: SHA256Digest) {
        taken.withLock { taken in
            guard let open = taken[principal] else {
                preconditionFailure("released twice")
            }
            taken[principal] = open > 1 ? open - 1 : nil
        }
    }
}
