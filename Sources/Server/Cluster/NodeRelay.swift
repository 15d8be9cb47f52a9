// A request that another node answers, byte by byte: the client's connection here is a pipe to a
// connection to that node, which knows the caller by the pass. NodeRelays has the sockets, ShardRelays
// moves the bytes.
//
//   client ──pending (64 KiB)──▶ this node ──▶ other node        while it is a WebSocket
//   client ◀──send buffer──────── this node ◀── other node       as long as the window has room
//
// Invariant: what waits towards the client is at most the answer's window and one piece, and towards
// the node what HTTP keeps behind an unfinished answer; beyond that, nothing more is read.

import Codec
import Session

/// A stream of bytes to another node, in the making or open.
protocol RelayStream: AnyObject {
    var state: OutgoingSocket.State { get }
    /// When it needs a call of `handleTimer()`, or nil where it needs none.
    var deadline: Instant? { get }
    /// Whether bytes that come are reported.
    var isReading: Bool { get set }
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool)
    func handleTimer()
    /// Reads what is there.
    func receive(into buffer: UnsafeMutableRawBufferPointer) -> OutgoingSocket.Received
    /// Writes the bytes that there is room for. The result is their number, or nil where the
    /// connection is lost.
    func send(_ bytes: UnsafeRawBufferPointer) -> Int?
    func close()
}

extension OutgoingSocket: RelayStream {}

/// A request that another node answers.
final class NodeRelay {
    /// Time until the other node has answered.
    static let patience = NodeRequest.wholePatience
    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(NodeRelay.self)
    /// About what libcurl holds for a connection. 32 KiB: its handles and one buffer of 16 KiB.
    private static let socketBytes = 32 << 10

    let request: HTTPRequest
    /// The caller of the request.
    let caller: CallerTag
    /// The client's connection.
    let connection: EventToken
    /// Whether the client's bytes go on to the other node: it has asked for a WebSocket. Otherwise
    /// they would be another request.
    let forwardsInput: Bool
    let stream: any RelayStream
    /// Serves the client where the node does not answer with a WebSocket. Nil means that the client
    /// gets the node's answer, or an error.
    let fallback: (() -> Void)?
    /// Bytes of the request that have not left.
    private(set) var unsentHead: [UInt8]
    private var answer: RelayedAnswer
    private let begun: Instant
    /// When bytes last came from either side; like the other times here, by the peers' clock.
    private var lastActive: Instant
    /// Since when nothing is read from the node, as the client does not read.
    private var stalledSince: Instant?

    /// - Parameters:
    ///   - head: the request's head, as the other node gets it.
    ///   - fields: the fields that are added to the other node's answer.
    ///   - fallback: called to serve the client where the node has not answered.
    init(
        of request: HTTPRequest, from caller: CallerTag, head: [UInt8],
        over stream: any RelayStream,
        adding fields: HTTPFields, for connection: EventToken,
        otherwise fallback: (() -> Void)?, at now: Instant
    ) {
        (self.request, self.stream, self.connection) = (request, stream, connection)
        self.caller = caller
        self.fallback = fallback
        unsentHead = head
        forwardsInput = WebSocketHandshake.isRequested(by: request)
        answer = RelayedAnswer(adding: fields)
        (begun, lastActive) = (now, now)
    }

    /// The status of the answer; nil until its head is there.
    var status: Int? { answer.status }
    /// Whether a Close may be sent to the client.
    var canBeClosed: Bool { answer.canBeClosed }
    /// Whether the client has a WebSocket now.
    var isWebSocket: Bool { answer.status == 101 }
    /// Bytes of it and of its socket.
    var heldBytes: Int {
        Self.objectBytes + Self.socketBytes + unsentHead.heapBytes + answer.heldBytes
    }

    // MARK: Bytes

    /// Notes how much of the request's head has left.
    func noteHeadSent(_ count: Int) { unsentHead.removeFirst(count) }

    /// Bytes of the client have left.
    func noteInput(at now: Instant) { lastActive = now }

    /// Bytes of the other node have come.
    /// - Parameter output: gets the bytes for the client.
    func take(
        _ bytes: UnsafeRawBufferPointer, into output: inout ByteWriter, at now: Instant
    ) throws(MalformedAnswer) {
        lastActive = now
        try answer.take(bytes, into: &output)
    }

    // MARK: Time

    /// Notes that so many bytes wait for the client that no more are read.
    func noteStall(at now: Instant) { stalledSince = stalledSince ?? now }

    /// Notes that the client has read the bytes that waited.
    func noteProgress() { stalledSince = nil }

    /// Whether the client has read nothing for too long.
    func isStalled(at now: Instant, patience: Duration) -> Bool {
        stalledSince.map { now >= $0 + patience } ?? false
    }

    /// By when it ends, unless something happens. The other node asks for signs of life of the client
    /// itself; here it is noticed that the node is gone.
    /// - Parameter patience: how long the client may read nothing.
    func deadline(_ settings: WebSocketSettings, patience: Duration) -> Instant {
        guard answer.status != nil else { return begun + Self.patience }
        let silence = lastActive + settings.idleTimeout + settings.pingInterval
        return stalledSince.map { min(silence, $0 + patience) } ?? silence
    }
}
