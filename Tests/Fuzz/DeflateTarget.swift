// Compressed messages and their negotiation. A message that Parley deflates inflates to the same
// bytes. Any bytes inflate to a message within its limits or to a typed error, in one frame or in
// many, and leave nothing for the next message where no context is kept. An agreement of the server
// is understood by the client that made the offer.
//
// An input: a byte of choices, one for the split, one for windows, then messages or a header.

import Codec

/// `deflate`: MessageDeflater, MessageInflater, PerMessageDeflate, WebSocketExtension.
enum DeflateTarget: FuzzTarget {
    static let name = "deflate"

    /// The low bits of the first byte choose what is tested.
    private enum Subject: UInt8 {
        case roundTrip, anyBytes, offer, answer
    }

    private static let keepsContext = Flags.bit(2)
    private static let hasSmallLimits = Flags.bit(3)
    private static let isText = Flags.bit(4)
    /// Maximum messages of one input: enough for contexts to matter, few enough for a short run.
    private static let maxMessages = 8

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let flags = Flags(rawValue: choices)
        let chunking = Chunking(input.byte())
        let windows = input.byte()
        switch Subject(rawValue: choices & 3) ?? .roundTrip {
        case .roundTrip: checkRoundTrip(&input, flags, chunking, windows)
        case .anyBytes: checkAnyBytes(&input, flags, chunking, windows)
        case .offer: checkOffer(input.rest(), flags, windows)
        case .answer: checkAnswer(input.rest(), windows)
        }
    }

    // MARK: Messages

    private static func checkRoundTrip(
        _ input: inout FuzzInput, _ flags: Flags, _ chunking: Chunking, _ windows: UInt8
    ) {
        let bits = 9 + Int(windows % 7)
        let keeps = flags.contains(keepsContext)
        let deflater = MessageDeflater(windowBits: bits, keepsContext: keeps)
        let receiver = CompressedReceiver(
            windowBits: bits, keepsContext: keeps, limits: InflationLimits.generous)
        let deflated = CompressionBuffer()
        for _ in 0..<maxMessages where !input.isEmpty {
            let message = makeMessage(&input, flags)
            let isTight = input.byte() % 4 == 0
            let limit = isTight ? message.count / 2 : message.count + message.count / 100 + 64
            let isDone = message.withUnsafeBytes {
                deflater.deflate($0, atMost: limit, into: deflated)
            }
            require(isDone || isTight, "gave up on \(message)")
            guard isDone else { continue }
            require(deflated.count <= limit, "\(deflated.count) bytes instead of \(limit)")
            let pieces = chunking.pieces(of: Array(deflated.bytes))
            let received = receiver.receive(pieces, isText: flags.contains(isText))
            require(received == .success(message), "\(message) became \(received)")
        }
    }

    /// Repeated literal bytes: compressible data from few bytes of input.
    private static func makeMessage(_ input: inout FuzzInput, _ flags: Flags) -> [UInt8] {
        let copies = 1 + Int(input.byte() % 64)
        let bytes = input.take(Int(input.byte()))
        let message = [[UInt8]](repeating: bytes, count: copies).flatMap(\.self)
        guard flags.contains(isText) else { return message }
        return Array(String(decoding: message, as: UTF8.self).utf8)
    }

    private static func checkAnyBytes(
        _ input: inout FuzzInput, _ flags: Flags, _ chunking: Chunking, _ windows: UInt8
    ) {
        var limits = InflationLimits()
        if flags.contains(hasSmallLimits) {
            limits.maxMessageBytes = 3_000
            limits.maxRatio = 10
            limits.freeBytes = 500
        }
        let keeps = flags.contains(keepsContext)
        func makeReceiver() -> CompressedReceiver {
            CompressedReceiver(
                windowBits: 8 + Int(windows % 8), keepsContext: keeps, limits: limits)
        }
        let (whole, cut) = (makeReceiver(), makeReceiver())
        for _ in 0..<maxMessages where !input.isEmpty {
            let size = input.number()
            let bytes = size > 0x8000 ? input.rest() : input.take(size)
            let outcome = whole.receive([bytes], isText: flags.contains(isText))
            let again = cut.receive(
                chunking.pieces(of: bytes), isText: flags.contains(isText))
            require(outcome == again, "whole: \(outcome)\nin frames: \(again)")
            if !keeps {
                let fresh = makeReceiver().receive([bytes], isText: flags.contains(isText))
                require(outcome == fresh, "used: \(outcome)\nfresh: \(fresh)")
            } else if case .failure = outcome {
                return
            }
        }
    }

    // MARK: Negotiation

    private static func fields(_ header: [UInt8]) -> HTTPFields {
        var fields = HTTPFields()
        for line in header.split(separator: 0x0A, maxSplits: 4) {
            fields.append("Sec-WebSocket-Extensions", String(decoding: line, as: UTF8.self))
        }
        return fields
    }

    private static func checkOffer(_ header: [UInt8], _ flags: Flags, _ windows: UInt8) {
        let terms = PerMessageDeflateTerms(
            keepsContexts: flags.contains(keepsContext), serverWindowBits: 9 + Int(windows % 7),
            clientWindowBits: 8 + Int(windows >> 3 % 8))
        let offers: [WebSocketExtension]
        do throws(WebSocketHandshakeError) {
            offers = try WebSocketExtension.list(in: fields(header))
        } catch {
            return require(error == .invalidExtensions, "\(error) for a header of extensions")
        }
        let accepted = PerMessageDeflateOffer.accept(from: offers, on: terms)
        let first = offers.lazy.compactMap { PerMessageDeflateOffer($0) }
            .compactMap { offer in offer.accept(on: terms).map { (offer, $0) } }.first
        require(accepted == first?.1, "another offer than the first that fits")
        guard let (offer, agreement) = first else { return }
        require(
            (9...terms.serverWindowBits).contains(agreement.serverWindowBits)
                && agreement.serverWindowBits <= offer.serverWindowBits ?? 15
                && agreement.clientWindowBits <= offer.clientWindowBits ?? 15
                && !(offer.serverForgets && agreement.serverKeepsContext)
                && (terms.keepsContexts || !agreement.clientKeepsContext),
            "\(agreement) for \(offer) on \(terms)")
        // zlib compresses with at least 9 bits, so our client refuses what it would not offer.
        guard agreement.clientWindowBits >= 9 else { return }
        let answer = fields(Array(agreement.headerValue.utf8))
        guard let taken = try? offer.agreement(in: answer) else {
            fatalError("the client refuses \(agreement.headerValue) for \(offer.headerValue)")
        }
        require(
            taken.serverKeepsContext == agreement.serverKeepsContext
                && taken.clientKeepsContext == agreement.clientKeepsContext
                && taken.clientWindowBits <= agreement.clientWindowBits
                && taken.serverWindowBits >= agreement.serverWindowBits,
            "agreed \(agreement), taken as \(taken)")
    }

    private static func checkAnswer(_ header: [UInt8], _ windows: UInt8) {
        var offer = PerMessageDeflateOffer()
        offer.serverForgets = windows & 1 != 0
        offer.clientForgets = windows & 2 != 0
        offer.letsLimitClientWindow = windows & 4 != 0
        if windows & 8 != 0 { offer.serverWindowBits = 8 + Int(windows >> 4 % 8) }
        do throws(WebSocketHandshakeError) {
            guard let agreement = try offer.agreement(in: fields(header)) else { return }
            require(
                (8...15).contains(agreement.serverWindowBits)
                    && (9...15).contains(agreement.clientWindowBits)
                    && agreement.serverWindowBits <= offer.serverWindowBits ?? 15
                    && !(offer.serverForgets && agreement.serverKeepsContext)
                    && (offer.letsLimitClientWindow || agreement.clientWindowBits == 15),
                "\(agreement) for \(offer)")
        } catch {
            require(
                error == .invalidExtensions || error == .unofferedExtension,
                "\(error) for a header of extensions")
        }
    }

    // MARK: Seeds

    static var seeds: [(name: String, bytes: [UInt8])] {
        let headers = [
            TextSample("plain", "permessage-deflate"),
            TextSample("browser", "permessage-deflate; client_max_window_bits"),
            TextSample(
                "all",
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
                    + "server_max_window_bits=10; client_max_window_bits=\"11\""),
            TextSample("several", "x; y=z, permessage-deflate; unknown, permessage-deflate"),
        ]
        let offers: [(name: String, bytes: [UInt8])] = headers.map {
            ("offer-\($0.name)", [2, 7, 3] + Array($0.text.utf8))
        }
        let answers: [(name: String, bytes: [UInt8])] = headers.map {
            ("answer-\($0.name)", [3, 7, 4] + Array($0.text.utf8))
        }
        // RFC 7692 §7.2.3: one block, a context that is kept, no compression, two blocks, and a
        // block with the final bit.
        let messages: [[UInt8]] = [
            [0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00], [0xF2, 0x00, 0x11, 0x00, 0x00],
            [0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00],
            [0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00],
            [
                0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00,
            ],
        ]
        var all: [UInt8] = []
        for message in messages { all += [0, UInt8(message.count)] + message }
        let others: [(name: String, bytes: [UInt8])] = [
            ("messages-context", [0x05, 7, 7] + all), ("messages-text", [0x11, 7, 7] + all),
            ("messages-limits", [0x09, 7, 7] + all),
            ("round-trip", [0x00, 7, 6, 9, 3, 65, 66, 67, 1, 60, 2, 65, 66, 1]),
            ("round-trip-text", [0x14, 7, 2, 30, 5, 65, 0xE2, 0x82, 0xAC, 67, 1, 1, 1, 65, 0]),
        ]
        return offers + answers + others
    }
}

