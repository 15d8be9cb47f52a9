// A simulated kernel with a million sockets for one shard. A peer sends one of a few texts, what it
// receives is inspected and discarded, and the clock moves only when no work is left. `SimulatedIO`
// (Tests/Simulation) is for tests: it keeps bytes and sorts its sockets in every tick.
//
// Invariant: ten bytes per socket, allocated and touched before anything is measured. An idle
// socket takes nothing more, and the cost of a call does not depend on the number of sockets.

import CLinux
import Codec
import Server
import Session

/// The texts that a peer can send, each in one read.
enum CensusText: UInt8, CaseIterable {
    case upgrade = 1
    case pong, turn, close
    /// An operator requests the list of sessions.
    case survey
}

/// The backend of a census.
final class CensusIO: IO {
    /// The listening handle, for `Shard.listen(on:)`.
    static let listener: IOHandle = 0
    private(set) var now = Instant(nanoseconds: 0)
    /// The clock does not advance beyond this time.
    var horizon = Instant(nanoseconds: 0)
    /// Whether the last wait found no work up to the horizon.
    private(set) var isIdle = false
    /// Does nothing: the only thread finds queued messages by itself.
    let wake: @Sendable () -> Void = {}
    /// Number of pings that were answered.
    private(set) var pings = 0
    /// Bytes sent to operators.
    private(set) var operatorBytes = 0
    /// Called with the bytes sent to sampled peers.
    var listen: (UnsafeRawBufferPointer) -> Void = { _ in }

    /// Maximum operators. Their handles follow those of the sessions.
    private static let maxOperators = 16

    private let capacity: Int
    private let tokens: UnsafeMutablePointer<UInt64>
    private let interests: UnsafeMutablePointer<UInt8>
    private let inbound: UnsafeMutablePointer<UInt8>
    private let texts: [CensusText: [UInt8]]
    /// Peers whose received bytes are passed to `listen`.
    private var sample: Set<IOHandle> = []
    /// Handles with something to read, in order of arrival.
    private var ready: [IOHandle] = []
    private var readyStart = 0
    private var reports: [IOHandle] = []
    private var isListenerReady = false
    private var listenerToken = EventToken(.listener, index: 0, generation: 0)
    private var waiting = 0
    private var nextHandle: IOHandle = 1
    private var waitingOperators = 0
    private var operators = 0

    /// Creates a kernel for `capacity` sockets. Handles are not reused.
    init(capacity: Int, path: String) {
        self.capacity = capacity
        let places = capacity + 1 + Self.maxOperators
        tokens = .allocate(capacity: places)
        interests = .allocate(capacity: places)
        inbound = .allocate(capacity: places)
        // Touched now, so that these pages are resident before the measurement.
        tokens.initialize(repeating: .max, count: places)
        interests.initialize(repeating: 0, count: places)
        inbound.initialize(repeating: 0, count: places)
        ready.reserveCapacity(1 << 20)
        texts = Self.makeTexts(path: path)
    }

    deinit {
        tokens.deallocate()
        interests.deallocate()
        inbound.deallocate()
    }

    /// Bytes that this kernel uses per socket.
    static var bytesPerSocket: Int { 8 + 1 + 1 }

    // MARK: The peers

    /// Queues connections of peers, which request a session once they are accepted.
    func connect(_ count: Int) { waiting += count }

    /// Queues a connection of a local operator, which requests the list of sessions.
    func connectOperator() { waitingOperators += 1 }

    /// Queues a text of a peer.
    func send(_ text: CensusText, from handle: IOHandle) {
        inbound[Int(handle)] = text.rawValue
        ready.append(handle)
    }

    /// Selects the peers whose received bytes are passed to `listen`.
    func listen(to handles: [IOHandle]) { sample = Set(handles) }

