// One end of a WebSocket after the opening handshake (RFC 6455 §5-7), as a state machine without
// I/O: bytes in, events out. It assembles fragmented messages, unmasks, checks every framing rule
// and the UTF-8 of text as it arrives, and keeps the state of the closing handshake. Compressed
// messages are assembled compressed and inflated on demand (RFC 7692). It sends nothing by itself:
// the owner writes pongs, and calls `close` to answer a Close or to report an error. It has no
// clock and no per-second budgets.
//
// Invariant: events and errors depend on the byte stream alone, however it is split into reads. A
// message that lies whole in one read and one frame is returned in place, without copy or
// allocation. Other messages are buffered; `heldBytes` tells how much.
//
//   open ──close()───────────────▶ closeSent ──────peer's Close or error──┐
//    └──peer's Close or its error─▶ closeReceived ──close()───────────────┴▶ closed

/// Which end of the connection this is.
public enum WebSocketRole: Sendable {
    /// Accepts masked frames only, writes unmasked ones.
    case server
    /// Accepts unmasked frames only, writes masked ones.
    case client
}

/// Limits on what one peer may make the connection hold. Every connection has a copy, so the counts
/// are 32 bits wide.
public struct WebSocketLimits: Sendable {
    /// Maximum bytes of one message, all frames together. Default 21 MiB: the protocol's largest
    /// event appends 15 MiB of audio, which are 20 MiB of base64.
    public var maxMessageBytes = 21 << 20
    /// Maximum frames of one message at any size. Default 4,096. It also bounds empty continuation
    /// frames, which no limit in bytes would stop.
    public var maxFramesPerMessage: Int32 = 4096
    /// A fragment with a smaller payload is tiny, unless it is the last of its message. Default 32
    /// bytes: common senders use at least twice that (the Autobahn suite goes down to 64).
    /// `takeProgress` counts tiny fragments; their budget is the owner's. A message may exceed
    /// `maxFramesPerMessage` only while its frames carry at least this many bytes on average, so 21
    /// MiB have at most 688,128 frames.
    public var tinyFragmentBytes: Int32 = 32

    /// The defaults.
    public init() {}
}

/// An event from the peer. Payloads are valid until the next use of the connection or of the read
/// buffer.
public enum WebSocketEvent {
    /// A whole text message; it is valid UTF-8.
    case text(UnsafeRawBufferPointer)
    /// A whole binary message.
    case binary(UnsafeRawBufferPointer)
    /// A whole message that is compressed by permessage-deflate; `inflate` turns it into one of the
    /// above.
    case compressed(WebSocketCompressedMessage)
    /// A ping. Answer it with a pong of the same payload, 0…125 bytes (RFC 6455 §5.5.2).
    case ping(UnsafeRawBufferPointer)
    /// A pong, in answer to a ping or unsolicited, 0…125 bytes.
    case pong(UnsafeRawBufferPointer)
    /// The peer's Close, which is the last event. Answer with `close(_:reason:mask:into:)` and the
    /// same code (RFC 6455 §5.5.1). The reason is valid UTF-8 of at most 123 bytes.
    case close(code: WebSocketCloseCode?, reason: UnsafeRawBufferPointer)
}

/// A compressed message as received.
public struct WebSocketCompressedMessage {
    /// Whether it is a text message.
    public let isText: Bool
    /// The compressed bytes of all frames.
    public let payload: UnsafeRawBufferPointer
}

/// The receiving side of a WebSocket, and both sides of the closing handshake.
///
/// Feed every read to `next` until it returns nil. After an error or a Close event, further input
/// is discarded. The owner then calls `close`, sends what it wrote, and closes the transport (a
/// server) or waits for the server to do so (a client).
public struct WebSocketConnection: ~Copyable {
    /// State of the closing handshake; see the diagram at the top of the file.
    private enum State {
        /// Next: `closeSent`, `closeReceived`.
        case open
        /// Our Close is written, and the peer's is expected. Next: `closed`.
        case closeSent
        /// The peer's Close or an error has ended receiving; our Close is not written yet. Next:
        /// `closed`.
        case closeReceived
        /// Nothing more is received or sent.
        case closed
    }

    /// The part of a frame that the next byte of input belongs to.
    private enum Reading {
        case header
        case payload(WebSocketFrameHeader, received: Int)
    }

    /// The message in progress between its first frame and its last.
    private struct Message {
        let isText: Bool
        let isCompressed: Bool
        var frames: Int32 = 1
        /// Sum of the payload sizes in the frame headers so far.
        var announcedBytes: Int
    }

    private let role: WebSocketRole
    private let takesCompressed: Bool
    private var state = State.open
    private var reading = Reading.header
    private var message: Message?
    /// At a boundary between two messages whenever no text is in progress.
    private var validator = UTF8Validator()
    private let limits: WebSocketLimits
    /// Tiny fragments since the last `takeProgress`.
    private var tinyFragments: UInt32 = 0
    /// The start of a header that was cut off by the end of a read.
    private var partialHeader = InlineArray<14, UInt8>(repeating: 0)
    private var partialHeaderBytes = 0
    /// The message in progress, followed by the payload of a control frame that arrived in pieces.
    private var buffer = WebSocketMessageBuffer()

