// What this process has learned of MCP servers over HTTP: which revision each speaks, and its list
// of tools for as long as the server allows. All sessions share it, because most sessions of a
// deployment name the same few servers, and finding out costs a request. A program over stdio is
// shared itself, so MCPProgram keeps its revision.
//
// Invariant: an entry is found only with the same URL and the same header fields, credentials
// included. The key is their digest, so no secret outlives its session here.

import Codec
import Session
import Synchronization

/// The memory of all servers of a process. It forgets the server that was used least recently.
final class MCPServerMemory: Sendable {
    /// How requests to a server begin.
    enum Era: Equatable, Sendable {
        /// With nothing: it speaks this stateless revision.
        case stateless(version: String)
        /// With `initialize`.
        case handshake
    }

    /// The longest time that a list is kept, whatever the server allows. 1 h: a wrong value is over
    /// within a working day.
    static let maxListLifetime = Duration.seconds(3_600)
    /// How long a server counts as one of the handshake. 10 min: then a server that has learned the
    /// stateless form gets it.
    private static let handshakeLifetime = Duration.seconds(600)
    /// Most servers. 256: clients may name any URL.
    private static let maxServers = 256
    /// Most bytes of all lists, 8 MiB: sixteen of the largest.
    private static let maxListBytes = 8 << 20

    private struct Entry {
        var era: Era?
        /// When the server is to be asked for its era again.
        var eraEnd: Instant?
        var list: MCPToolList?
        var listEnd = Instant(nanoseconds: 0)
        var lastUse = 0
    }

    private struct State {
        var entries: [SHA256Digest: Entry] = [:]
        var uses = 0

        var listBytes: Int { entries.values.reduce(0) { $0 + ($1.list?.textBytes ?? 0) } }

        /// Changes an entry, which becomes the one used last.
        mutating func use<Value>(
            _ key: SHA256Digest, _ change: (inout Entry) -> Value
        ) -> Value {
            uses += 1
            var entry = entries[key] ?? Entry()
            entry.lastUse = uses
            let value = change(&entry)
            entries[key] = entry.era == nil && entry.list == nil ? nil : entry
            return value
        }

        /// Forgets the entries that were not used for longest, until all limits are kept.
        mutating func makeRoom() {
            while entries.count > maxServers || listBytes > maxListBytes,
                let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                entries[oldest.key] = nil
            }
        }
    }

    private let state = Mutex(State())

    /// The place of one server.
    /// - Parameter isConfined: whether only public addresses may be reached.
    func record(
        url: String, headers: [MCPTool.Header], isConfined: Bool
    ) -> MCPServerRecord {
        // The lengths are hashed, too, so that no two lists of texts make the same key.
        var key = isConfined ? "public" : "any"
        for text in [url] + headers.flatMap({ [$0.name.lowercased(), $0.value] }) {
            key += " \(text.utf8.count):\(text)"
        }
        return MCPServerRecord(memory: self, key: SHA256Digest(of: key))
    }

    fileprivate func era(of key: SHA256Digest, at now: Instant) -> Era? {
        state.withLock { state in
            state.use(key) { entry in
                if let end = entry.eraEnd, end <= now { entry.era = nil }
                return entry.era
            }
        }
    }

    fileprivate func remember(_ era: Era, of key: SHA256Digest, at now: Instant) {
        state.withLock { state in
            state.use(key) { entry in
                entry.era = era
                entry.eraEnd = era == .handshake ? now + Self.handshakeLifetime : nil
            }
            state.makeRoom()
        }
    }

    fileprivate func list(of key: SHA256Digest, at now: Instant) -> MCPToolList? {
        state.withLock { state in
            state.use(key) { entry in
                if entry.listEnd <= now { entry.list = nil }
                return entry.list
            }
        }
    }

    fileprivate func remember(_ list: MCPToolList, of key: SHA256Digest, until end: Instant) {
        state.withLock { state in
            state.use(key) { entry in
                entry.list = list
                entry.listEnd = end
            }
            state.makeRoom()
        }
    }

    fileprivate func forget(_ key: SHA256Digest) {
        state.withLock { $0.entries[key] = nil }
    }
}

/// One server's place in the memory.
struct MCPServerRecord: Sendable {
    fileprivate let memory: MCPServerMemory
    fileprivate let key: SHA256Digest

    /// How requests to the server begin, if that is known.
    func era(at now: Instant) -> MCPServerMemory.Era? { memory.era(of: key, at: now) }

    /// Notes the protocol in which the server has answered.
    func remember(_ era: MCPServerMemory.Era, at now: Instant) {
        memory.remember(era, of: key, at: now)
    }

    /// The server's tools, or nil where they have to be listed.
    func list(at now: Instant) -> MCPToolList? { memory.list(of: key, at: now) }

    /// Keeps a list for as long as its server allows.
    func remember(_ list: MCPToolList, at now: Instant) {
        guard let lifetime = list.lifetime, lifetime > .zero else { return }
        memory.remember(list, of: key, until: now + lifetime)
    }

    /// Forgets the server, because it has changed.
    func forget() { memory.forget(key) }
}
