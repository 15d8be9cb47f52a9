// Where a session of the generator is, so that it can come back to it (PROTOCOL.md, resume). Pure.
//
// Invariant: `offset` counts in `epoch`.

import Codec

/// A session's way back.
struct LoadPlace: Equatable {
    /// The result of coming back.
    enum Return: Equatable {
        /// The same session. Every event that it has missed follows.
        case recovered
        /// The same session. Its conversation follows from the beginning.
        case restored
        /// Another session.
        case anew
    }

    private(set) var sessionID: String
    private(set) var handle: String
    private(set) var epoch: Int
    /// The last event that came.
    var offset = 0

    /// Reads an event that has a session and a handle. Nil means that the session cannot be
    /// resumed.
    init?(_ event: JSONValue?) {
        guard let id = event?["session"]?["id"]?.string, let resume = event?["resume"],
            let handle = resume["handle"]?.string, let epoch = resume["epoch"]?.int
        else { return nil }
        (sessionID, self.handle, self.epoch) = (id, handle, epoch)
        offset = event?["offset"]?.int ?? 0
    }

    /// Takes the handle of a `parley.resume.updated`.
    mutating func renew(_ event: JSONValue?) {
        if let handle = event?["resume"]?["handle"]?.string { self.handle = handle }
    }

    /// Follows a `parley.resumed`. The place is that of `event` afterwards.
    mutating func handleReturn(_ event: JSONValue?) -> Return {
        let isRecovered = event?["recovered"]?.bool == true
        guard var place = LoadPlace(event) else { return .anew }
        if isRecovered { place.offset = offset }
        let isSame = place.sessionID == sessionID
        self = place
        return isRecovered ? .recovered : isSame ? .restored : .anew
    }

    /// The query of a request to come back.
    var query: String { "resume=\(handle)&epoch=\(epoch)&offset=\(offset)" }
}
