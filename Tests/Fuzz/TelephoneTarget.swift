// Reads messages of telephone carriers. Each must give a message or a typed error, and a used parser
// must give the same as a new one. Media is put into order, and what a line keeps must be bounded.
//
// An input: a byte that chooses the carrier, then messages, each ended by a zero byte.

import Codec

/// `telephone`: TelephoneParser, LineCoding, MediaOrder, PlayoutMark.
enum TelephoneTarget: FuzzTarget {
    static let name = "telephone"

    /// Maximum messages of one input.
    private static let maxMessages = 24

    static var seeds: [(name: String, bytes: [UInt8])] {
        TelephoneCarrier.allCases.enumerated().map { index, carrier in
            var call = TelephoneCall(carrier: carrier)
            call.callID = "c1"
            call.streamID = "s1"
            call.parameters = [TelephoneParameter("voice", "ash")]
            let writer = CarrierWriter(call)
            var messages: [[UInt8]] = []
            func add(_ write: (inout ByteWriter) -> Void) {
                var bytes = ByteWriter(capacity: 256)
                write(&bytes)
                messages.append(bytes.copiedBytes)
            }
            add(writer.start)
            add { writer.digit("5", into: &$0) }
            if carrier == .conversationRelay {
                add { writer.prompt("hello", into: &$0) }
            } else {
                add { writer.played("item_1:200:1", into: &$0) }
                if !writer.sendsBinaryMedia {
                    for chunk in [1, 3, 2] {
                        add { bytes in
                            [UInt8](repeating: 0x55, count: 20).withUnsafeBytes {
                                writer.media($0, chunk: chunk, into: &bytes)
                            }
                        }
                    }
                }
            }
            return (carrier.rawValue, [UInt8(index)] + Array(messages.joined(separator: [0])))
        } + [
            (
                "plain",
                [UInt8(TelephoneCarrier.allCases.firstIndex(of: .asterisk) ?? 0)]
                    + Array("MEDIA_START channel_id:1 format:slin ptime:20".utf8) + [0]
                    + Array("DTMF_END digit:5 channel_id:1".utf8)
            ),
            (
                "headers",
                [UInt8(TelephoneCarrier.allCases.firstIndex(of: .plivo) ?? 0)]
                    + Array(
                        #"{"event":"start","start":{"callId":"c"},"extra_headers":"a=b;c=%41"}"#
                            .utf8)
            ),
        ]
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let carriers = TelephoneCarrier.allCases
        let carrier = carriers[Int(input.byte()) % carriers.count]
        var parser = TelephoneParser()
        var order = MediaOrder()
        for message in input.rest().split(separator: 0, maxSplits: maxMessages) {
            // A copy of its own, so that a read beyond its end is a read beyond an allocation.
            let bytes = Array(message)
            var fresh = TelephoneParser()
            let parsed = parse(bytes, &parser, from: carrier)
            require(parsed == parse(bytes, &fresh, from: carrier), "a used parser differs")
            guard case .success(let message) = parsed else { continue }
            check(message)
            guard case .media(let chunk) = message else { continue }
            var heard = ByteWriter(capacity: 64)
            order.take(chunk, parser.audio) { LineCoding.linear8.appendHeard($0, to: &heard) }
            require(
                order.heapBytes <= (MediaOrder.maxWaiting + 2) * 2 * MediaOrder.maxWaitingBytes,
                "too much waits")
        }
    }

    private static func check(_ message: TelephoneMessage) {
        switch message {
        case .started(let start):
            require(
                start.call.parameters.count <= TelephoneLimits.maxParameters,
                "too many parameters")
            let bytes = start.call.parameters.reduce(0) {
                $0 + $1.name.utf8.count + $1.value.utf8.count
            }
            require(bytes <= TelephoneLimits.maxParameterBytes, "parameters are too long")
        case .played(let mark):
            require(PlayoutMark(name: mark.name) == mark, "a mark reads back as another")
        case .prompt(let words, _), .interrupted(let words):
            // A byte that is not UTF-8 becomes a character of three.
            require(words.utf8.count <= 3 * TelephoneLimits.maxPromptBytes, "too many words")
        default: break
        }
    }

    private static func parse(
        _ bytes: [UInt8], _ parser: inout TelephoneParser, from carrier: TelephoneCarrier
    ) -> Result<TelephoneMessage, TelephoneError> {
        bytes.withUnsafeBytes { buffer in
            do throws(TelephoneError) {
                return .success(try parser.parse(buffer, from: carrier))
            } catch {
                return .failure(error)
            }
        }
    }
}
