// WebSocket frames in both roles. Events and errors are the same however the bytes are split,
// memory follows the bytes received and not the announced length, and each role reads what the
// other writes.
//
// An input: a byte of choices, a byte for the split, then the stream. If the choices say so, a list
// of messages follows instead, which are written as frames first.

import Codec

/// `websocket_frames`: WebSocketConnection and WebSocketFrame.
enum WebSocketFramesTarget: FuzzTarget {
    static let name = "websocket_frames"

    private static let isClient = Flags.bit(0)
    private static let hasSmallLimits = Flags.bit(1)
    private static let isRoundTrip = Flags.bit(2)
    private static let takesCompressed = Flags.bit(3)

    static var seeds: [(name: String, bytes: [UInt8])] {
        let streams = WebSocketSamples.streams.map { sample in
            ("server-\(sample.name)", [0, 7] + sample.bytes(mask: WebSocketSamples.mask))
        }
        let answers = WebSocketSamples.streams.map { sample in
            ("client-\(sample.name)", [1, 7] + sample.bytes(mask: nil))
        }
        let compressed = WebSocketSamples.streams.map { sample in
            var bytes = sample.bytes(mask: WebSocketSamples.mask)
            bytes[0] |= 0x40
            return ("compressed-\(sample.name)", [8, 7] + bytes)
        }
        return streams + answers + compressed + [
            ("round-trip", [4, 7, 0, 1, 3, 65, 66, 67, 2, 2, 200, 1, 2, 3, 4, 9, 1, 1, 1])
        ]
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = Flags(rawValue: input.byte())
        let chunking = Chunking(input.byte())
        if choices.contains(isRoundTrip) {
            return checkRoundTrip(&input, chunking, isClient: choices.contains(isClient))
        }
        var limits = WebSocketLimits()
        if choices.contains(hasSmallLimits) {
            limits.maxMessageBytes = 200
            limits.maxFramesPerMessage = 5
            limits.tinyFragmentBytes = 8
        }
        let role: WebSocketRole = choices.contains(isClient) ? .client : .server
        let takesCompressed = choices.contains(takesCompressed)
        requireChunkInvariant(input.rest(), chunking) { pieces in
            receive(
                pieces, role, limits,
                WebSocketConnection(role: role, limits: limits, takesCompressed: takesCompressed))
        }
    }

    /// The events of all pieces, the error included, and the answers that they require.
    private static func receive(
        _ pieces: [[UInt8]], _ role: WebSocketRole, _ limits: WebSocketLimits,
        _ connection: consuming WebSocketConnection
    ) -> [WebSocketRecord] {
        var records: [WebSocketRecord] = []
        var fed = 0
        for piece in pieces {
            let news = feed(&connection, piece)
            records += news
            fed += piece.count
            require(connection.heldBytes <= 2 * fed + 1024, "holds \(connection.heldBytes)")
            for case .text(let text) in news {
                require(text.utf8.count <= limits.maxMessageBytes, "beyond the limit")
            }
        }
        answer(&connection, records, role)
        return records
    }

    /// Feeds one read, then overwrites it as the next read would.
    private static func feed(
        _ connection: inout WebSocketConnection, _ piece: [UInt8]
    ) -> [WebSocketRecord] {
        var records: [WebSocketRecord] = []
        var piece = piece
        piece.withUnsafeMutableBytes { buffer in
            var rest = buffer
            do throws(WebSocketError) {
                while let event = try connection.next(&rest) {
                    records.append(WebSocketRecord(event))
                }
            } catch {
                require(error.closeCode.isAllowedOnWire, "\(error) has no close code")
                records.append(.failed(error))
            }
            for index in buffer.indices { buffer[index] = 0xEE }
        }
        return records
    }

    /// Answers the end of a connection with a Close, which the other role must accept.
    private static func answer(
        _ connection: inout WebSocketConnection, _ records: [WebSocketRecord], _ role: WebSocketRole
    ) {
        let code: WebSocketCloseCode?
        switch records.last {
        case .close(let received, _): code = received.map(WebSocketCloseCode.init(rawValue:))
        case .failed(let error): code = error.closeCode
        default: code = .normalClosure
        }
        var written = ByteWriter(capacity: 128)
        let mask: UInt32? = role == .client ? 0x0102_0304 : nil
        connection.close(code, reason: "é", mask: mask, into: &written)
        var peer = WebSocketConnection(role: role == .client ? .server : .client)
        let read = feed(&peer, written.copiedBytes)
        require(
            read == [.close(code?.rawValue, code == nil ? "" : "é")],
            "our Close was read as \(read)")
    }

