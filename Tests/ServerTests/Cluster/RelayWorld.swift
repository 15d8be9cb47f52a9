// Two nodes on simulated kernels and the network between them: questions are answered at once, and
// relays are pipes whose other end is a simulated peer of the far node.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// The far end is gone.
struct NetworkDown: Error {}

/// A relay's connection to the far node.
final class Pipe: RelayStream {
    var state = OutgoingSocket.State.open
    var deadline: Instant? { nil }
    var isReading = true
    /// Bytes that it still takes.
    var room = Int.max
    /// Whether the far node has died.
    var isCut = false
    /// Bytes that come before those of the far node.
    var noise: [UInt8] = []
    private(set) var isClosed = false
    let peer: SimulatedPeer

    init(_ peer: SimulatedPeer) { self.peer = peer }

    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {}
    func handleTimer() {}

    func receive(into buffer: UnsafeMutableRawBufferPointer) -> OutgoingSocket.Received {
        let bytes = noise.isEmpty ? peer.receive(atMost: buffer.count) : noise
        noise = []
        buffer.copyBytes(from: bytes)
        if !bytes.isEmpty { return .bytes(bytes.count) }
        return isCut || peer.isEnded ? .lost("it has closed the connection") : .nothing
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int? {
        guard !isCut, !peer.isEnded else { return nil }
        let count = min(room, bytes.count)
        room -= count
        peer.send(Array(bytes.prefix(count)))
        return count
    }

    func close() {
        isClosed = true
        if !peer.isEnded { peer.finishWriting() }
    }
}

/// The way from the near node to the far one.
final class NodeNetwork: UpstreamClient, @unchecked Sendable {
    final class Answer: UpstreamResponse, @unchecked Sendable {
        let status: Int
        private var body: [UInt8]?

        init(_ response: HTTPResponse) { (status, body) = (response.status, response.body) }

        func nextChunk() async throws -> [UInt8]? { body.take() }
    }

    weak var far: SimulatedServer?
    var isDown = false
    /// What was asked.
    private(set) var paths: [String] = []
    private(set) var pipes: [Pipe] = []
    /// Changes a pipe before it is used.
    var change: (Pipe) -> Void = { _ in }

    func send(
        _ request: UpstreamRequest, for owner: EventToken?
    ) async throws -> any UpstreamResponse {
        let path = request.url.dropFirst(RelayWorld.farURL.count)
        paths.append(String(path))
        guard !isDown, let far else { throw NetworkDown() }
        let peer = far.connect(from: "192.0.2.1")
        let fields = request.headers.map { "\($0.name): \($0.value)\r\n" }.joined()
        peer.send("\(request.method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
        far.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        peer.finishWriting()
        guard let response = responses.first else { throw NetworkDown() }
        return Answer(response)
    }

    func connect() -> Pipe? {
        guard let far else { return nil }
        let pipe = Pipe(far.connect(from: "192.0.2.1"))
        change(pipe)
        pipes.append(pipe)
        return pipe
    }

    func heldBytes(of owner: EventToken) -> Int { 0 }
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {}
    func handleTimer() {}
    func shutdown() {}
}

/// A node that clients ask, and one that has what they want.
final class RelayWorld {
    static let key = "sk-app-0123456789abcdef"
    static let otherKey = "sk-other-0123456789abcdef"
    static let farURL = "http://localhost:8080"

    let near: SimulatedServer
    let far: SimulatedServer
    let network = NodeNetwork()

    init(
        model: ClosureModel = ClosureModel(words: ["Hello."]),
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        change(&configuration)
        var keys = APIKeys()
        let text = "\(Self.key)\n\(Self.otherKey)\n"
        try keys.add(ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        let credentials = CredentialRules(keys: keys)
        let records = ["near", "far"].map {
            NodeRecord(name: $0, url: Self.farURL, started: 0, sessions: 0)
        }
        func directory(_ name: String) -> NodeDirectory {
            let directory = NodeDirectory(name: name)
            directory.replace(records, secret: [UInt8](repeating: 7, count: 32))
            return directory
        }
        let agents = AgentSet(model: model)
        far = try SimulatedServer(
            configuration: configuration, agents: agents, seed: 1, credentials: credentials
        ) { $0.nodes = directory("far") }
        near = try SimulatedServer(
            configuration: configuration, agents: agents, seed: 2, credentials: credentials
        ) { [network] in
            $0.nodes = directory("near")
            $0.makeUpstream = { _, _ in network }
        }
        network.far = far
        near.shard.upstreams.relays.connect = { [network] _ in
            network.connect() ?? Pipe(network.pipes[0].peer)
        }
    }

    /// The newest relay's connection.
    var pipe: Pipe {
        get throws { try #require(network.pipes.last) }
    }

    /// Runs both nodes until neither has anything to do.
    func run(for duration: Duration = .zero) {
        #expect(near.run(for: duration))
        #expect(far.run(for: duration))
        for _ in 0..<6 {
            pump()
            #expect(near.run())
            #expect(far.run())
        }
    }

    /// Reports what an event loop would.
    private func pump() {
        var relaying: [Connection] = []
        near.shard.connections.forEach { connection in
            guard let pipe = connection.http?.relay?.stream as? Pipe else { return }
            if pipe.isReading || pipe.room > 0 && connection.http?.pending.isEmpty == false {
                relaying.append(connection)
            }
        }
        for connection in relaying { near.shard.continueRelay(on: connection) }
    }

    /// A client with a session of text at the far node, and the session's id.
    func openSession(key: String = RelayWorld.key) throws -> (SimulatedClient, id: String) {
        let client = far.openClient(key: key)
        run()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["text"]}}"#)
        run()
        let created = try JSONParser().parse(try #require(client.texts.first))
        return (client, try #require(created["session"]?["id"]?.string))
    }

    /// A sideband at the near node.
    func join(_ id: String, tools: String? = nil, key: String? = key) -> SimulatedClient {
        let query = tools.map { "&tools=\($0)" } ?? ""
        let sideband = near.openClient("/v1/realtime?call_id=\(id)\(query)", key: key)
        run()
        return sideband
    }

    /// Sends a request to a node.
    func send(
        _ method: String = "GET", _ path: String, _ body: String = "", key: String = key,
        fields: String = "", to server: SimulatedServer? = nil, window: Int = 1 << 20
    ) -> SimulatedPeer {
        let peer = (server ?? near).connect(window: window)
        peer.send(
            "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(key)\r\n"
                + "\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        run()
        return peer
    }

    /// Asks for a reply of a chat at the far node.
    func chat(_ id: String, key: String = key) -> SimulatedPeer {
        send(
            "POST", "/api/chat",
            #"{"id":"\#(id)","trigger":"submit-message","messages":[{"id":"m1","role":"user","#
                + #""parts":[{"type":"text","text":"hi"}]}]}"#, key: key, to: far)
    }
}
