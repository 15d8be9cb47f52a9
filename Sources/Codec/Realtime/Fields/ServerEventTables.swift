// The server's events and their fields, for the generated documents. ServerEventWriter writes the
// events. Tests compare every event that the server writes with these tables, unknown fields
// included, and the tables with the protocol's own. ServerObjectTables has the objects inside
// events.

/// The events that the server sends.
package enum ServerEventTables {
    /// A table for each event; its name is the event's `type`.
    package static var all: [ObjectTable] {
        sessionEvents + resumeEvents + inputAudioEvents + itemEvents + transcriptionEvents
            + responseEvents + deltaEvents + mcpEvents
    }

    static func event(
        _ type: String, _ meaning: StaticString, _ fields: [FieldEntry]
    ) -> ObjectTable {
        ObjectTable(
            type, meaning,
            [
                FieldEntry("type", .constant(type), "The type of the event."),
                FieldEntry("event_id", .text(), "Unique among the server's events."),
                .optional(
                    "offset", .integer(1...Int.max),
                    "The event's number, where the session can be resumed (an extension)."),
            ] + fields)
    }

    // MARK: Fields that events share

    private static let itemID = FieldEntry("item_id", .text(), "The item.")
    private static let previousItemID = FieldEntry(
        "previous_item_id", .nullable(.text()), "The item before it; null: it is the first.")
    private static let contentIndex = FieldEntry(
        "content_index", .integer(0...Int.max), "The part's place in the item, from 0.")
    private static let audioStart = FieldEntry(
        "audio_start_ms", .integer(0...Int.max), "Where it begins in the session's audio.")
    private static let audioEnd = FieldEntry(
        "audio_end_ms", .integer(0...Int.max), "Where it ends in the session's audio.")
    private static let responseID = FieldEntry("response_id", .text(), "The response.")
    private static let outputIndex = FieldEntry(
        "output_index", .integer(0...Int.max), "The item's place in the response, from 0.")
    private static let callID = FieldEntry("call_id", .text(), "The call's id.")

    /// Fields that locate a piece of a response.
    private static var address: [FieldEntry] { [responseID, itemID, outputIndex] }

    private static func delta(_ meaning: StaticString) -> FieldEntry {
        FieldEntry("delta", .text(), meaning)
    }

    // MARK: Events

    private static var sessionEvents: [ObjectTable] {
        let session = FieldEntry("session", SessionObjectTables.schema, "The whole session.")
        return [
            event(
                "error", "A request was refused or failed; the session continues.",
                [FieldEntry("error", .object(ServerObjectTables.error), "The error.")]),
            event(
                "session.created", "The session has begun: the first event.",
                [session, optionalResume]),
            event("session.updated", "The session has changed.", [session, optionalResume]),
        ]
    }

    // MARK: Extensions for sessions that can be resumed

    private static var resume: ObjectTable {
        ObjectTable(
            "Resume", "What a client needs to come back to its session.",
            [
                FieldEntry("handle", .text(), "A secret that names the session."),
                FieldEntry(
                    "expires_at", .integer(0...Int.max),
                    "Until when the handle is good, in seconds since 1970."),
                FieldEntry(
                    "epoch", .integer(0...Int(UInt32.max)),
                    "The count that offsets are in; another one means that events were lost."),
            ])
    }

    private static var optionalResume: FieldEntry {
        .optional(
            "resume", .object(resume), "Where the client asked to be able to resume (an extension)."
        )
    }

    private static var resumeEvents: [ObjectTable] {
        let resume = FieldEntry("resume", .object(resume), "The handle from now on.")
        return [
            event(
                "parley.resumed", "The client has come back: the first event.",
                [
                    FieldEntry(
                        "recovered", .boolean,
                        "Whether the events follow that the client has missed."),
                    FieldEntry("session", SessionObjectTables.schema, "The whole session."),
                    resume,
                ]),
            event("parley.resume.updated", "The client has a new handle.", [resume]),
            event(
                "parley.recording.updated", "The answer to a client's consent to a recording.",
                [FieldEntry("active", .boolean, "Whether the session is recorded from now on.")]),
            event("parley.pong", "The answer to parley.ping: a sign of life.", []),
            event(
                "parley.going_away", "The session ends soon.",
                [
                    FieldEntry(
                        "reason", .choice(GoingAwayReason.allCases.map(\.rawValue)), "Why it ends."),
                    FieldEntry(
                        "milliseconds_left", .integer(0...Int.max), "The time until it ends."),
                ]),
        ]
    }

    private static var inputAudioEvents: [ObjectTable] {
        [
            event(
                "input_audio_buffer.speech_started", "The user has begun to speak.",
                [itemID, audioStart]),
            event(
                "input_audio_buffer.speech_stopped", "The user has stopped speaking.",
                [itemID, audioEnd]),
            event(
                "input_audio_buffer.committed", "The user's turn has ended.",
                [itemID, previousItemID]),
            event("input_audio_buffer.cleared", "Uncommitted audio has been dropped.", []),
            event(
                "input_audio_buffer.timeout_triggered",
                "The idle timeout has passed without speech.",
                [itemID, audioStart, audioEnd]),
            event(
                "parley.dtmf.received", "The caller of a telephone line has pressed a key.",
                [FieldEntry("digit", .text(), "0 to 9, *, #, or A to D.")]),
            event(
                "output_audio_buffer.cleared", "The audio that was being played has been stopped.",
                [responseID]),
        ]
    }

    private static var itemEvents: [ObjectTable] {
        let item = FieldEntry("item", ServerObjectTables.item, "The item.")
        return [
            event(
                "conversation.item.added", "An item has been added to the conversation.",
                [previousItemID, item]),
            event(
                "conversation.item.done", "An item is complete.", [previousItemID, item]),
            event("conversation.item.retrieved", "The requested item.", [item]),
            event("conversation.item.deleted", "An item has been deleted.", [itemID]),
            event(
                "conversation.item.truncated", "A spoken item has been cut.",
                [
                    itemID, contentIndex,
                    FieldEntry("audio_end_ms", .integer(0...Int.max), "The remaining audio."),
                    .optional(
                        "transcript", .text(),
                        "The remaining transcript (an extension of Parley)."),
                ]),
        ]
    }

    private static var transcriptionEvents: [ObjectTable] {
        let name = "conversation.item.input_audio_transcription"
        return [
            event(
                "\(name).delta", "More of the user's transcript.",
                [itemID, contentIndex, delta("The words.")]),
            event(
                "\(name).completed", "The whole transcript of a user's turn.",
                [
                    itemID, contentIndex, FieldEntry("transcript", .text(), "The words."),
                    FieldEntry(
                        "usage", .object(ServerObjectTables.transcriptionUsage),
                        "Usage of the transcription."),
                ]),
            event(
                "\(name).failed", "The user's speech could not be transcribed.",
                [
                    itemID, contentIndex,
                    FieldEntry("error", .object(ServerObjectTables.serviceError), "Why it failed."),
                ]),
        ]
    }

    private static var responseEvents: [ObjectTable] {
        let response = FieldEntry(
            "response", .object(ResponseObjectTables.response), "The response.")
        let item = FieldEntry("item", ServerObjectTables.item, "The item.")
        return [
            event("response.created", "A response has begun.", [response]),
            event("response.done", "A response is over, however it ended.", [response]),
            event(
                "response.output_item.added", "The response has another item.",
                [responseID, outputIndex, item]),
            event(
                "response.output_item.done", "An item of the response is complete.",
                [responseID, outputIndex, item]),
            event(
                "parley.agent.event", "An event of the agent that answers, as it came.",
                [
                    responseID, FieldEntry("name", .text(), "The type of the agent's event."),
                    FieldEntry("value", .anyObject, "The agent's event."),
                ]),
            event(
                "rate_limits.updated", "What is left of the caller's quotas.",
                [
                    FieldEntry(
                        "rate_limits", .list(.object(rateLimit)),
                        "Empty where there are no quotas of replies and tokens.")
                ]),
        ]
    }

    private static var rateLimit: ObjectTable {
        ObjectTable(
            "RateLimit", "What is left of a quota.",
            [
                FieldEntry(
                    "name", .choice(RateLimit.Name.allCases.map(\.rawValue)),
                    "What is limited: requests to models, or their tokens."),
                FieldEntry("limit", .integer(0...Int.max), "What may be used in a period."),
                FieldEntry("remaining", .integer(0...Int.max), "What may be used now."),
                FieldEntry(
                    "reset_seconds", .number(0...Double.infinity),
                    "Seconds until all of it may be used again."),
            ])
    }

    private static var deltaEvents: [ObjectTable] {
        let part = FieldEntry("part", ResponseObjectTables.part, "The part.")
        let place = address + [contentIndex]
        let text = FieldEntry("text", .text(), "The whole text.")
        let transcript = FieldEntry("transcript", .text(), "The whole transcript.")
        return [
            event(
                "response.content_part.added", "An item of the response has another part.",
                place + [part]),
            event("response.content_part.done", "A part is complete.", place + [part]),
            event("response.output_text.delta", "More text.", place + [delta("The text.")]),
            event("response.output_text.done", "The text is complete.", place + [text]),
            event(
                "response.output_audio_transcript.delta",
                "More of the transcript of the spoken reply.",
                place + [delta("The words.")]),
            event(
                "response.output_audio_transcript.done", "The transcript is complete.",
                place + [transcript]),
            event(
                "response.output_audio.delta", "More audio.",
                place + [
                    .optional(
                        "audio_start_ms", .integer(0...Int.max),
                        "Where in the item's audio it starts, if not at the end (an extension)."),
                    FieldEntry(
                        "delta", .base64, "The audio in the output format; for Opus one packet."),
                ]),
            event("response.output_audio.done", "The audio is complete.", place),
            event(
                "response.function_call_arguments.delta", "More of a call's arguments.",
                address + [callID, delta("A piece of JSON text.")]),
            event(
                "response.function_call_arguments.done", "A call's arguments are complete.",
                address + [
                    callID, FieldEntry("name", .text(), "The function."),
                    FieldEntry("arguments", .text(), "The arguments as JSON text."),
                ]),
        ]
    }
}