    // MARK: Round trip

    /// Writes messages from the input as frames in one role and reads them in the other.
    private static func checkRoundTrip(
        _ input: inout FuzzInput, _ chunking: Chunking, isClient: Bool
    ) {
        var wire = ByteWriter(capacity: 1024)
        var expected: [WebSocketRecord] = []
        // The choices give the reader's role.
        let mask: UInt32? = isClient ? nil : UInt32(truncatingIfNeeded: input.number() &* 40_503)
        while !input.isEmpty, expected.count < 16, wire.count < 100_000 {
            let kind = input.byte()
            let payload = makePayload(&input)
            switch kind % 4 {
            case 0:
                let text = String(decoding: payload, as: UTF8.self)
                write(.text, Array(text.utf8), pieces: kind, mask, into: &wire)
                expected.append(.text(text))
            case 1:
                write(.binary, payload, pieces: kind, mask, into: &wire)
                expected.append(.binary(payload))
            case 2:
                write(.ping, Array(payload.prefix(125)), pieces: 0, mask, into: &wire)
                expected.append(.ping(Array(payload.prefix(125))))
            default:
                write(.pong, Array(payload.prefix(125)), pieces: 0, mask, into: &wire)
                expected.append(.pong(Array(payload.prefix(125))))
            }
        }
        var reader = WebSocketConnection(role: isClient ? .client : .server)
        let read = chunking.pieces(of: wire.copiedBytes).flatMap { feed(&reader, $0) }
        require(read == expected, "written \(expected)\nread \(read)")
        require(reader.heldBytes == 0, "holds \(reader.heldBytes) after whole messages")
    }

    /// Literal bytes, or one byte repeated: lengths of all three forms from a short input.
    private static func makePayload(_ input: inout FuzzInput) -> [UInt8] {
        let size = input.byte()
        switch size {
        case 0..<200: return input.take(Int(size))
        case 255: return [UInt8](repeating: input.byte(), count: 65_500 + Int(input.byte()))
        default: return [UInt8](repeating: input.byte(), count: Int(size))
        }
    }

    private static func write(
        _ opcode: WebSocketOpcode, _ payload: [UInt8], pieces: UInt8, _ mask: UInt32?,
        into wire: inout ByteWriter
    ) {
        let frames = Int(pieces >> 2 % 5) + 1
        let size = payload.count / frames + 1
        for frame in 0..<frames {
            let from = min(payload.count, frame * size)
            let piece = payload[from..<min(payload.count, from + size)]
            Array(piece).withUnsafeBytes {
                WebSocketFrame.write(
                    frame == 0 ? opcode : .continuation, payload: $0,
                    isFinal: frame == frames - 1, mask: mask, into: &wire)
            }
        }
    }
}

/// Everything that a connection can report, as values that outlive the read.
enum WebSocketRecord: Equatable {
    case text(String)
    case binary([UInt8])
    /// A compressed message; the deflate target inflates such messages.
    case compressed([UInt8], isText: Bool)
    case ping([UInt8])
    case pong([UInt8])
    case close(UInt16?, String)
    case failed(WebSocketError)

    /// Copies an event.
    init(_ event: WebSocketEvent) {
        switch event {
        case .text(let payload):
            guard let text = String(validating: payload, as: UTF8.self) else {
                fatalError("a text that is no UTF-8: \(Array(payload))")
            }
            self = .text(text)
        case .binary(let payload): self = .binary(Array(payload))
        case .compressed(let message):
            self = .compressed(Array(message.payload), isText: message.isText)
        case .ping(let payload): self = .ping(Array(payload))
        case .pong(let payload): self = .pong(Array(payload))
        case .close(let code, let reason):
            require(code?.isAllowedOnWire != false, "a Close with \(String(describing: code))")
            guard let text = String(validating: reason, as: UTF8.self) else {
                fatalError("a reason that is no UTF-8: \(Array(reason))")
            }
            self = .close(code?.rawValue, text)
        }
    }
}
