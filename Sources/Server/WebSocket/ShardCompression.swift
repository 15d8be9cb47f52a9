// permessage-deflate on a shard: the offers that are accepted, the connections that keep a context,
// inflating, and the events that are worth compressing: those without audio. The codec is Codec's
// (PerMessageDeflate, MessageInflater, MessageDeflater).
//
// Invariant: connections without a context share the shard's inflater and deflaters, which forget
// every message. Contexts count towards `maxContextBytes` from the handshake to the end of the
// connection, as if all of them were in use.

import Codec

/// The inflater, deflaters and buffers that all connections of a shard share.
final class ShardCompression {
    /// Bits of the windows of contexts, where the client leaves the choice. Those of 12 take 50 kB
    /// for both directions and shrink a delta of a reply to a fifth. Those of 14 would take 160 kB,
    /// for a fifth as well.
    static let contextWindowBits = 12
    /// Bits of the window of messages that stand alone: one per shard may be as large as can be.
    static let sharedWindowBits = 15
    /// Memory of a buffer that stays from one message to the next. 64 KiB: ordinary events.
    static let keptBufferBytes = 64 << 10
    /// Inflated bytes that count as one message of a tick's share. 16 KiB: a tick's 64 messages
    /// are then 1 MiB, some milliseconds of inflating.
    static let bytesPerShare = 16 << 10

    let limits: InflationLimits
    let inflater = MessageInflater(windowBits: sharedWindowBits, keepsContext: false)
    let inflated = CompressionBuffer()
    let deflated = CompressionBuffer()
    /// Bytes that the contexts of all connections count for.
    private(set) var contextBytes = 0
    private let isEnabled: Bool
    private let maxContextBytes: Int
    private let minBytes: Int
    private let contextMinBytes: Int
    /// By their window's bits; a client may demand a smaller window than others.
    private var deflaters: [Int: MessageDeflater] = [:]

    init(_ settings: CompressionSettings, _ messages: WebSocketSettings) {
        isEnabled = settings.isOn
        maxContextBytes = settings.maxContextBytes
        minBytes = settings.minBytes
        contextMinBytes = settings.contextMinBytes
        var limits = InflationLimits()
        limits.maxMessageBytes = messages.maxMessageBytes
        limits.maxRatio = settings.maxInflationRatio
        limits.freeBytes = settings.freeInflationBytes
        self.limits = limits
    }

    /// Accepts one of the offers, with contexts if there is memory for them.
    func negotiate(_ offers: [WebSocketExtension]) -> PerMessageDeflateAgreement? {
        guard isEnabled, !offers.isEmpty else { return nil }
        let bits = ShardCompression.contextWindowBits
        let generous = PerMessageDeflateTerms(
            keepsContexts: true, serverWindowBits: bits, clientWindowBits: bits)
        if maxContextBytes > contextBytes,
            let agreement = PerMessageDeflateOffer.accept(from: offers, on: generous),
            CompressionContexts.cost(of: agreement) <= maxContextBytes - contextBytes
        {
            return agreement
        }
        let frugal = PerMessageDeflateTerms(
            keepsContexts: false, serverWindowBits: ShardCompression.sharedWindowBits,
            clientWindowBits: bits)
        return PerMessageDeflateOffer.accept(from: offers, on: frugal)
    }

    /// Makes the contexts of an agreement, if it has any, and counts them.
    func makeContexts(for agreement: PerMessageDeflateAgreement) -> CompressionContexts? {
        guard agreement.serverKeepsContext || agreement.clientKeepsContext else { return nil }
        let contexts = CompressionContexts(agreement)
        contextBytes += contexts.bytes
        return contexts
    }

    /// Releases the contexts of a connection that ends.
    func release(_ contexts: CompressionContexts) { contextBytes -= contexts.bytes }

    /// Whether an event of this many bytes is worth compressing for a connection.
    func isWorthIt(_ count: Int, for connection: Connection) -> Bool {
        count >= (connection.contexts?.deflater == nil ? minBytes : contextMinBytes)
    }

    /// The deflater for messages that stand alone, with a window that a client agreed to.
    func deflater(windowBits: Int) -> MessageDeflater {
        if let deflater = deflaters[windowBits] { return deflater }
        let deflater = MessageDeflater(windowBits: windowBits, keepsContext: false)
        deflaters[windowBits] = deflater
        return deflater
    }

    /// Bytes that the shared parts take.
    var heldBytes: Int {
        inflater.heldBytes + inflated.capacity + deflated.capacity
            + deflaters.values.reduce(0) { $0 + $1.heldBytes }
    }
}

extension Connection {
    /// Whether permessage-deflate was agreed on.
    var isCompressed: Bool { deflateWindowBits > 0 }
}

extension Shard {
    /// Sets a connection up for the compression that its handshake agreed on.
    func adopt(_ agreement: PerMessageDeflateAgreement, on connection: Connection) {
        connection.deflateWindowBits = UInt8(agreement.serverWindowBits)
        connection.contexts = fixtures.compression.makeContexts(for: agreement)
    }

    /// Gives a connection's contexts back.
    func releaseContexts(of connection: Connection) {
        guard let contexts = connection.contexts else { return }
        connection.contexts = nil
        fixtures.compression.release(contexts)
    }

    /// Inflates a message and handles it.
    /// - Returns: the messages that it counts as in the tick's share of its connection.
    @inline(never)
    func handleCompressed(
        _ message: WebSocketCompressedMessage, on connection: Connection
    ) throws(WebSocketError) -> Int {
        defer {
            fixtures.compression.inflated.removeAll(
                keepingCapacity: ShardCompression.keptBufferBytes)
        }
        let event = try connection.webSocket?.inflate(
            message, with: connection.contexts?.inflater ?? fixtures.compression.inflater,
            limits: fixtures.compression.limits, into: fixtures.compression.inflated)
        guard let event else { return 1 }
        metrics.add(.deflatedBytesIn, message.payload.count)
        metrics.add(.inflatedBytesIn, fixtures.compression.inflated.count)
        var share = 1 + fixtures.compression.inflated.count / ShardCompression.bytesPerShare
        let before = noteMessage(ofBytes: fixtures.compression.inflated.count, on: connection)
        switch (event, connection.live) {
        case (.text(let text), let live?):
            share = max(share, handleText(text, of: live, on: connection, after: before))
        case (.binary(let packet), let live?): handleBinary(packet, of: live, on: connection)
        // An echo goes back as it came.
        case (.text(let text), nil): sendDeflated(.text, text, on: connection)
        case (.binary(let bytes), nil): sendDeflated(.binary, bytes, on: connection)
        case (.compressed, _), (.ping, _), (.pong, _), (.close, _):
            preconditionFailure("what is inflated is a text or a binary message")
        }
        return share
    }

    /// Sends a message compressed where that makes it smaller, otherwise as it is.
    func sendDeflated(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, on connection: Connection
    ) {
        // After our Close nothing may follow (RFC 6455 §5.5.1).
        guard connection.state == .webSocket else { return }
        let deflater =
            connection.contexts?.deflater
            ?? fixtures.compression.deflater(windowBits: Int(connection.deflateWindowBits))
        let deflated = fixtures.compression.deflated
        defer { deflated.removeAll(keepingCapacity: ShardCompression.keptBufferBytes) }
        guard deflater.deflate(payload, atMost: payload.count - 1, into: deflated) else {
            send(opcode, payload, on: connection)
            return
        }
        metrics.add(.inflatedBytesOut, payload.count)
        metrics.add(.deflatedBytesOut, deflated.count)
        send(opcode, deflated.bytes, isCompressed: true, on: connection)
    }
}
