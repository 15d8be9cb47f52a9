// One end of a WebSocket after the opening handshake (RFC 6455 §5-7), as a state machine without
// input or output: bytes in, events out. It assembles fragmented messages, unmasks, checks every
// rule of framing, the UTF-8 of text as it arrives, and keeps the state of the closing handshake.
// Compressed messages are assembled as they came and inflated on demand (RFC 7692).
// It answers nothing by itself: the owner writes pongs, and calls `close` to answer a Close, or to
// tell the peer about an error. It has no clock and no budget per second.
//
// Invariant: the events and the error are a function of the byte stream alone, however it is cut
// into reads. A message that lies whole in one read and one frame is handed out where it lies, with
// neither copy nor allocation; only otherwise is memory held, and `heldBytes` tells how much.
//
//   open ──close()──────────────▶ closeSent ──────peer's Close, or its error──┐
//    └──peer's Close, its error─▶ closeReceived ──close()─────────────────────┴▶ closed

/// Which end of the connection this is.
public enum WebSocketRole: Sendable {
    /// Takes masked frames only, writes unmasked ones.
    case server
    /// Takes unmasked frames only, writes masked ones.
    case client
}

/// What one peer may make the connection hold. Every connection has a copy, hence the short counts.
public struct WebSocketLimits: Sendable {
    /// Bytes of one message, all frames together. Default 21 MiB: the largest event of the protocol
    /// appends 15 MiB of audio, which are 20 MiB of base64.
    public var maxMessageBytes = 21 << 20
    /// Frames of one message that may be as small as they like. Default 4,096. Empty continuation
    /// frames without end count here, as no limit in bytes would ever stop them.
    public var maxFramesPerMessage: Int32 = 4096
    /// Payloads smaller than this make a fragment tiny, unless it is its message's last. Default
    /// 32 bytes: half of what any sender of note cuts messages into (the Autobahn suite goes down
    /// to 64). `takeProgress` counts them; a budget for them is the owner's. A message has
    /// more than `maxFramesPerMessage` frames only while they carry this much on the average, so
    /// that 21 MiB take at most 688,128.
    public var tinyFragmentBytes: Int32 = 32

    /// The defaults.
    public init() {}
}

/// Something the peer said. Payloads are valid until the connection's or the read buffer's next
/// use.
public enum WebSocketEvent {
    /// A whole text message; it is valid UTF-8.
    case text(UnsafeRawBufferPointer)
    /// A whole binary message.
    case binary(UnsafeRawBufferPointer)
    /// A whole message that permessage-deflate compressed; `inflate` makes one of the above of it.
    case compressed(WebSocketCompressedMessage)
    /// To be answered with a pong of the same payload, 0…125 bytes (RFC 6455 §5.5.2).
    case ping(UnsafeRawBufferPointer)
    /// An answer to a ping, or unasked for, 0…125 bytes.
    case pong(UnsafeRawBufferPointer)
    /// The peer closes; the last event. Answer it with `close(_:reason:mask:into:)` and the same
    /// code (RFC 6455 §5.5.1). The reason is valid UTF-8 of at most 123 bytes.
    case close(code: WebSocketCloseCode?, reason: UnsafeRawBufferPointer)
}

/// A message as it came, before it is inflated.
public struct WebSocketCompressedMessage {
    /// Whether it is a text message.
    public let isText: Bool
    /// What was sent, all frames together.
    public let payload: UnsafeRawBufferPointer
}

/// The receiving side of a WebSocket, and the closing handshake of both sides.
///
/// Feed every read to `next` until it returns nil. After an error or a Close event it discards
/// whatever still comes; the owner calls `close`, writes what that wrote, and then closes the
/// transport (a server) or waits for the server to do so (a client).
public struct WebSocketConnection: ~Copyable {
    /// How far the closing handshake is; see the diagram at the top of the file.
    private enum State {
        /// Next: `closeSent`, `closeReceived`.
        case open
        /// Our Close is written and the peer's is awaited. Next: `closed`.
        case closeSent
        /// The peer's Close, or an error, ended the receiving; ours is due. Next: `closed`.
        case closeReceived
        /// Nothing is received or sent any more.
        case closed
    }

    /// Where the next byte of input belongs.
    private enum Reading {
        case header
        case payload(WebSocketFrameHeader, received: Int)
    }

    /// The message in progress between its first frame and its last.
    private struct Message {
        let isText: Bool
        let isCompressed: Bool
        var frames: Int32 = 1
        /// The payload bytes that the headers so far announced.
        var announcedBytes: Int
    }