    private static func makeTexts(path: String) -> [CensusText: [UInt8]] {
        var request = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: path, host: "localhost", key: "dGhlIHNhbXBsZSBub25jZQ==",
            subprotocols: ["realtime"], headers: HTTPFields(), into: &request)
        func frame(_ opcode: WebSocketOpcode, _ payload: [UInt8]) -> [UInt8] {
            var writer = ByteWriter(capacity: payload.count + 16)
            payload.withUnsafeBytes {
                WebSocketFrame.write(opcode, payload: $0, isFinal: true, mask: 0, into: &writer)
            }
            return writer.copiedBytes
        }
        let item =
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
            + #""content":[{"type":"input_text","text":"How far is it to the harbour?"}]}}"#
        let response = #"{"type":"response.create","response":{"output_modalities":["text"]}}"#
        return [
            .upgrade: request.copiedBytes, .pong: frame(.pong, []),
            .close: frame(.close, [3, 232]),
            .turn: frame(.text, Array(item.utf8)) + frame(.text, Array(response.utf8)),
            .survey: Array(
                "GET /admin/sessions HTTP/1.1\r\nHost: localhost\r\nConnection:close\r\n\r\n".utf8),
        ]
    }

    // MARK: IO

    func wait(until deadline: Instant?, atMost limit: Int) -> Int {
        reports.removeAll(keepingCapacity: true)
        isListenerReady = waiting > 0 || waitingOperators > 0
        let end = min(ready.count, readyStart + limit)
        while readyStart < end {
            reports.append(ready[readyStart])
            readyStart += 1
        }
        if readyStart == ready.count {
            ready.removeAll(keepingCapacity: true)
            readyStart = 0
        }
        isIdle = false
        let count = reports.count + (isListenerReady ? 1 : 0)
        if count > 0 { return count }
        if let deadline, deadline <= horizon {
            now = max(now, deadline)
        } else {
            now = max(now, horizon)
            isIdle = true
        }
        return 0
    }

    func readiness(at position: Int) -> Readiness {
        let token =
            position < reports.count
            ? EventToken(rawValue: tokens[Int(reports[position])]) : listenerToken
        return Readiness(token: token, isReadable: true, isWritable: false, hasFailed: false)
    }

    func accept(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        if waitingOperators > 0 {
            precondition(operators < Self.maxOperators, "more operators than were said")
            waitingOperators -= 1
            operators += 1
            peer = NetworkAddress(v4: 0x7F00_0001)
            send(.survey, from: IOHandle(capacity + operators))
            return .done(capacity + operators)
        }
        guard waiting > 0 else { return .wouldBlock }
        waiting -= 1
        let handle = nextHandle
        precondition(Int(handle) <= capacity, "more sockets than were said")
        nextHandle += 1
        peer = self.peer(of: handle)
        send(.upgrade, from: handle)
        return .done(Int(handle))
    }

    func acceptOnSpare(from listener: IOHandle, peer: inout NetworkAddress) -> IOOutcome {
        .failed(EMFILE)
    }

    /// The peer's address: every peer has its own, as far as 10.0.0.0/8 has room.
    func peer(of handle: IOHandle) -> NetworkAddress {
        NetworkAddress(v4: 0x0A00_0000 | UInt32(truncatingIfNeeded: handle) & 0xFF_FFFF)
    }

    func read(_ handle: IOHandle, into buffer: UnsafeMutableRawBufferPointer) -> IOOutcome {
        guard let text = CensusText(rawValue: inbound[Int(handle)]), let bytes = texts[text]
        else { return .wouldBlock }
        inbound[Int(handle)] = 0
        buffer.copyBytes(from: bytes)
        return .done(bytes.count)
    }

    func write(_ handle: IOHandle, _ bytes: UnsafeRawBufferPointer) -> IOOutcome {
        if Int(handle) > capacity { operatorBytes += bytes.count }
        if bytes[0] == 0x89 {
            pings += 1
            send(.pong, from: handle)
        }
        if !sample.isEmpty, sample.contains(handle) { listen(bytes) }
        return .done(bytes.count)
    }

    func finishWriting(_ handle: IOHandle) {}

    func close(_ handle: IOHandle) { interests[Int(handle)] = 0 }

    func watch(
        _ handle: IOHandle, for interest: Interest, token: EventToken, isNew: Bool
    ) -> Int32 {
        if handle == Self.listener {
            listenerToken = token
        } else {
            tokens[Int(handle)] = token.rawValue
            interests[Int(handle)] = interest.rawValue
        }
        return 0
    }

    func unwatch(_ handle: IOHandle) {}
}