extension InflationLimits {
    /// Limits for messages that Parley compressed itself.
    static var generous: InflationLimits {
        var limits = InflationLimits()
        limits.maxRatio = 10_000
        return limits
    }
}

/// The receiving end of compressed connections. They share one inflater.
private final class CompressedReceiver {
    private let inflater: MessageInflater
    private let inflated = CompressionBuffer()
    private let limits: InflationLimits

    init(windowBits: Int, keepsContext: Bool, limits: InflationLimits) {
        inflater = MessageInflater(windowBits: windowBits, keepsContext: keepsContext)
        self.limits = limits
    }

    /// Receives a message with one frame per piece.
    func receive(_ pieces: [[UInt8]], isText: Bool) -> Result<[UInt8], WebSocketError> {
        let compressed = pieces.reduce(0) { $0 + $1.count }
        var wire = ByteWriter(capacity: compressed + 16)
        let frames = pieces.isEmpty ? [[]] : pieces
        for (index, piece) in frames.enumerated() {
            let opcode: WebSocketOpcode = isText ? .text : .binary
            WebSocketFrame.writeHeader(
                index == 0 ? opcode : .continuation, payloadBytes: piece.count,
                isFinal: index == frames.count - 1, isCompressed: index == 0, into: &wire)
            piece.withUnsafeBytes { wire.append($0) }
        }
        var bytes = wire.copiedBytes
        let outcome = bytes.withUnsafeMutableBytes { buffer in
            inflateMessage(in: UnsafeMutableRawBufferPointer(rebasing: buffer[...]))
        }
        let allowance = min(
            limits.maxMessageBytes, max(limits.freeBytes, compressed * limits.maxRatio))
        require(inflated.count <= allowance, "\(inflated.count) bytes of \(allowance)")
        require(inflated.capacity <= max(allowance, 4_096), "holds \(inflated.capacity) bytes")
        inflated.removeAll(keepingCapacity: 0)
        return outcome
    }

    /// An error ends a connection, but the shared inflater must stay valid. Each message has a new
    /// connection.
    private func inflateMessage(
        in buffer: UnsafeMutableRawBufferPointer
    ) -> Result<[UInt8], WebSocketError> {
        var unlimited = WebSocketLimits()
        unlimited.maxFramesPerMessage = .max
        var connection = WebSocketConnection(
            role: .client, limits: unlimited, takesCompressed: true)
        var rest = buffer
        do throws(WebSocketError) {
            guard case .compressed(let message) = try connection.next(&rest) else {
                fatalError("no compressed message")
            }
            switch try connection.inflate(
                message, with: inflater, limits: limits, into: inflated)
            {
            case .text(let bytes):
                require(
                    String(validating: bytes, as: UTF8.self) != nil, "a text that is no UTF-8")
                return .success(Array(bytes))
            case .binary(let bytes): return .success(Array(bytes))
            default: fatalError("inflated to something else")
            }
        } catch {
            return .failure(error)
        }
    }
}
