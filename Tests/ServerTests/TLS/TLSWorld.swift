// The setting of the tests of TLS: a server with a certificate, clients, and the loop between them.

import COpenSSL
import Codec
import Session
import Simulation

@testable import Server

/// The versions of TLS.
let tlsVersions = [TLS1_2_VERSION, TLS1_3_VERSION]

/// A simulated server with TLS, and its authority.
struct TLSWorld {
    let authority: TestAuthority
    let certificate: TestCertificate
    let tickets: TLSTicketKeys
    let server: SimulatedServer
    let log: LogRecord

    /// Starts a server with an echo.
    /// - Parameter stapleLifetime: seconds for which an OCSP response is stapled; nil: none is.
    init(
        seed: UInt64 = 1, faults: SimulatedFaults = SimulatedFaults(),
        authority: TestAuthority = TestAuthority(), clientCA: TestAuthority? = nil,
        clients: TLSClientAuthentication = .required,
        stapleLifetime: Int? = nil,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        change(&configuration)
        self.authority = authority
        certificate = authority.issue()
        tickets = TLSTicketKeys(
            period: configuration.tls.ticketPeriod, at: Instant(nanoseconds: 0))
        log = LogRecord()
        let ocsp = stapleLifetime.map { [authority, certificate] lifetime in
            authority.ocspResponse(about: certificate, lifetime: lifetime)
        }
        let context = try TLSContext(
            certificate.material(clientCA: clientCA, ocsp: ocsp),
            clients: clients, tickets: tickets, at: Instant(nanoseconds: 0))
        server = try SimulatedServer(
            configuration: configuration, seed: seed, faults: faults, log: log, tls: context)
    }

    /// A client whose handshake has not begun.
    func connect(
        window: Int = 1 << 20, _ change: (inout TLSClientOptions) -> Void = { _ in }
    ) -> SimulatedTLSClient {
        var options = TLSClientOptions()
        change(&options)
        return SimulatedTLSClient(server.connect(window: window), options)
    }

    /// Lets both sides talk until both are idle.
    func settle(_ clients: SimulatedTLSClient...) { settle(clients) }

    /// Lets both sides talk until both are idle.
    func settle(_ clients: [SimulatedTLSClient]) {
        for _ in 0..<20_000 {
            for client in clients { client.poll() }
            server.run()
            if clients.allSatisfy({ $0.peer.unreadBytes == 0 }) && !server.io.hasWork { return }
        }
        preconditionFailure("client and server never come to rest")
    }

    /// Handshake and upgrade to the echo.
    func openEcho(_ client: SimulatedTLSClient) throws {
        var request = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: "/debug/echo", host: "localhost", key: "dGhlIHNhbXBsZSBub25jZQ==",
            into: &request)
        settle(client)
        client.send(request.copiedBytes)
        settle(client)
        let head = String(decoding: client.received, as: UTF8.self)
        guard head.hasPrefix("HTTP/1.1 101"), head.hasSuffix("\r\n\r\n") else {
            throw UnexpectedAnswer(text: head)
        }
        client.received = []
    }

    /// An answer with which a test cannot go on.
    struct UnexpectedAnswer: Error {
        let text: String
    }
}

extension SimulatedTLSClient {
    /// Sends a masked message in one frame.
    func sendMessage(_ payload: [UInt8]) {
        var frame = ByteWriter(capacity: payload.count + 16)
        payload.withUnsafeBytes {
            WebSocketFrame.write(.binary, payload: $0, mask: 0x1234_5678, into: &frame)
        }
        send(frame.copiedBytes)
    }

    /// Takes the whole messages that have come.
    func takeMessages() -> [[UInt8]] {
        var messages: [[UInt8]] = []
        var webSocket = WebSocketConnection(role: .client)
        received.withUnsafeMutableBytes { bytes in
            var rest = bytes
            while case .binary(let payload)? = try? webSocket.next(&rest) {
                messages.append(Array(payload))
            }
        }
        received = []
        return messages
    }
}

/// A request of the smallest resource.
let healthRequest = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