    private let role: WebSocketRole
    private let takesCompressed: Bool
    private var state = State.open
    private var reading = Reading.header
    private var message: Message?
    /// Stands at a boundary between two messages: a text that ends elsewhere is an error.
    private var validator = UTF8Validator()
    private let limits: WebSocketLimits
    /// Tiny fragments since the owner asked.
    private var tinyFragments: UInt32 = 0
    /// The beginning of a header that was cut off by the end of a read.
    private var partialHeader = InlineArray<14, UInt8>(repeating: 0)
    private var partialHeaderBytes = 0
    /// The message in progress, then a control frame's payload that came in pieces.
    private var buffer = WebSocketMessageBuffer()

    /// Creates the state of a connection whose opening handshake is done.
    /// - Parameter takesCompressed: whether it agreed on permessage-deflate.
    public init(
        role: WebSocketRole, limits: WebSocketLimits = WebSocketLimits(),
        takesCompressed: Bool = false
    ) {
        self.role = role
        self.takesCompressed = takesCompressed
        self.limits = limits
    }

    /// Memory held for what is incomplete, beyond the size of this value, in bytes. It is 0 again
    /// once `next` has returned nil and no message is in progress.
    public var heldBytes: Int { buffer.capacity }

    /// Whether messages may be sent: neither side has closed and the peer has broken no rule.
    public var isOpen: Bool { state == .open }

    /// Whether the closing handshake is over: nothing more will be received, or may be sent.
    public var isClosed: Bool { state == .closed }

    /// Whether a message or a frame has begun whose end has not come. Holds between two reads, when
    /// `next` has returned nil.
    public var isMidMessage: Bool {
        if message != nil || partialHeaderBytes > 0 { return true }
        if case .payload = reading { return true }
        return false
    }

    /// What the owner's budgets go by after a read: whether something is unfinished, and how many
    /// tiny fragments came since the last call. Each of these costs its sender 7 bytes and the
    /// receiver as much work as a whole message, and no limit in bytes would ever stop them.
    public mutating func takeProgress() -> (isMidMessage: Bool, tinyFragments: Int) {
        defer { tinyFragments = 0 }
        return (isMidMessage, Int(tinyFragments))
    }

