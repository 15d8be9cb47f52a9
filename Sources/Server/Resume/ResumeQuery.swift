// The parameters of a request for a session that can be resumed, or that is to be resumed:
//
//   GET /v1/realtime?model=…&resume=true
//   GET /v1/realtime?resume=HANDLE&epoch=E&offset=N&item_id=ITEM&audio_end_ms=MS

import Codec
import Session

/// Where in a session's events a client is.
struct ResumePosition: Equatable, Sendable {
    let epoch: UInt32
    /// The last event that it has.
    let offset: UInt64
}

/// The claim of a client that comes back.
struct ResumeClaim: Equatable, Sendable {
    let handle: ResumeHandle
    /// Nil means that it has no events of the session any more.
    let position: ResumePosition?
    /// How much it has of the item that it was playing. Where nil, the server's estimate counts.
    let played: PlayedAudio?
}

/// The wish of a request for a session about resuming.
enum ResumeQuery: Equatable {
    /// Nothing.
    case none
    /// To be able to come back.
    case ask
    /// To come back.
    case resume(ResumeClaim)

    /// Reads the query of a request.
    /// - Throws: where a value is malformed, or one of a pair is missing, as status 400.
    init(_ request: HTTPRequest) throws(ClientEventError) {
        guard let wish = request.queryValue("resume"), wish != "false" else {
            self = .none
            return
        }
        guard wish != "true" else {
            self = .ask
            return
        }
        guard let handle = ResumeHandle(wish) else {
            throw .badQuery("resume", "is 'true', or a handle that this service has made")
        }
        let epoch = try Self.number("epoch", of: request, atMost: Int(UInt32.max))
        let offset = try Self.number("offset", of: request, atMost: Int.max)
        guard (epoch == nil) == (offset == nil) else {
            throw .badQuery(epoch == nil ? "epoch" : "offset", "comes with its pair, or not at all")
        }
        let itemID = request.queryValue("item_id")
        let end = try Self.number("audio_end_ms", of: request, atMost: Int(Int32.max))
        guard (itemID == nil) == (end == nil) else {
            throw .badQuery(
                itemID == nil ? "item_id" : "audio_end_ms", "comes with its pair, or not at all")
        }
        var position: ResumePosition?
        if let epoch, let offset {
            position = ResumePosition(epoch: UInt32(epoch), offset: UInt64(offset))
        }
        var played: PlayedAudio?
        if let itemID, let end { played = PlayedAudio(itemID: itemID, milliseconds: end) }
        self = .resume(ResumeClaim(handle: handle, position: position, played: played))
    }

    private static func number(
        _ name: String, of request: HTTPRequest, atMost limit: Int
    ) throws(ClientEventError) -> Int? {
        guard let text = request.queryValue(name) else { return nil }
        guard let value = Int(text), (0...limit).contains(value) else {
            throw .badQuery(name, "is a whole number from 0 to \(limit)")
        }
        return value
    }

    /// The parameters, for the documents.
    static var fields: [FieldEntry] {
        [
            .optional(
                "resume", .text(),
                "'true' to be able to come back to the session, or the handle to come back with."),
            .optional(
                "epoch", .integer(0...Int(UInt32.max)),
                "With a handle and offset: the count that the offset is in."),
            .optional(
                "offset", .integer(0...Int.max), "With a handle: the last event that came."),
            .optional(
                "item_id", .text(),
                "With a handle and audio_end_ms: the item whose audio was being played."),
            .optional(
                "audio_end_ms", .integer(0...Int(Int32.max)),
                "With a handle: how much of that item was played. The rest is sent again."),
        ]
    }
}

extension ClientEventError {
    fileprivate static func badQuery(_ name: String, _ rule: String) -> ClientEventError {
        ClientEventError(code: "invalid_value", message: "'\(name)' \(rule).", param: name)
    }
}
