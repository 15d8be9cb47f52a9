// The whole server on real sockets: only what needs the kernel. Everything else runs on the
// simulated one. Waiting is `poll` on the socket, never a sleep.

import CLinux
import Codec
import Session
import Simulation
import Testing

@testable import Server

/// A socket whose connections are not accepted.
private struct ConnectionRefused: Error {}

/// A blocking client socket.
private final class LoopbackPeer {
    let descriptor: Int32

    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafeBytes(of: address) {
            connect(
                descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self),
                socklen_t($0.count))
        }
        guard result == 0 else { throw ConnectionRefused() }
    }

    deinit { close(descriptor) }

    func send(_ bytes: [UInt8]) {
        #expect(CLinux.send(descriptor, bytes, bytes.count, 0) == bytes.count)
    }

    /// The next bytes; none at the end.
    func receive() -> [UInt8] {
        var wait = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&wait, 1, HangGuard.milliseconds) == 1 else {
            Issue.record("no answer")
            return []
        }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return Array(buffer[..<max(0, count)])
    }

    func finishWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Everything up to the end.
    func receiveAll() -> [UInt8] {
        var all: [UInt8] = []
        while true {
            let piece = receive()
            if piece.isEmpty { return all }
            all += piece
        }
    }
}

@Suite struct LoopbackTests {
    @Test func servesOnRealSocketsAndStops() throws {
        let server = try startServer()
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        // Enough that both shards get some.
        for _ in 0..<20 {
            let peer = try LoopbackPeer(port: server.port)
            peer.send(Array(request.utf8))
            let (responses, rest) = try parseResponses(peer.receiveAll(), answering: [.get])
            #expect(responses.map(\.status) == [200] && rest.isEmpty)
        }
        server.stop()
        server.waitUntilStopped()
        #expect(throws: ConnectionRefused.self) { try LoopbackPeer(port: server.port) }
    }