    /// Creates the state of a connection after its opening handshake.
    /// - Parameter takesCompressed: whether permessage-deflate was agreed.
    public init(
        role: WebSocketRole, limits: WebSocketLimits = WebSocketLimits(),
        takesCompressed: Bool = false
    ) {
        self.role = role
        self.takesCompressed = takesCompressed
        self.limits = limits
    }

    /// Bytes of memory held for incomplete input, beyond the size of this value. 0 after `next`
    /// returned nil while no message is in progress.
    public var heldBytes: Int { buffer.capacity }

    /// Whether messages may be sent: neither side has closed, and the peer has broken no rule.
    public var isOpen: Bool { state == .open }

    /// Whether the closing handshake is complete: nothing more is received, or may be sent.
    public var isClosed: Bool { state == .closed }

    /// Whether a message or a frame has begun and not ended. Meaningful between two reads, after
    /// `next` has returned nil.
    public var isMidMessage: Bool {
        if message != nil || partialHeaderBytes > 0 { return true }
        if case .payload = reading { return true }
        return false
    }

    /// Returns what the owner's budgets depend on after a read: whether a message or frame is
    /// incomplete, and how many tiny fragments arrived since the last call. A tiny fragment costs
    /// its sender 7 bytes and the receiver as much work as a whole message, and no limit in bytes
    /// would stop them.
    public mutating func takeProgress() -> (isMidMessage: Bool, tinyFragments: Int) {
        defer { tinyFragments = 0 }
        return (isMidMessage, Int(tinyFragments))
    }

    /// Returns the next event from the front of `input`, unmasked in place.
    ///
    /// Call it until it returns nil, which means that all of `input` is consumed. An incomplete
    /// frame is kept inside, so the next read may start at the front of the buffer again. After the
    /// end of the connection all input is discarded.
    /// - Parameter input: bytes of one read that are not consumed; on return, the bytes after the
    ///   event.
    /// - Returns: an event, whose payload is valid until the next call, or until the buffer behind
    ///   `input` changes.
    /// - Throws: the rule that the peer broke, once. Its `closeCode` is the code to close with.
    public mutating func next(
        _ input: inout UnsafeMutableRawBufferPointer
    ) throws(WebSocketError) -> WebSocketEvent? {
        // The payload of the previous event is no longer valid, so its memory can be freed.
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
    ///   - output: where the message is written.
    /// - Returns: a text or binary message, valid until the next use of `output`.
    /// - Throws: like `next`, once: what is wrong with the message, or the limit that it exceeds.
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

    /// Writes our Close frame, at most once per connection: to start the closing handshake, to
    /// answer the peer's Close, or to report an error with its `closeCode`. Later calls write
    /// nothing.
    /// - Parameters:
    ///   - code: nil for a frame without a code.
    ///   - reason: text for people; cut at a character boundary to at most 123 bytes.
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

    /// Reads a header from the input, or the rest of one that began in an earlier read.
    /// - Returns: nil when the header is incomplete. Its bytes are kept.
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

    /// Appends input to the start of a header, up to the header's end.
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

    /// Checks the limits against the header, before any of the payload is kept.
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
            // The header's parser accepts a continuation only while a message is in progress.
            guard var message else { throw .unexpectedContinuation }
            message.frames += 1
            // No overflow: the previous sum is within the limit, and so is the difference.
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

    /// Returns a frame that is a whole message or control frame, in place.
    @inline(__always)
    private mutating func deliverInPlace(
        _ payload: UnsafeMutableRawBufferPointer, _ header: WebSocketFrameHeader
    ) throws(WebSocketError) -> WebSocketEvent {
        // An unmasked payload has not been scanned yet, so it may contain any bytes.
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

    /// Buffers a piece of a payload that could not be returned in place.
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
        // More fragments may follow. With room for exactly this one, a message of many would be
        // copied for each.
        let outlook =
            header.isFinal ? buffer.count + header.payloadBytes - offset : limits.maxMessageBytes
        buffer.append(piece, outlook: outlook)
    }

    /// Whether the message in progress is uncompressed text, which is validated as it arrives.
    private var isPlainTextInProgress: Bool {
        message.map { $0.isText && !$0.isCompressed } ?? false
    }

    /// Ends a frame whose payload was buffered.
    /// - Returns: nil when its message continues.
    private mutating func completeFrame(
        _ header: WebSocketFrameHeader
    ) throws(WebSocketError) -> WebSocketEvent? {
        if header.opcode.isControl {
            // The payload lies after the pieces of the message that the control frame interrupts.
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

    /// Creates the event of a whole frame.
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
