// The parts of a record as JSON. docs/records.md describes them.

import Codec

/// Writes parts of records.
public enum RecordJSON {
    /// An item, as the protocol has it. Data of images is left out.
    public static func item(_ item: ConversationItem) -> String {
        text { $0.item(item, in: .ga) }
    }

    /// The facts of a session.
    public static func facts(_ summary: SessionSummary) -> String {
        text { json in
            json.object { json in
                json.member("model", summary.model)
                json.member("voice", summary.voice)
                json.member("output_modality", summary.outputModality.rawValue)
                json.member("input_format", summary.inputFormat.wireName)
                json.member("output_format", summary.outputFormat.wireName)
                if let principal = summary.principal { json.member("principal", principal) }
                if let subject = summary.subject { json.member("subject", subject) }
                if let agent = summary.agent { json.member("agent", agent) }
                guard let call = summary.call else { return }
                json.object("call") { json in
                    json.member("carrier", call.carrier.rawValue)
                    json.member("call_id", call.callID)
                    json.member("from", call.from)
                    json.member("to", call.to)
                }
            }
        }
    }

    /// A response that has ended.
    /// - Parameter time: the time of day of an instant, in milliseconds since 1970.
    public static func turn(_ turn: RecordedTurn, time: (Instant) -> Int) -> String {
        let response = turn.response
        return text { json in
            json.object { json in
                json.member("response_id", response.id)
                json.member("number", turn.number)
                json.member("status", response.status.wireName)
                json.key("status_details")
                json.statusDetails(response.status)
                json.member("in_conversation", response.conversationID != nil)
                json.member(
                    "started_at", Timestamp.text(milliseconds: time(turn.startedAt)))
                json.member("ended_at", Timestamp.text(milliseconds: time(turn.endedAt)))
                json.object("latency_ms") { json in
                    for hop in TurnHop.allCases {
                        guard let milliseconds = turn.hops[hop] else { continue }
                        json.key(text: hop.rawValue)
                        json.integer(milliseconds)
                    }
                }
                json.key("usage")
                if let usage = response.usage { json.usage(usage) } else { json.null() }
                json.array("items") { json in
                    for item in response.output { json.string(item.id) }
                }
            }
        }
    }

    /// The outcome of the question about a session.
    public static func afterCall(_ answer: AfterCallAnswer) -> String {
        text { json in
            json.object { json in
                switch answer {
                case .text(let text): json.member("text", text)
                case .data(let data): json.member("data", data)
                case .failed(let code, let message):
                    json.object("error") { json in
                        json.member("code", code)
                        json.member("message", message)
                    }
                }
            }
        }
    }

    private static func text(_ write: (inout JSONWriter) -> Void) -> String {
        var json = JSONWriter(ByteWriter(capacity: 512))
        write(&json)
        return String(decoding: json.finish().copiedBytes, as: UTF8.self)
    }
}
