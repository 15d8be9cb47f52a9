// The place of a client in a session, by which it can come back: the handle, and the last event that
// it has. Pure: the server's events and the time are arguments. ResumableClient makes the connections.
// PROTOCOL.md specifies the extension.
//
// Invariant: `offset` counts in the epoch of the handle; both are a server's, and may be anything.

import Codec

/// The place of a client in a session.
struct ResumePlace {
    /// The result of coming back.
    enum Return: Equatable {
        /// Its session. Everything that it has missed follows.
        case recovered
        /// Its session. Events were lost, so the conversation follows from its beginning.
        case retold
        /// Another session: its own is lost.
        case anew
    }

    /// The audio that the client has of the item that came last: it has played it, or will.
    struct Played: Equatable {
        var itemID: String
        var milliseconds: Int
    }

    /// The server's permission to come back.
    private struct Grant {
        var handle: String
        var epoch: Int
        /// Seconds since 1970.
        var expiresAt: Int
    }

    /// The longest handle that is kept. PROTOCOL.md promises at most 128 characters.
    static let maxHandleBytes = 128
    /// Bounds of the time for coming back, in seconds. At least 30, because the clocks of client and
    /// server may differ; at most an hour.
    static let patience = 30.0...3_600.0

    private var grant: Grant?
    private var sessionID: String?
    /// The last event of the epoch that was followed; 0: none.
    private(set) var offset = 0

    /// Whether the server lets the client come back.
    var isGranted: Bool { grant != nil }

    /// Follows an event.
    /// - Returns: the session or place that the client has come back to, if the event says so.
    mutating func handle(type: String, body: JSONValue) -> Return? {
        if let resume = body["resume"] { follow(resume) }
        if let offset = body["offset"]?.int { self.offset = offset }
        guard let id = body["session"]?["id"]?.string else { return nil }
        let isKnown = sessionID == id
        let isFirst = sessionID == nil
        sessionID = id
        switch type {
        case "parley.resumed":
            if body["recovered"]?.bool == true { return .recovered }
            offset = 0
            return isKnown ? .retold : .anew
        case "session.created" where !isKnown && !isFirst:
            // A server without the extension has begun a session of its own.
            if body["resume"] == nil { grant = nil }
            return .anew
        default: return nil
        }
    }

    private mutating func follow(_ resume: JSONValue) {
        guard let handle = resume["handle"]?.string, handle.utf8.count <= Self.maxHandleBytes,
            let epoch = resume["epoch"]?.int
        else { return }
        if epoch != grant?.epoch { offset = 0 }
        grant = Grant(handle: handle, epoch: epoch, expiresAt: resume["expires_at"]?.int ?? 0)
    }

    /// The fields of a request to come back.
    /// - Parameter played: the audio that the client has. Nil means none.
    func query(_ played: Played?) -> [(name: String, value: String)] {
        guard let grant else { return [] }
        var fields = [
            ("resume", grant.handle), ("epoch", String(grant.epoch)), ("offset", String(offset)),
        ]
        if let played {
            fields.append(("item_id", played.itemID))
            fields.append(("audio_end_ms", String(played.milliseconds)))
        }
        return fields
    }

    /// How long coming back is worth a try, in seconds: as long as the handle is good.
    /// - Parameter wallSeconds: the present time, in seconds since 1970.
    func patience(at wallSeconds: Int) -> Double {
        let left = Double(grant?.expiresAt ?? 0) - Double(wallSeconds)
        return min(max(left, Self.patience.lowerBound), Self.patience.upperBound)
    }
}

/// When a client tries to come back. The pauses have full jitter: a random part of a bound that
/// doubles, so that clients that were cut off together do not come back together.
struct ReturnAttempts {
    /// The bounds of the pauses before the first attempt and of all late ones, in seconds.
    static let firstBound = 0.5
    static let lastBound = 8.0

    private let deadline: Double
    private var bound = Self.firstBound

    /// - Parameters:
    ///   - now: the time at which the connection was lost, in seconds.
    ///   - patience: how long to try, in seconds.
    init(from now: Double, patience: Double) { deadline = now + patience }

    /// The pause before the next attempt, in seconds. Nil means that it is too late.
    /// - Parameter random: 0..<1.
    mutating func nextPause(at now: Double, random: Double) -> Double? {
        guard now < deadline else { return nil }
        defer { bound = min(2 * bound, Self.lastBound) }
        return min(bound * random, deadline - now)
    }
}
