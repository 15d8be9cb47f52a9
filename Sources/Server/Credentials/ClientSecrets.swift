// Client secrets (`ek_…`): short-lived credentials that an application gets for its users'
// browsers, each with the session that it opens. One table for all shards, in memory. Secrets that
// other nodes have made get a place in it when they are first presented (ShardSecrets).
//
// A table, and not a signed text with the session inside, for its size: a secret is sent as a
// subprotocol or a header. A session with instructions and tools has tens of kilobytes, and proxies
// stop at eight. Tokens (TokenPolicy) work on several servers without a table.
//
// The table is divided by owner: an owner may have as many secrets, and as many bytes, as are still
// free. One owner that takes all it can fills half of the table, the next one half of the rest; as
// entries expire, their shares become equal. No secret is ever revoked to make room. With 20,000
// entries, 14 owners that take all they can leave none (the dynamic thresholds of Choudhury and
// Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998).
//
// Invariants: no secret is kept, only its hash. Entries and bytes are bounded, and the owners'
// shares add up to them. An expired secret opens nothing, also while its entry is still there.

import Codec
import Session
import Synchronization

/// The owner that a secret counts for.
enum SecretOwner: Hashable, Sendable {
    /// The key or the subject that requested it.
    case principal(SHA256Digest)
    /// The client's address, an IPv6 one as its /64, where no credentials are needed.
    case address(NetworkAddress)

    /// The owner of a caller's secrets.
    init(_ caller: Caller, at address: NetworkAddress) {
        self = caller.principal.map { .principal($0) } ?? .address(address.subscriber)
    }
}

/// An owner has used up its share of the table.
struct ClientSecretsFull: Error, Equatable {
    /// Seconds until the next secret expires, 1…`ClientSecrets.maxRetrySeconds`.
    let retryAfterSeconds: Int
}

/// The secrets of a server. Any thread.
package final class ClientSecrets: Sendable {
    /// One secret.
    struct Entry: Sendable {
        /// The key that it was made with, or nil where no credentials were needed.
        let key: SHA256Digest?
        /// The caller whose secret it is.
        let caller: Caller
        /// When it expires.
        let end: Instant
        /// The owner of the share that it is part of.
        fileprivate let owner: SecretOwner
        /// The bytes that it counts.
        fileprivate let bytes: Int

        /// - Parameter bodyBytes: of the request that described the session; its memory grows with
        ///   them.
        init(
            key: SHA256Digest?, caller: Caller, end: Instant, owner: SecretOwner, bodyBytes: Int
        ) {
            self.key = key
            self.caller = caller
            self.end = end
            self.owner = owner
            bytes = ClientSecrets.entryBytes + 2 * bodyBytes
        }
    }

    /// Entries and their bytes, of all owners or of one.
    private struct Share {
        var count = 0
        var bytes = 0

        mutating func add(_ entry: Entry) {
            count += 1
            bytes += entry.bytes
        }

        mutating func remove(_ entry: Entry) {
            count -= 1
            bytes -= entry.bytes
        }
    }

    private struct Table {
        var entries: [SHA256Digest: Entry] = [:]
        var shares: [SecretOwner: Share] = [:]
        var all = Share()
        /// The ends of all entries.
        var ends = DeadlineQueue<SHA256Digest>()

        mutating func insert(_ entry: Entry, _ digest: SHA256Digest) {
            entries[digest] = entry
            shares[entry.owner, default: Share()].add(entry)
            all.add(entry)
            _ = ends.schedule(digest, at: entry.end)
        }

        /// Removes one entry that has expired; false where there is none.
        mutating func removeExpired(at now: Instant) -> Bool {
            guard let (digest, _) = ends.popExpired(at: now),
                let entry = entries.removeValue(forKey: digest)
            else { return false }
            all.remove(entry)
            shares[entry.owner]?.remove(entry)
            if shares[entry.owner]?.count == 0 { shares[entry.owner] = nil }
            return true
        }
    }

    /// Bytes of all bound sessions together. 64 MiB: one owner's half has room for 5,000 of 6 kB,
    /// with instructions and tools.
    static let maxBytes = 64 << 20
    /// Bytes that an entry without a session counts.
    static let entryBytes = 1_024
    /// The prefix of every secret, as in OpenAI's API.
    static let prefix = "ek_"
    /// Random bytes of a secret. 32: a secret cannot be guessed, however many there are.
    package static let randomBytes = 32
    /// The longest wait in the answer to a refused owner. 60 s: secrets may live for hours, but
    /// those of other owners expire meanwhile, which leaves more room for each.
    static let maxRetrySeconds = 60
    /// Expired entries that a call removes where there is room without them. 8: entries leave
    /// faster than they come, and no call has the lock for long.
    private static let removedPerCall = 8

    private let maxEntries: Int
    private let table = Mutex(Table())

    /// Whether a text has the form of a secret.
    static func isSecret(_ text: String) -> Bool {
        text.hasPrefix(prefix)
            && Base64URL.decode(text.utf8.dropFirst(prefix.utf8.count))?.count == randomBytes
    }

    /// Creates an empty table.
    package init(maxEntries: Int) { self.maxEntries = maxEntries }

    /// The number of entries, expired ones included.
    package var count: Int { table.withLock { $0.entries.count } }

    /// Makes a secret.
    /// - Parameter random: `randomBytes` secret random bytes.
    /// - Throws: where the owner has used up its share.
    func issue(
        _ random: [UInt8], _ entry: Entry, at now: Instant
    ) throws(ClientSecretsFull) -> String {
        precondition(random.count == Self.randomBytes)
        let secret = Self.prefix + Base64URL.text(of: random)
        try keep(entry, of: SHA256Digest(of: secret), at: now)
        return secret
    }

    /// Keeps the entry of a secret until its end. A secret that has an entry keeps that one.
    /// - Throws: where the owner has used up its share.
    func keep(
        _ entry: Entry, of digest: SHA256Digest, at now: Instant
    ) throws(ClientSecretsFull) {
        let next: Instant? = table.withLock { table in
            var removed = 0
            while removed < Self.removedPerCall || !hasRoom(table, for: entry),
                table.removeExpired(at: now)
            {
                removed += 1
            }
            guard table.entries[digest] == nil else { return nil }
            guard hasRoom(table, for: entry) else { return table.ends.next ?? now }
            table.insert(entry, digest)
            return nil
        }
        guard let next else { return }
        let seconds = ((next - now).wholeMilliseconds + 999) / 1_000
        throw ClientSecretsFull(retryAfterSeconds: min(max(seconds, 1), Self.maxRetrySeconds))
    }

    /// The entry of a credential with this hash.
    func entry(of digest: SHA256Digest, at now: Instant) -> Entry? {
        // A client cannot choose a hash near a secret's hash: the time of the look-up reveals
        // nothing.
        table.withLock { $0.entries[digest] }.flatMap { $0.end > now ? $0 : nil }
    }

    /// Whether the owner has fewer than are free.
    private func hasRoom(_ table: borrowing Table, for entry: Entry) -> Bool {
        let own = table.shares[entry.owner] ?? Share()
        return own.count < maxEntries - table.all.count
            && own.bytes + entry.bytes <= Self.maxBytes - table.all.bytes
    }
}
