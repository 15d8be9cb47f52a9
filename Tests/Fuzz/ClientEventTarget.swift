// Feeds a client's text messages and audio packets through the parser into a real session. Each
// message must give an event or a typed error, and a used parser must give the same as a new one.
// Every event that the session sends, with a model that answers at random, must fit the protocol's
// tables.
//
// An input: a byte of choices (one bit of which chooses the beta's dialect), then messages, each ended by a zero byte. A message that begins with
// a byte of 1 is an audio packet; one that begins with 2 lets time pass.

import Codec
import Session
import Simulation

/// `client_event`: ClientEventParser, VoiceSession, ServerEventWriter.
enum ClientEventTarget: FuzzTarget {
    static let name = "client_event"

    /// Maximum messages of one input. Each input has its own session, which must stay cheap.
    private static let maxMessages = 24

    static var seeds: [(name: String, bytes: [UInt8])] {
        let single = EventSamples.all.map { sample in
            (sample.name, [UInt8(ascii: "0")] + Array(sample.text.utf8))
        }
        let turn = EventSamples.conversation.map { Array($0.utf8) }.joined(separator: [0, 2, 50, 0])
        let silence = [UInt8](repeating: 0x55, count: 160)
        return single + [
            ("conversation", [UInt8(ascii: "1")] + Array(turn)),
            ("beta", [UInt8(ascii: "p")] + Array(EventSamples.beta.utf8)),
            (
                "audio",
                Array("0".utf8) + Array(EventSamples.muLaw.utf8) + [0, 1] + silence + [0]
                    + Array(#"{"type":"input_audio_buffer.commit"}"#.utf8)
            ),
        ]
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let messages = input.rest().split(separator: 0, maxSplits: maxMessages)
        var parser = ClientEventParser()
        let dialect: RealtimeDialect = choices & 0x40 == 0 ? .ga : .beta
        let client = FuzzedSession(choices: choices, dialect: dialect)
        for message in messages.prefix(maxMessages) {
            switch message.first {
            case 1: client.hear(Array(message.dropFirst()))
            case 2: client.wait(milliseconds: Int(message.dropFirst().first ?? 20) * 10)
            default:
                // A copy of its own, so that a read beyond its end is a read beyond an allocation.
                let bytes = Array(message)
                var fresh = ClientEventParser()
                let parsed = parse(bytes, &parser, in: dialect)
                require(
                    parsed == parse(bytes, &fresh, in: dialect), "a used parser differs: \(parsed)")
                client.take(parsed)
            }
        }
        client.finish()
    }

    private static func parse(
        _ bytes: [UInt8], _ parser: inout ClientEventParser, in dialect: RealtimeDialect
    ) -> ParsedMessage {
        bytes.withUnsafeBytes { buffer in
            do throws(ClientEventError) {
                let (event, eventID) = try parser.parse(buffer, in: dialect)
                return .event(event, eventID, audio: Array(parser.audio))
            } catch {
                require(!error.code.isEmpty && !error.message.isEmpty, "an error without words")
                return .refused(error)
            }
        }
    }
}

/// The result of parsing a message.
enum ParsedMessage: Equatable {
    case event(ClientEvent, String?, audio: [UInt8])
    case refused(ClientEventError)
}
