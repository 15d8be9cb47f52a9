// Feeds whole connections to a real shard: HTTP, the upgrade, frames and events in one stream of
// bytes. The simulated kernel splits, delays and refuses; the peers stall, leave and come back.
//
// An input: a byte that chooses the server, and one for its seed. If the first byte says so, the
// rest is the stream of one connection, and the server's answers must not depend on how it is
// split. Otherwise the rest is a list of operations; see `Operation`.

import CLinux
import Codec
import Session

/// `connection_bytes`: the shard, from accept to close.
enum ConnectionBytesTarget: FuzzTarget {
    static let name = "connection_bytes"

    /// Enough peers to reach each other's limits, and few enough for a short run.
    private static let maxPeers = 6
    private static let maxOperations = 200

    /// Operations of an input. The byte after one is usually the peer's number.
    private enum Operation: UInt8, CaseIterable {
        case connect, upgrade, sendBytes, sendFrame, sendEvent, sendAudio, sendRequest, run
        case wait, read, setWindow, finishWriting, reset, failAccept, close, stop
        case connectFrom, sendProxyHeader, suspend, drain, sendCommand
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = ServerChoices(
            flags: Flags(rawValue: input.byte()), seed: UInt64(input.byte()))
        if choices.flags.contains(ServerChoices.isSingleStream) {
            checkSingleStream(&input, choices)
        } else {
            runOperations(&input, choices)
        }
    }

    // MARK: One stream

    private static func checkSingleStream(_ input: inout FuzzInput, _ choices: ServerChoices) {
        let chunking = Chunking(input.byte())
        let stream = input.rest()
        let whole = answers(to: [stream], choices)
        let cut = answers(to: chunking.pieces(of: stream), choices)
        guard !whole.dependsOnCut, !cut.dependsOnCut else { return }
        require(
            whole.received == cut.received,
            "whole: \(String(decoding: whole.received, as: UTF8.self))\n"
                + "in pieces: \(String(decoding: cut.received, as: UTF8.self))")
    }

    private static func answers(to pieces: [[UInt8]], _ choices: ServerChoices) -> FuzzedPeer {
        let server = FuzzedServer(choices)
        let peer = server.connect()
        server.run()
        for piece in pieces {
            peer.send(piece)
            server.run()
        }
        server.finish(politely: true)
        return peer
    }

    // MARK: Operations

    private static func runOperations(_ input: inout FuzzInput, _ choices: ServerChoices) {
        let server = FuzzedServer(choices)
        server.connect()
        var operations = 0
        while !input.isEmpty, operations < maxOperations {
            operations += 1
            let code = input.byte() % UInt8(Operation.allCases.count)
            guard let operation = Operation(rawValue: code) else { continue }
            switch operation {
            case .connect: if server.peers.count < maxPeers { server.connect() }
            case .run: server.run()
            case .wait: server.run(for: duration(input.byte()))
            case .failAccept: server.failAccept(accepts[Int(input.byte()) % accepts.count])
            case .stop: server.stop()
            case .drain: server.drain(after: duration(input.byte()))
            case .suspend: server.suspend(for: duration(input.byte()))
            case .connectFrom:
                let address = addresses[Int(input.byte()) % addresses.count]
                if server.peers.count < maxPeers { server.connect(from: address) }
            default:
                let peer = server.peers[Int(input.byte()) % server.peers.count]
                perform(operation, by: peer, of: server, &input)
            }
        }
        server.finish(politely: choices.seed % 2 == 0)
    }

    private static let waits = [1, 20, 100, 1_000, 5_000, 10_000, 25_000, 75_000]
    private static let addresses = ["203.0.113.7", "2001:db8::1", "2001:db8::2", "127.0.0.2"]
    private static let accepts = [EMFILE, ENFILE, ENOMEM, ECONNABORTED, EPROTO]

