// The record of a node for the others, as the JSON that the store keeps while the node is alive.
//
// Invariant: a record is read as untrusted input. Its URL names a scheme, a host and a port, and
// nothing that could lead a request elsewhere on that host.

import Codec

/// One node of a cluster.
package struct NodeRecord: Equatable, Sendable {
    /// Bytes of a node's name.
    static let maxNameBytes = 64
    /// Bytes of its URL.
    private static let maxURLBytes = 300

    /// A new name at each start.
    package let name: String
    /// Where other nodes reach it, without a path: `http://10.0.0.5:8080`. Nil where they cannot
    /// reach it.
    package let url: String?
    /// Seconds since 1970.
    package let started: Int
    /// Open sessions.
    package let sessions: Int

    package init(name: String, url: String?, started: Int, sessions: Int) {
        self.name = name
        self.url = url
        self.started = started
        self.sessions = sessions
    }

    /// Reads a record; nil for anything else.
    init?(_ json: [UInt8], parser: JSONParser) {
        guard let value = try? parser.parse(json), let name = value["name"]?.string,
            Self.isName(name)
        else { return nil }
        self.name = name
        let url = value["url"]?.string
        if let url, !Self.isURL(url) { return nil }
        self.url = url
        started = max(0, value["started"]?.int ?? 0)
        sessions = max(0, value["sessions"]?.int ?? 0)
    }

    /// The record as JSON.
    package var json: [UInt8] {
        var writer = JSONWriter(ByteWriter(capacity: 128))
        writer.object { json in
            json.member("name", name)
            json.member("url", url)
            json.member("started", started)
            json.member("sessions", sessions)
        }
        return writer.finish().copiedBytes
    }

    /// Whether a text is `http[s]://HOST[:PORT]`.
    static func isURL(_ text: String) -> Bool {
        guard text.utf8.count <= maxURLBytes else { return false }
        let rest =
            text.hasPrefix("http://")
            ? text.dropFirst(7) : text.hasPrefix("https://") ? text.dropFirst(8) : ""
        let allowed = "-._:[]"
        return !rest.isEmpty
            && rest.utf8.allSatisfy { $0.isASCIIAlphanumeric || allowed.utf8.contains($0) }
    }

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= maxNameBytes
            && text.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
    }
}