    /// Takes the next event from the front of `input`, unmasking it in place.
    ///
    /// Call it until it returns nil, which means that all of `input` is consumed. An incomplete
    /// frame is kept inside, so the next read starts at the front of the buffer again. After the
    /// end of the connection the input is discarded.
    /// - Parameter input: bytes of one read not consumed yet; on return those after the event.
    /// - Returns: an event, whose payload is valid until the next call and until the buffer behind
    ///   `input` changes.
    /// - Throws: the rule that the peer broke, once; `closeCode` of it says how to close.
    public mutating func next(
        _ input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> WebSocketEvent? {
        // What the last event pointed to is free to go now.
        if buffer.capacity > 0 && buffer.count == 0, case .header = reading { buffer.release() }
        guard input.count > 0 else { return nil }
        switch state {
        case .closeReceived, .closed:
            input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
            return nil
        case .open, .closeSent:
            do throws(WebSocketError) {
                return try receive(&input)
            } catch {
                stopReceiving()
                buffer.release()
                input = UnsafeMutableRawBufferPointer(start: nil, count: 0)
                throw error
            }
        }
    }

    /// Inflates the message of the last event.
    /// - Parameters:
    ///   - inflater: the connection's own, or one that keeps no context.
    ///   - output: where the message is put.
    /// - Returns: a text or binary message, valid until the next use of `output`.
    /// - Throws: what is wrong with the message, or the limit that it exceeds, once, as `next`.
    public mutating func inflate(
        _ message: WebSocketCompressedMessage, with inflater: MessageInflater,
        limits: InflationLimits, into output: CompressionBuffer
    ) throws(WebSocketError) -> WebSocketEvent {
        do throws(WebSocketError) {
            try inflater.inflate(
                message.payload, isText: message.isText, limits: limits, into: output)
        } catch {
            stopReceiving()
            buffer.release()
            throw error
        }
        return message.isText ? .text(output.bytes) : .binary(output.bytes)
    }

    /// Writes our Close frame, at most one in the connection's life: to begin the closing
    /// handshake, to answer the peer's Close, or to report an error with its `closeCode`. Later
    /// calls write nothing.
    /// - Parameters:
    ///   - code: nil for a frame without a code.
    ///   - reason: for people; cut at a character's end to at most 123 bytes.
    ///   - mask: required in the client role, nil in the server role.
    /// - Precondition: the code is allowed on the wire; the mask fits the role.
    public mutating func close(
        _ code: WebSocketCloseCode?, reason: String = "", mask: UInt32? = nil,
        into writer: inout ByteWriter
    ) {
        precondition((mask != nil) == (role == .client), "A client masks, a server does not.")
        switch state {
        case .open: state = .closeSent
        case .closeReceived: state = .closed
        case .closeSent, .closed: return
        }
        WebSocketFrame.writeClose(code, reason: reason, mask: mask, into: &writer)
    }

    // MARK: Receiving

    @inline(__always)
    private mutating func receive(
        _ input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> WebSocketEvent? {
        while true {
            switch reading {
            case .header:
                guard let header = try takeHeader(&input) else { return nil }
                try admit(header)
                let isWhole = header.isFinal && header.opcode != .continuation
                if isWhole && input.count >= header.payloadBytes {
                    return try deliverInPlace(take(header.payloadBytes, from: &input), header)
                }
                reading = .payload(header, received: 0)
            case .payload(let header, let before):
                let piece = take(min(header.payloadBytes - before, input.count), from: &input)
                try store(piece, of: header, at: before)
                let received = before + piece.count
                guard received == header.payloadBytes else {
                    reading = .payload(header, received: received)
                    return nil
                }
                reading = .header
                if let event = try completeFrame(header) { return event }
            }
        }
    }

    @inline(__always)
    private func take(
        _ count: Int, from input: inout UnsafeMutableRawBufferPointer
    ) -> UnsafeMutableRawBufferPointer {
        let taken = UnsafeMutableRawBufferPointer(rebasing: input[..<count])
        input = UnsafeMutableRawBufferPointer(rebasing: input[count...])
        return taken
    }

    /// Takes a header from the input, or the rest of one that began in an earlier read.
    /// - Returns: nil when the input ends before the header does; what there is of it is kept.
    @inline(__always)
    private mutating func takeHeader(
        _ input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> WebSocketFrameHeader? {
        if partialHeaderBytes == 0 {
            let header = try WebSocketFrameHeader.parse(
                input, expectsMask: role == .server, continues: message != nil,
                takesCompressed: takesCompressed)
            if let header {
                _ = take(header.size, from: &input)
                return header
            }
        }
        return try takePartialHeader(&input)
    }

    /// Adds the input to what there is of a header, and takes what that needs.
    @inline(never)
    private mutating func takePartialHeader(
        _ input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> WebSocketFrameHeader? {
        let before = partialHeaderBytes
        let copied = min(WebSocketFrame.maxHeaderBytes - before, input.count)
        for index in 0..<copied { partialHeader[before + index] = input[index] }
        let available = before + copied
        let (expectsMask, continues) = (role == .server, message != nil)
        let takesCompressed = takesCompressed
        let header = try withUnsafeMutableBytes(of: &partialHeader) {
            (bytes) throws(WebSocketError) -> WebSocketFrameHeader? in
            try .parse(
                UnsafeMutableRawBufferPointer(rebasing: bytes[..<available]),
                expectsMask: expectsMask, continues: continues, takesCompressed: takesCompressed)
        }
        partialHeaderBytes = header == nil ? available : 0
        _ = take(header.map { $0.size - before } ?? copied, from: &input)
        return header
    }

    /// Checks the limits, on what the header announces and before any of it is kept.
    @inline(__always)
    private mutating func admit(_ header: WebSocketFrameHeader) throws(WebSocketError) {
        if !header.isFinal, header.payloadBytes < limits.tinyFragmentBytes { tinyFragments &+= 1 }
        switch header.opcode {
        case .close, .ping, .pong:
            return
        case .text, .binary:
            guard header.payloadBytes <= limits.maxMessageBytes else { throw .messageTooBig }
            if !header.isFinal {
                message = Message(
                    isText: header.opcode == .text, isCompressed: header.isCompressed,
                    announcedBytes: header.payloadBytes)
            }
        case .continuation:
            // The header's parser let a continuation pass only because a message is in progress.
            guard var message else { throw .unexpectedContinuation }
            message.frames += 1
            // No overflow: the sum before is within the limit, and so is the difference.
            guard header.payloadBytes <= limits.maxMessageBytes - message.announcedBytes else {
                throw .messageTooBig
            }
            message.announcedBytes += header.payloadBytes
            guard
                message.frames <= limits.maxFramesPerMessage
                    || message.announcedBytes / Int(message.frames) >= limits.tinyFragmentBytes
            else { throw .tooManyFrames }
            self.message = message
        }
    }

    /// Hands out a frame that is a message or a control frame of its own, where it lies.
    @inline(__always)
    private mutating func deliverInPlace(
        _ payload: UnsafeMutableRawBufferPointer, _ header: WebSocketFrameHeader
    ) throws(WebSocketError) -> WebSocketEvent {
        // An unmasked payload has not been looked at yet, so it may hold anything.
        let mayExceedASCII = header.mask.map { WebSocketMask.apply($0, to: payload) } ?? true
        let bytes = UnsafeRawBufferPointer(payload)
        if header.isCompressed {
            return .compressed(
                WebSocketCompressedMessage(isText: header.opcode == .text, payload: bytes))
        }
        if header.opcode == .text && mayExceedASCII && !UTF8Validator.isValid(bytes) {
            throw .invalidUTF8
        }
        return try makeEvent(header.opcode, bytes)
    }

    /// Keeps a piece of a payload that could not be handed out in place.
    private mutating func store(
        _ piece: UnsafeMutableRawBufferPointer, of header: WebSocketFrameHeader, at offset: Int
    ) throws(WebSocketError) {
        guard piece.count > 0 else { return }
        if let mask = header.mask {
            WebSocketMask.apply(WebSocketMask.rotated(mask, by: offset), to: piece)
        }
        let isText =
            header.opcode == .continuation
            ? isPlainTextInProgress : header.opcode == .text && !header.isCompressed
        if isText && !validator.append(UnsafeRawBufferPointer(piece)) { throw .invalidUTF8 }
        // Behind a fragment more may come: with room for exactly this one, a message of many would
        // be copied as often.
        let outlook =
            header.isFinal ? buffer.count + header.payloadBytes - offset : limits.maxMessageBytes
        buffer.append(piece, outlook: outlook)
    }

    /// Whether the message in progress is text that can be looked at as it comes.
    private var isPlainTextInProgress: Bool {
        message.map { $0.isText && !$0.isCompressed } ?? false
    }

    /// Ends a frame whose payload went through the buffer.
    /// - Returns: nil when its message goes on.
    private mutating func completeFrame(
        _ header: WebSocketFrameHeader
    ) throws(WebSocketError) -> WebSocketEvent? {
        if header.opcode.isControl {
            // The payload lies after the pieces of the message that it interrupts.
            let start = buffer.count - header.payloadBytes
            let payload = UnsafeRawBufferPointer(rebasing: buffer.bytes[start...])
            buffer.truncate(to: start)
            return try makeEvent(header.opcode, payload)
        }
        guard header.isFinal else { return nil }
        let isText = message?.isText ?? (header.opcode == .text)
        let isCompressed = message?.isCompressed ?? header.isCompressed
        guard !isText || validator.isAtBoundary else { throw .invalidUTF8 }
        let payload = buffer.bytes
        message = nil
        buffer.truncate(to: 0)
        if isCompressed {
            return .compressed(WebSocketCompressedMessage(isText: isText, payload: payload))
        }
        return isText ? .text(payload) : .binary(payload)
    }

    /// Makes the event of a whole frame.
    @inline(__always)
    private mutating func makeEvent(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer
    ) throws(WebSocketError) -> WebSocketEvent {
        switch opcode {
        case .text: return .text(payload)
        case .binary, .continuation: return .binary(payload)
        case .ping: return .ping(payload)
        case .pong: return .pong(payload)
        case .close:
            let (code, reason) = try parseClose(payload)
            stopReceiving()
            return .close(code: code, reason: reason)
        }
    }

    private func parseClose(
        _ payload: UnsafeRawBufferPointer
    ) throws(WebSocketError) -> (WebSocketCloseCode?, UnsafeRawBufferPointer) {
        guard payload.count > 0 else { return (nil, payload) }
        guard payload.count >= 2 else { throw .truncatedCloseCode }
        let code = WebSocketCloseCode(
            rawValue: UInt16(bigEndian: payload.loadUnaligned(as: UInt16.self)))
        guard code.isAllowedOnWire else { throw .invalidCloseCode }
        let reason = UnsafeRawBufferPointer(rebasing: payload[2...])
        guard UTF8Validator.isValid(reason) else { throw .invalidCloseReason }
        return (code, reason)
    }

    private mutating func stopReceiving() {
        switch state {
        case .open: state = .closeReceived
        case .closeSent: state = .closed
        case .closeReceived, .closed: preconditionFailure("Nothing is received after the end.")
        }
    }
}