    private static func duration(_ choice: UInt8) -> Duration {
        .milliseconds(waits[Int(choice) % waits.count])
    }

    private static func perform(
        _ operation: Operation, by peer: FuzzedPeer, of server: FuzzedServer,
        _ input: inout FuzzInput
    ) {
        switch operation {
        case .upgrade:
            let request =
                switch input.byte() % 4 {
                case 1: HTTPSamples.upgrade(to: "/debug/echo")
                case 3: OperatorSamples.upgrade
                default: HTTPSamples.upgrade(to: "/v1/realtime?model=m")
                }
            peer.send(Array(request.utf8))
        case .sendBytes: peer.send(input.take(input.number() % 2_048))
        case .sendFrame: sendFrame(by: peer, &input)
        case .sendEvent:
            let events = EventSamples.all
            peer.send(.text, Array(events[Int(input.byte()) % events.count].text.utf8))
        case .sendCommand:
            let id = server.peers.lazy.compactMap(\.sessionID).last ?? "sess_none"
            let commands = OperatorSamples.all(naming: id)
            peer.send(.text, Array(commands[Int(input.byte()) % commands.count].text.utf8))
        case .sendAudio:
            peer.send(.binary, [UInt8](repeating: input.byte(), count: input.number() % 4_096))
        case .sendRequest:
            let requests = HTTPSamples.requests
            peer.send(Array(requests[Int(input.byte()) % requests.count].text.utf8))
        case .read: peer.read(atMost: input.number())
        case .setWindow: peer.setWindow(input.number())
        case .finishWriting: if !peer.hasFinished { peer.finishWriting() }
        case .reset: peer.reset()
        case .close: peer.send(.close, [3, 232])
        case .sendProxyHeader:
            let headers = HTTPSamples.proxyHeaders
            peer.send(headers[Int(input.byte()) % headers.count].bytes)
        case .connect, .connectFrom, .run, .wait, .failAccept, .suspend, .stop, .drain: break
        }
    }

    private static func sendFrame(by peer: FuzzedPeer, _ input: inout FuzzInput) {
        let kind = input.byte()
        let opcode = WebSocketOpcode(rawValue: kind & 0x0F) ?? .continuation
        let copies = kind & 0x40 == 0 ? 1 : 40
        let payload = [[UInt8]](repeating: input.take(Int(input.byte())), count: copies)
            .flatMap(\.self)
        switch kind & 0x30 {
        case 0x20: peer.sendCompressed(opcode, payload)
        case 0x30: peer.sendMarked(opcode, payload)
        default: peer.send(opcode, payload, isFinal: kind & 0x80 != 0)
        }
    }

    // MARK: Seeds

    static var seeds: [(name: String, bytes: [UInt8])] {
        let requests = HTTPSamples.requests.map { sample in
            ("stream-\(sample.name)", [0x82, 1, 7] + Array(sample.text.utf8))
        }
        let echoes = WebSocketSamples.streams.map { sample in
            (
                "echo-\(sample.name)",
                [0x82, 1, 7] + Array(HTTPSamples.upgrade(to: "/debug/echo").utf8)
                    + sample.bytes(mask: WebSocketSamples.mask)
            )
        }
        let events = EventSamples.all.map { sample in
            (
                "session-\(sample.name)",
                [0x80, 1, 7] + Array(HTTPSamples.upgrade(to: "/v1/realtime").utf8)
                    + WebSocketSamples.Stream(
                        name: "", frames: [(.text, true, Array(sample.text.utf8))]
                    ).bytes(mask: WebSocketSamples.mask)
            )
        }
        let commands = OperatorSamples.all(naming: "sess_a").map { sample in
            (
                "operator-\(sample.name)",
                [0x80, 1, 7] + Array(OperatorSamples.upgrade.utf8)
                    + WebSocketSamples.Stream(
                        name: "", frames: [(.text, true, Array(sample.text.utf8))]
                    ).bytes(mask: WebSocketSamples.mask)
            )
        }
        return requests + echoes + events + commands + operationSeeds
    }

