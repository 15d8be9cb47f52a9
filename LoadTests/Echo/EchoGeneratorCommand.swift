// The generator as a process of its own, one for each peer, so that 5,000 connections to each of
// seven peers can be open at once (a process has 20,000 descriptors). The benchmark starts it, pins
// it to a core, and sends it a line of text for each slice.

import ArgumentParser
import CLinux
import Foundation

/// An order of the benchmark to a generator, sent as a line of JSON.
struct SliceOrder: Codable {
    /// The kind of load.
    enum Kind: String, Codable {
        /// Messages of `bytes` bytes, `depth` at once.
        case echo
        /// Connections opened and closed.
        case handshake
        /// The same over TLS 1.3: with keys and certificate, or resumed with a ticket.
        case fullTLS, resumedTLS

        /// Its name in reports.
        var title: String {
            switch self {
            case .echo: "echo"
            case .handshake: "plain"
            case .fullTLS: "TLS 1.3, full"
            case .resumedTLS: "TLS 1.3, resumed"
            }
        }
    }

    var kind: Kind
    var bytes = 0
    var depth = 1
    /// Milliseconds of the warm-up, and of the measured part after it.
    var warmUp: Int
    var length: Int
}

/// An answer of the generator, sent as a line of JSON.
enum GeneratorLine: Codable {
    /// The connections are open.
    case ready
    case done(SliceResult)
    case failed(String)
}

/// The loops of one generator's handshakes.
private struct Handshakes {
    let plain: HandshakeLoop
    let full: HandshakeLoop
    let resumed: HandshakeLoop
}

/// `parley-load echo-generator`: started by the benchmark.
struct EchoGeneratorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "echo-generator", abstract: "The generator of `parley-load echo`.",
        shouldDisplay: false)

    @Option(help: "The peer's port.") var port: UInt16
    @Option(help: "The peer's process.") var process: Int32
    @Option(help: "The WebSocket's path; without, the peer is raw.") var path: String?
    @Flag(help: "The peer answers requests with 200.") var http = false
    @Option(help: "Connections for echoes.") var connections: Int

    func run() throws {
        let wire = http ? .http : path.map { EchoWire.webSocket(path: $0) } ?? .raw
        let target = EchoTarget(wire: wire, port: port, process: process)
        do throws(LoadFailure) {
            let echoes = try EchoLoop(to: target, connections: connections)
            let handshakes = try Handshakes(
                plain: HandshakeLoop(to: target), full: HandshakeLoop(to: target, .full),
                resumed: HandshakeLoop(to: target, .resumed))
            say(.ready)
            while let line = readLine() {
                guard let order = try? JSONDecoder().decode(SliceOrder.self, from: Data(line.utf8))
                else { throw LoadFailure("the generator was given no order: \(line)") }
                say(.done(try run(order, echoes, handshakes, wire)))
            }
        } catch {
            say(.failed(error.reason))
        }
    }

    private func run(
        _ order: SliceOrder, _ echoes: EchoLoop, _ handshakes: Handshakes, _ wire: EchoWire
    ) throws(LoadFailure) -> SliceResult {
        switch order.kind {
        case .echo:
            let exchange = EchoExchange(
                wire: wire, payloadBytes: order.bytes, depth: order.depth)
            return try echoes.run(exchange, warmUp: order.warmUp, length: order.length)
        case .handshake: return try run(handshakes.plain, order)
        case .fullTLS: return try run(handshakes.full, order)
        case .resumedTLS: return try run(handshakes.resumed, order)
        }
    }

    private func run(
        _ loop: HandshakeLoop, _ order: SliceOrder
    ) throws(LoadFailure) -> SliceResult {
        try loop.run(warmUp: order.warmUp, length: order.length)
    }

    private func say(_ line: GeneratorLine) {
        guard var bytes = try? JSONEncoder().encode(line) else { return }
        bytes.append(UInt8(ascii: "\n"))
        _ = bytes.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
    }
}
