// Client secrets (`ek_…`): short-lived credentials that an application gets for its users'
// browsers, each with the session that it opens. One table for all shards, in memory.
//
// Why a table, and not a signed text with the session inside: a secret travels as a subprotocol or
// a header, a session with its instructions and tools is tens of kilobytes, and proxies stop at
// eight. What must work on several servers without a table is a token (TokenPolicy).
//
// Invariant: no secret is kept, only its hash; entries and bytes are bounded; a secret that has
// expired opens nothing, whether or not its entry is still there.

import Codec
import Session
import Synchronization

/// The secrets of a server. Any thread.
package final class ClientSecrets: Sendable {
    /// What is known of one.
    struct Entry: Sendable {
        /// The key that it was made with; nil: no credentials were asked for.
        let key: SHA256Digest?
        /// What it opens.
        let caller: Caller
        /// From when on it does not.
        let end: Instant
        /// What it is charged with.
        fileprivate let bytes: Int
    }

    private struct Table {
        var entries: [SHA256Digest: Entry] = [:]
        var bytes = 0
        /// When expired entries were last looked for.
        var lastSweep = Instant(nanoseconds: 0)
    }

    /// Bytes of all bound sessions together. 64 MiB: 10,000 of 6 kB, with instructions and tools.
    static let maxBytes = 64 << 20
    /// What an entry without a session counts.
    static let entryBytes = 1_024
    /// What every secret begins with, as OpenAI's do.
    static let prefix = "ek_"
    /// Random bytes of a secret. 32: nobody guesses one, however many there are.
    package static let randomBytes = 32
    /// How often expired entries go, when others come. 10 s: a small part of the shortest life.
    private static let sweepInterval = Duration.seconds(10)

    private let maxEntries: Int
    private let table = Mutex(Table())

    /// An empty table.
    package init(maxEntries: Int) { self.maxEntries = maxEntries }

    /// Entries now, expired ones among them.
    package var count: Int { table.withLock { $0.entries.count } }

    /// Makes a secret.
    /// - Parameters:
    ///   - random: `randomBytes` bytes that nobody can know.
    ///   - bodyBytes: of the request that described the session, which its memory goes with.
    /// - Returns: nil when there is no room.
    func issue(
        _ random: [UInt8], key: SHA256Digest?, caller: Caller, bodyBytes: Int, until end: Instant,
        at now: Instant
    ) -> String? {
        precondition(random.count == Self.randomBytes)
        let secret = Self.prefix + Base64URL.text(of: random)
        let entry = Entry(
            key: key, caller: caller, end: end, bytes: Self.entryBytes + 2 * bodyBytes)
        let isIssued = table.withLock { table in
            sweep(&table, at: now, isFull: !hasRoom(table, for: entry))
            guard hasRoom(table, for: entry) else { return false }
            table.entries[SHA256Digest(of: secret)] = entry
            table.bytes += entry.bytes
            return true
        }
        return isIssued ? secret : nil
    }

    /// What a credential with this hash opens.
    func entry(of digest: SHA256Digest, at now: Instant) -> Entry? {
        // Whoever does not know a secret cannot choose a hash near its hash: the time that the
        // look-up takes tells nothing.
        table.withLock { $0.entries[digest] }.flatMap { $0.end > now ? $0 : nil }
    }

    private func hasRoom(_ table: borrowing Table, for entry: Entry) -> Bool {
        table.entries.count < maxEntries && table.bytes + entry.bytes <= Self.maxBytes
    }

    /// Some 50 ns an entry: half a millisecond for all, every ten seconds at most, or when full.
    private func sweep(_ table: inout Table, at now: Instant, isFull: Bool) {
        guard isFull ? now > table.lastSweep : now - table.lastSweep >= Self.sweepInterval
        else { return }
        table.lastSweep = now
        table.entries = table.entries.filter { $0.value.end > now }
        table.bytes = table.entries.values.reduce(0) { $0 + $1.bytes }
    }
}
