// A client and a server joined by an in-memory wire that delivers in random pieces. Each side reads
// what the other writes, up to the closing handshake in both orders.

import Codec
import TestMaterial
import Testing

/// Both ends of a connection, and the bytes in transit.
private struct Pair: ~Copyable {
    var client = WebSocketConnection(role: .client)
    var server = WebSocketConnection(role: .server)
    var toServer = ByteWriter(capacity: 64)
    var toClient = ByteWriter(capacity: 64)
    var generator = SeededGenerator(seed: 1)

    /// State of the closing handshake at one end.
    enum State { case open, closing, closed }

    var clientState: State { Self.state(client) }
    var serverState: State { Self.state(server) }
    var bytesToClient: Int { toClient.count }

    private static func state(_ end: borrowing WebSocketConnection) -> State {
        end.isOpen ? .open : end.isClosed ? .closed : .closing
    }

    /// Delivers all bytes in transit to the server.
    mutating func deliverToServer() -> [Received] {
        let stream = toServer.copiedBytes
        toServer.removeAll()
        return Self.deliver(stream, to: &server, &generator)
    }

    /// Delivers all bytes in transit to the client.
    mutating func deliverToClient() -> [Received] {
        let stream = toClient.copiedBytes
        toClient.removeAll()
        return Self.deliver(stream, to: &client, &generator)
    }

    private static func deliver(
        _ stream: [UInt8], to end: inout WebSocketConnection, _ generator: inout SeededGenerator
    ) -> [Received] {
        var rest = stream[...]
        var received: [Received] = []
        while !rest.isEmpty {
            let count = Int.random(in: 1...2000, using: &generator)
            received += feed(&end, Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return received
    }

    mutating func clientSends(_ opcode: WebSocketOpcode, _ payload: [UInt8], isFinal: Bool = true) {
        let mask = UInt32.random(in: 0...UInt32.max, using: &generator)
        payload.withUnsafeBytes {
            WebSocketFrame.write(
                opcode, payload: $0, isFinal: isFinal, mask: mask, into: &toServer)
        }
    }

    mutating func serverSends(_ opcode: WebSocketOpcode, _ payload: [UInt8]) {
        payload.withUnsafeBytes { WebSocketFrame.write(opcode, payload: $0, into: &toClient) }
    }
}

/// `#expect` cannot use a noncopyable value directly; an argument is evaluated first.
private func expect<Value: Equatable>(
    _ value: Value, _ expected: Value, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(value == expected, sourceLocation: sourceLocation)
}

@Suite struct WebSocketPairTests {
    @Test func echoesMessagesOfAllSizes() {
        var pair = Pair()
        for count in [0, 1, 125, 126, 127, 4096, 65535, 65536, 300_000] {
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            pair.clientSends(.binary, payload)
            guard case .binary(let echoed)? = pair.deliverToServer().first else {
                Issue.record("No message of \(count) bytes arrived.")
                return
            }
            pair.serverSends(.binary, echoed)
            expect(pair.deliverToClient(), [.binary(payload)])
        }
    }

    @Test func carriesFragmentsAndPings() {
        var pair = Pair()
        pair.clientSends(.text, bytes("frag"), isFinal: false)
        pair.clientSends(.ping, bytes("alive?"))
        pair.clientSends(.continuation, bytes("ments"))
        expect(pair.deliverToServer(), [.ping(bytes("alive?")), .text("fragments")])
        pair.serverSends(.pong, bytes("alive?"))
        expect(pair.deliverToClient(), [.pong(bytes("alive?"))])
    }

    @Test func theClientCloses() {
        var pair = Pair()
        pair.client.close(.goingAway, reason: "page left", mask: 7, into: &pair.toServer)
        expect(pair.clientState, .closing)
        expect(pair.serverState, .open)
        // A message in transit to the client still arrives.
        pair.serverSends(.text, bytes("late"))
        expect(pair.deliverToClient(), [.text("late")])
        expect(pair.deliverToServer(), [.close(1001, "page left")])
        expect(pair.serverState, .closing)
        pair.server.close(.goingAway, into: &pair.toClient)
        expect(pair.serverState, .closed)
        expect(pair.deliverToClient(), [.close(1001, "")])
        expect(pair.clientState, .closed)
    }

    @Test func theServerCloses() {
        var pair = Pair()
        pair.server.close(.serviceRestart, into: &pair.toClient)
        pair.clientSends(.text, bytes("still talking"))
        expect(pair.deliverToServer(), [.text("still talking")])
        expect(pair.deliverToClient(), [.close(1012, "")])
        pair.client.close(nil, mask: 1, into: &pair.toServer)
        expect(pair.deliverToServer(), [.close(nil, "")])
        expect(pair.clientState, .closed)
        expect(pair.serverState, .closed)
    }

    @Test func bothCloseAtOnce() {
        var pair = Pair()
        pair.client.close(.normalClosure, mask: 1, into: &pair.toServer)
        pair.server.close(.tryAgainLater, into: &pair.toClient)
        expect(pair.deliverToServer(), [.close(1000, "")])
        expect(pair.deliverToClient(), [.close(1013, "")])
        expect(pair.clientState, .closed)
        expect(pair.serverState, .closed)
    }

    @Test func closeIsWrittenOnce() {
        var pair = Pair()
        pair.server.close(.normalClosure, into: &pair.toClient)
        let size = pair.toClient.count
        pair.server.close(.internalError, into: &pair.toClient)
        expect(pair.bytesToClient, size)
        #expect(feed(&pair.server, [0xFF]) == [.failed(.reservedBitSet)])
        pair.server.close(.protocolError, into: &pair.toClient)
        expect(pair.bytesToClient, size)
        expect(pair.serverState, .closed)
    }

    @Test func aBrokenRuleIsReportedToThePeer() {
        var pair = Pair()
        pair.clientSends(.text, [0xC0])
        guard case .failed(let error)? = pair.deliverToServer().last else {
            Issue.record("The server took bad UTF-8.")
            return
        }
        pair.server.close(error.closeCode, reason: "bad text", into: &pair.toClient)
        expect(pair.serverState, .closed)
        expect(pair.deliverToClient(), [.close(1007, "bad text")])
    }

    @Test func aClientMustMaskItsClose() async {
        await #expect(processExitsWith: .failure) {
            var client = WebSocketConnection(role: .client)
            var writer = ByteWriter(capacity: 16)
            client.close(.normalClosure, into: &writer)
        }
        await #expect(processExitsWith: .failure) {
            var server = WebSocketConnection(role: .server)
            var writer = ByteWriter(capacity: 16)
            server.close(.normalClosure, mask: 1, into: &writer)
        }
    }
}
