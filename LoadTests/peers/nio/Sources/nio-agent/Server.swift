// An agent session server on SwiftNIO, written like swift-nio's example NIOWebSocketServer. It has the
// typed upgrade pipeline, and a NIOAsyncChannel and a task per connection. The shared event loop group
// has a thread per available core. NIOWebSocketFrameAggregator assembles messages.
//
// Serves the part of the Realtime protocol that the claims need (Session.swift), and /echo.
//
// nio-agent PORT MODEL_URL

import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket

typealias WebSocketChannel = NIOAsyncChannel<WebSocketFrame, WebSocketFrame>

/// The result of an upgrade.
enum Upgrade {
    case webSocket(WebSocketChannel, uri: String)
    /// Plain HTTP, which this peer does not serve.
    case refused
}

@main
struct Server {
    let port: Int
    let model: ModelClient

    static func main() async throws {
        guard CommandLine.arguments.count == 3, let port = Int(CommandLine.arguments[1]) else {
            print("nio-agent PORT MODEL_URL")
            return
        }
        let server = Server(port: port, model: ModelClient(url: CommandLine.arguments[2]))
        try await server.run()
    }

    func run() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 65_535)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .bind(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture { try Server.configure(channel) }
            }
        try await withThrowingDiscardingTaskGroup { group in
            try await listener.executeThenClose { connections in
                for try await upgrade in connections {
                    group.addTask { await serve(upgrade) }
                }
            }
        }
    }

    private static func configure(_ channel: any Channel) throws -> EventLoopFuture<Upgrade> {
        let upgrader = NIOTypedWebSocketServerUpgrader<Upgrade>(
            shouldUpgrade: { channel, _ in
                channel.eventLoop.makeSucceededFuture(HTTPHeaders())
            },
            upgradePipelineHandler: { channel, head in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        NIOWebSocketFrameAggregator(
                            minNonFinalFragmentSize: 0, maxAccumulatedFrameCount: 64,
                            maxAccumulatedFrameSize: 1 << 20))
                    return .webSocket(
                        try WebSocketChannel(wrappingChannelSynchronously: channel), uri: head.uri)
                }
            })
        let configuration = NIOTypedHTTPServerUpgradeConfiguration(
            upgraders: [upgrader],
            notUpgradingCompletionHandler: { channel in
                channel.close().map { .refused }
            })
        return try channel.pipeline.syncOperations.configureUpgradableHTTPServerPipeline(
            configuration: .init(upgradeConfiguration: configuration))
    }

    private func serve(_ upgrade: EventLoopFuture<Upgrade>) async {
        // Errors are caught here: the end of one connection must not end the server.
        do {
            guard case .webSocket(let channel, let uri) = try await upgrade.get() else { return }
            try await channel.executeThenClose { inbound, outbound in
                if uri.hasPrefix("/echo") {
                    try await echo(inbound, outbound)
                } else {
                    try await Session(outbound: outbound, model: model, uri: uri).run(inbound)
                }
            }
        } catch {}
    }

    private func echo(
        _ inbound: NIOAsyncChannelInboundStream<WebSocketFrame>,
        _ outbound: NIOAsyncChannelOutboundWriter<WebSocketFrame>
    ) async throws {
        for try await frame in inbound {
            if frame.opcode == .connectionClose { return }
            try await outbound.write(
                WebSocketFrame(fin: true, opcode: frame.opcode, data: frame.unmaskedData))
        }
    }
}