    private static var operationSeeds: [(name: String, bytes: [UInt8])] {
        func code(_ operation: Operation, _ arguments: UInt8...) -> [UInt8] {
            [operation.rawValue] + arguments
        }
        let turn =
            code(.upgrade, 0, 0) + code(.run) + code(.sendEvent, 0, 11) + code(.sendEvent, 0, 10)
            + code(.sendEvent, 0, 8) + code(.run) + code(.wait, 2) + code(.read, 0, 255, 255)
        let echo =
            code(.upgrade, 0, 1) + code(.sendFrame, 0, 0xC2, 200)
            + [UInt8](repeating: 5, count: 200)
            + code(.run) + code(.read, 0, 1, 0) + code(.run) + code(.close, 0) + code(.run)
        let compressed =
            code(.upgrade, 0, 1) + code(.run) + code(.read, 0, 255, 255)
            + code(.sendFrame, 0, 0x62, 50) + [UInt8](repeating: 5, count: 50)
            + code(.sendFrame, 0, 0xB1, 2, 3, 0) + code(.run)
        let crowd =
            code(.connect) + code(.connect) + code(.connect) + code(.failAccept, 0)
            + code(.sendRequest, 1, 4) + code(.run) + code(.wait, 2) + code(.reset, 2)
            + code(.finishWriting, 1) + code(.run) + code(.stop) + code(.run) + code(.wait, 4)
        let stall =
            code(.setWindow, 0, 0, 100) + code(.sendRequest, 0, 1) + code(.sendRequest, 0, 2)
            + code(.run) + code(.wait, 5) + code(.read, 0, 0, 50) + code(.run)
        let audio =
            code(.upgrade, 0, 0) + code(.sendEvent, 0, 12) + code(.sendAudio, 0, 0x55, 8, 0)
            + code(.sendEvent, 0, 1) + code(.run) + code(.wait, 6) + code(.run)
        // The second connection watches the session of the first, and its turn, and closes it.
        let watched =
            code(.connect) + code(.upgrade, 0, 0) + code(.run) + code(.read, 0, 255, 255)
            + code(.upgrade, 1, 3) + code(.sendCommand, 1, 1) + code(.sendCommand, 1, 5)
            + code(.run) + code(.wait, 3) + code(.sendEvent, 0, 11) + code(.sendEvent, 0, 9)
            + code(.wait, 3) + code(.read, 1, 255, 255) + code(.sendCommand, 1, 7) + code(.run)
            + code(.wait, 3) + code(.setWindow, 1, 0, 0) + code(.wait, 5) + code(.drain, 0)
        let strangers =
            code(.connectFrom, 0) + code(.connectFrom, 0) + code(.connectFrom, 1)
            + code(.upgrade, 1, 0) + code(.sendFrame, 1, 0x89, 0) + code(.run) + code(.wait, 3)
        return [
            ("turn", [0, 1] + turn), ("turn-harsh", [1, 2] + turn),
            ("turn-small-limits", [4, 1] + turn), ("echo", [2, 2] + echo),
            ("compressed", [2, 2] + compressed), ("compressed-small-limits", [6, 2] + compressed),
            ("echo-harsh", [3, 3] + echo), ("crowd", [4, 2] + crowd), ("stall", [0, 2] + stall),
            ("audio", [0, 1] + audio), ("proxied", [16, 1] + code(.sendProxyHeader, 0, 0) + turn),
            ("few-handles", [32, 1] + crowd), ("strangers", [4, 2] + strangers),
            ("watched", [0, 1] + watched), ("watched-harsh", [1, 2] + watched),
            ("watched-small-limits", [4, 1] + watched),
            ("drained", [0, 1] + turn + code(.drain, 3) + code(.suspend, 4) + code(.wait, 7)),
        ]
    }
}
