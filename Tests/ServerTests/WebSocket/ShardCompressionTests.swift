// permessage-deflate through a real shard on a simulated kernel: what is agreed on, what is sent
// compressed, what contexts cost and when they are given back, and what bombs cannot do.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardCompressionTests {
    private static let offer: PerMessageDeflateOffer = {
        var offer = PerMessageDeflateOffer()
        offer.letsLimitClientWindow = true
        return offer
    }()

    private static func configuration(
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) -> ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        configuration.compression.maxContextBytes = 0
        change(&configuration)
        return configuration
    }

    private static let prose = Array(String(repeating: "Ein Satz über Äpfel. ", count: 200).utf8)

    /// An echo with a client that offered compression.
    private func openEcho(
        _ configuration: ServerConfiguration = configuration(), seed: UInt64 = 1,
        faults: SimulatedFaults = SimulatedFaults()
    ) throws -> (SimulatedServer, SimulatedClient) {
        let server = try SimulatedServer(configuration: configuration, seed: seed, faults: faults)
        let client = server.openClient("/debug/echo", subprotocols: [], offer: Self.offer)
        #expect(server.run())
        try #require(client.agreement != nil)
        return (server, client)
    }

    // MARK: The handshake

    @Test func agreesOnMessagesThatStandAlone() throws {
        let (_, client) = try openEcho()
        #expect(
            client.answer?.fields["Sec-WebSocket-Extensions"]
                == "permessage-deflate; server_no_context_takeover; client_no_context_takeover")
    }

    @Test func agreesOnContextsWhereThereIsMemoryForThem() throws {
        let (server, client) = try openEcho(
            Self.configuration { $0.compression.maxContextBytes = 1 << 20 })
        #expect(
            client.answer?.fields["Sec-WebSocket-Extensions"]
                == "permessage-deflate; client_max_window_bits=12")
        #expect(
            server.metrics.total(of: .compressionContextBytes)
                == MessageDeflater.heldBytes(windowBits: 12)
                + MessageInflater.heldBytes(windowBits: 12))
    }

    @Test func declinesWhenItIsOff() throws {
        let server = try SimulatedServer(
            configuration: Self.configuration { $0.compression.isOn = false })
        let client = server.openClient("/debug/echo", subprotocols: [], offer: Self.offer)
        #expect(server.run())
        #expect(client.isOpen && client.agreement == nil)
        #expect(client.answer?.fields["Sec-WebSocket-Extensions"] == nil)
        client.peer.send([0xC1, 0x80, 0, 0, 0, 0])
        #expect(server.run())
        #expect(client.closeCode == 1002)
    }

    @Test func failsAHandshakeWhoseExtensionsAreNoList() throws {
        let server = try SimulatedServer(configuration: Self.configuration())
        let peer = server.connect()
        peer.send(
            "GET /debug/echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                + "Connection: Upgrade\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Extensions: permessage-deflate; =\r\n\r\n")
        #expect(server.run())
        #expect(String(decoding: peer.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 400 "))
    }

    // MARK: Messages

    @Test func echoesMessagesAsTheyCame() throws {
        for seed in UInt64(0)..<10 {
            for contextBytes in [0, 1 << 20] {
                let (server, client) = try openEcho(
                    Self.configuration { $0.compression.maxContextBytes = contextBytes },
                    seed: seed, faults: .harsh)
                for _ in 0..<3 {
                    client.sendCompressed(.text, Self.prose)
                    client.send(.text, Self.prose)
                    client.sendCompressed(.binary, Self.prose)
                    client.sendCompressed(.text, [])
                }
                #expect(server.run())
                let text = ReceivedMessage.text(String(decoding: Self.prose, as: UTF8.self))
                let round = [text, text, .binary(Self.prose), .text("")]
                #expect(client.messages == round + round + round)
                // A message that does not shrink is sent back uncompressed.
                #expect(client.compressedCount == 6)
                #expect(server.metrics.total(of: .inflatedBytesIn) == 6 * Self.prose.count)
                #expect(
                    server.metrics.total(of: .deflatedBytesOut)
                        < server.metrics.total(of: .inflatedBytesOut) / 5)
            }
        }
    }

    @Test func compressesLargeEventsAndNothingElse() throws {
        let server = try SimulatedServer(
            configuration: Self.configuration { $0.compression.minBytes = 1000 })
        let client = server.openClient(offer: Self.offer)
        #expect(server.run())
        #expect(client.eventTypes == ["session.created"] && client.compressedCount == 0)
        let instructions = String(repeating: "Be brief. ", count: 200)
        let update =
            #"{"type":"session.update","session":{"type":"realtime","instructions":"#
            + #""\#(instructions)"}}"#
        client.sendCompressed(.text, Array(update.utf8))
        #expect(server.run())
        #expect(client.eventTypes == ["session.created", "session.updated"])
        #expect(client.compressedCount == 1)
        client.send(#"{"type":"input_audio_buffer.clear"}"#)
        #expect(server.run())
        #expect(client.eventTypes.last == "input_audio_buffer.cleared")
        #expect(client.compressedCount == 1)
    }

    @Test func compressesSmallEventsWhereTheyReferToEarlierOnes() throws {
        let server = try SimulatedServer(
            configuration: Self.configuration { $0.compression.maxContextBytes = 1 << 20 })
        let client = server.openClient(offer: Self.offer)
        #expect(server.run())
        let item =
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
            + #""content":[{"type":"input_text","text":"Hello"}]}}"#
        for _ in 0..<20 { client.send(item) }
        #expect(server.run())
        #expect(client.eventTypes.count == 41 && client.compressedCount == 41)
        #expect(
            server.metrics.total(of: .deflatedBytesOut)
                < server.metrics.total(of: .inflatedBytesOut) / 3)
    }

    // MARK: Contexts

    @Test func theBudgetCountsEachConnectionUntilItEnds() throws {
        let cost =
            MessageDeflater.heldBytes(windowBits: 12) + MessageInflater.heldBytes(windowBits: 12)
        let server = try SimulatedServer(
            configuration: Self.configuration { $0.compression.maxContextBytes = 2 * cost + 1000 })
        let clients = (0..<4).map { _ in
            server.openClient("/debug/echo", subprotocols: [], offer: Self.offer)
        }
        #expect(server.run())
        let keepContexts = clients.map { $0.agreement?.serverKeepsContext }
        #expect(keepContexts == [true, true, false, false])
        #expect(server.metrics.total(of: .compressionContextBytes) == 2 * cost)
        for client in clients { client.sendCompressed(.text, Self.prose) }
        #expect(server.run())
        for client in clients {
            #expect(client.texts == [String(decoding: Self.prose, as: UTF8.self)])
        }
        clients[0].peer.reset()
        clients[1].close()
        #expect(server.run())
        #expect(server.metrics.total(of: .compressionContextBytes) == 0)
        let next = server.openClient("/debug/echo", subprotocols: [], offer: Self.offer)
        #expect(server.run())
        #expect(next.agreement?.serverKeepsContext == true)
    }

    @Test func aClientThatForgetsCostsOneContextOnly() throws {
        var offer = Self.offer
        offer.clientForgets = true
        let server = try SimulatedServer(
            configuration: Self.configuration { $0.compression.maxContextBytes = 1 << 20 })
        _ = server.openClient("/debug/echo", subprotocols: [], offer: offer)
        #expect(server.run())
        #expect(
            server.metrics.total(of: .compressionContextBytes)
                == MessageDeflater.heldBytes(windowBits: 12))
        // Where both forget, there is nothing to charge.
        offer.serverForgets = true
        let other = server.openClient("/debug/echo", subprotocols: [], offer: offer)
        #expect(server.run())
        #expect(other.agreement?.serverKeepsContext == false)
        #expect(
            server.metrics.total(of: .compressionContextBytes)
                == MessageDeflater.heldBytes(windowBits: 12))
    }

    // MARK: Attacks

    @Test(arguments: [(true, 1009), (false, 1009)] as [(Bool, UInt16)])
    func bombsCloseTheConnectionAndNothingElse(isText: Bool, code: UInt16) throws {
        let (server, client) = try openEcho()
        let other = server.openClient("/debug/echo", subprotocols: [], offer: Self.offer)
        #expect(server.run())
        client.sendCompressed(isText ? .text : .binary, [UInt8](repeating: 48, count: 8 << 20))
        other.sendCompressed(.text, Self.prose)
        #expect(server.run())
        #expect(client.closeCode == code)
        #expect(other.texts.count == 1 && other.closeCode == nil)
        #expect(
            server.shard.fixtures.compression.inflated.capacity <= ShardCompression.keptBufferBytes
        )
        #expect(server.metrics.total(of: .protocolErrors) == 1)
    }

    @Test(arguments: [([0x06], 1007), ([0x4A, 0xFC, 0x0F, 0x00], 1007)] as [([UInt8], UInt16)])
    func corruptMessagesCloseWithACode(payload: [UInt8], code: UInt16) throws {
        let (server, client) = try openEcho()
        client.peer.send([0xC1, 0x80 | UInt8(payload.count), 0, 0, 0, 0] + payload)
        #expect(server.run())
        #expect(client.closeCode == code && !client.peer.isReset)
        #expect(server.run(for: .seconds(6)))
        #expect(server.io.openHandles == 0)
    }

    /// Inflated bytes count: small messages that become large do not fill a tick.
    @Test func inflatingTakesItsShareOfATurn() throws {
        let (server, client) = try openEcho()
        let megabyte = [UInt8](repeating: 48, count: 250_000)
        for _ in 0..<40 { client.sendCompressed(.text, megabyte) }
        let waits = server.io.waits
        #expect(server.run())
        #expect(client.texts.count == 40)
        // 16 shares each: four of them fill the 64 of a tick.
        #expect(server.io.waits - waits >= 10)
    }

    @Test func memoryOfLargeMessagesIsGivenBack() throws {
        let (server, client) = try openEcho(
            Self.configuration { $0.compression.maxInflationRatio = 2000 })
        client.sendCompressed(.binary, [UInt8](repeating: 7, count: 4 << 20))
        #expect(server.run())
        #expect(client.messages == [.binary([UInt8](repeating: 7, count: 4 << 20))])
        #expect(server.shard.fixtures.compression.heldBytes < 300_000)
    }
}