    @Test func upgradesAndSaysGoodbye() throws {
        let server = try startServer()
        let peer = try LoopbackPeer(port: server.port)
        var request = ByteWriter(capacity: 512)
        let key = WebSocketHandshake.makeKey()
        WebSocketHandshake.writeRequest(
            target: "/v1/realtime", host: "localhost", key: key, into: &request)
        peer.send(request.copiedBytes)
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        try WebSocketHandshake.validate(try #require(responses.first), key: key)
        server.stop()
        // Events may come first; a Close with 1001 is the last frame.
        var received: [UInt8] = []
        while !received.contains([0x03, 0xE9]) {
            let piece = peer.receive()
            try #require(!piece.isEmpty)
            received += piece
        }
        peer.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE9])
        #expect(peer.receiveAll().isEmpty)
        peer.finishWriting()
        server.waitUntilStopped()
    }

    @Test func saysWhatToDoAboutATakenPort() throws {
        let server = try startServer()
        let port = server.port
        #expect(throws: ServerError.portInUse(host: "127.0.0.1", port: port)) {
            _ = try startServer { $0.listener.port = port }
        }
        #expect("\(ServerError.portInUse(host: "h", port: 1))".contains("--port"))
        let other = try startServer {
            $0.listener.port = port
            $0.listener.sharesPort = true
        }
        #expect(other.port == port)
        for each in [server, other] {
            each.stop()
            each.waitUntilStopped()
        }
    }

    @Test(arguments: ["no.such.host.invalid", "203.0.113.1"])
    func refusesAHostThatIsNotHere(host: String) throws {
        #expect(throws: ServerError.unknownHost(host)) {
            _ = try startServer {
                $0.listener.host = host
                $0.credentials.insecure = true
            }
        }
    }

    @Test func refusesSettingsOutOfRange() throws {
        for change in [
            { $0.listener.port = 70_000 }, { $0.shards = 0 }, { $0.loop.readBufferBytes = 1 },
        ] as [(inout ServerConfiguration) -> Void] {
            #expect(throws: ServerError.self) { _ = try startServer(change) }
        }
    }

    @Test func raisesTheLimitOfOpenFiles() throws {
        var limit = try #require(DescriptorLimit.current)
        let hard = limit.rlim_max
        // One below what is allowed takes nothing away from the tests beside this one.
        limit.rlim_cur = hard - 1
        #expect(DescriptorLimit.set(limit))
        let server = try startServer()
        #expect(DescriptorLimit.current?.rlim_cur == hard)
        server.stop()
        server.waitUntilStopped()
    }

    @Test func saysWhenTheLimitOfOpenFilesIsTooLow() throws {
        #expect(DescriptorLimit.suffices(20_064, maxConnections: 20_000))
        #expect(!DescriptorLimit.suffices(20_063, maxConnections: 20_000))
        for (hard, connections) in [
            (1_024, 960), (20_064, 20_000), (rlim_t.max, 20_000), (100, 50), (10, 5), (1, 1),
        ] as [(rlim_t, Int)] {
            #expect(DescriptorLimit.connections(atMost: 20_000, hardLimit: hard) == connections)
        }
        let log = LogRecord()
        let warned = { log.lines.filter { $0.contains("warning fewer files may be open") }.count }
        for (connections, count) in [(nil, 0), (1, 0), (10_000_000, 1)] as [(Int?, Int)] {
            let server = try startServer(log: log) {
                $0.admission.maxConnections = connections ?? $0.admission.maxConnections
            }
            #expect(warned() == count)
            server.stop()
            server.waitUntilStopped()
        }
    }

    /// Accepts from a listener of the server's own making, of one family.
    private func acceptOne(
        host: String, timeout: Duration, connect: (Int) throws -> LoopbackPeer
    ) throws -> (handle: IOHandle, peer: NetworkAddress) {
        var settings = ListenerSettings()
        settings.host = host
        settings.unacknowledgedTimeout = timeout
        let address = try ListeningSocket.resolve(settings)
        let socket = try ListeningSocket(address, port: 0, settings)
        let client = try connect(socket.port)
        let listener = socket.release()
        defer { close(listener) }
        let io = try EpollIO()
        let token = EventToken(.listener, index: 0, generation: 0)
        #expect(io.watch(listener, for: .reads, token: token, isNew: true) == 0)
        #expect(io.wait(until: io.now + HangGuard.duration, atMost: 64) == 1)
        var peer = NetworkAddress.unspecified
        guard case .done(let handle) = io.accept(from: listener, peer: &peer) else {
            throw ConnectionRefused()
        }
        _ = client
        return (IOHandle(handle), peer)
    }

    private func option(_ name: Int32, of handle: IOHandle) -> Int32 {
        var value: Int32 = -1
        var size = socklen_t(MemoryLayout<Int32>.size)
        #expect(getsockopt(handle, Int32(IPPROTO_TCP), name, &value, &size) == 0)
        return value
    }

    @Test func acceptedConnectionsHaveTheListenersOptions() throws {
        for timeout in [Duration.seconds(30), .milliseconds(1_234), .zero] {
            let accepted = try acceptOne(host: "127.0.0.1", timeout: timeout) {
                try LoopbackPeer(port: $0)
            }
            defer { close(accepted.handle) }
            let milliseconds = Int32(timeout.wholeMilliseconds)
            #expect(option(TCP_USER_TIMEOUT, of: accepted.handle) == milliseconds)
            #expect(option(TCP_NODELAY, of: accepted.handle) == 1)
        }
    }

    @Test(arguments: ["127.0.0.1", "::"])
    func tellsThePeersAddressWhateverTheListenersFamily(host: String) throws {
        let accepted = try acceptOne(host: host, timeout: .seconds(1)) {
            try LoopbackPeer(port: $0)
        }
        defer { close(accepted.handle) }
        #expect(accepted.peer == NetworkAddress("127.0.0.1"))
    }

    @Test func limitsOneAddressOverAllShards() throws {
        let server = try startServer {
            $0.admission.unlimitedAddresses = []
            $0.admission.maxConnectionsPerAddress = 8
        }
        let request = Array("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        var statuses: [Int] = []
        var peers: [LoopbackPeer] = []
        for _ in 0..<24 {
            let peer = try LoopbackPeer(port: server.port)
            peer.send(request)
            let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
            statuses.append(try #require(responses.first).status)
            peers.append(peer)
        }
        #expect(statuses == Array(repeating: 200, count: 8) + Array(repeating: 429, count: 16))
        server.stop()
        server.waitUntilStopped()
    }

    @Test func wakesAWaitFromAnotherThread() throws {
        let io = try EpollIO()
        io.wake()
        // Without a deadline, only the wake-up ends this.
        #expect(io.wait(until: nil, atMost: 64) == 0)
        let before = io.now
        #expect(io.wait(until: before + .milliseconds(5), atMost: 64) == 0)
        #expect(io.now >= before + .milliseconds(5), "a wait never ends before its deadline")
    }
}
