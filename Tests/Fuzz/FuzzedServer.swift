// A real shard on the simulated kernel, driven by operations. After every run it must be idle, and
// nothing of a closed connection may be left.

import CLinux
import Codec
import Server
import Session
import Simulation

/// A model that answers with words, at a pace that the question determines, or fails.
private struct FuzzedModel: LanguageModel {
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let choice = request.messages.count + request.instructions.utf8.count
        for word in 0..<(choice % 7) {
            if choice % 3 == 0 { try await host.sleep(for: .milliseconds(10 * word + 1)) }
            try await reply(.text("word \"\(word)\" "))
        }
        if choice % 5 == 1 {
            try await reply(.functionCallStarted(callID: "c\(choice)", name: "f"))
            try await reply(.functionCallArguments("{}"))
        }
        if choice % 11 == 10 { throw AgentError.overloaded }
    }
}

/// The server settings that an input chooses.
struct ServerChoices {
    private static let isHarshFlag = Flags.bit(0)
    private static let hasEcho = Flags.bit(1)
    private static let hasSmallLimits = Flags.bit(2)
    private static let isSilent = Flags.bit(3)
    private static let isBehindProxy = Flags.bit(4)
    private static let hasFewDescriptors = Flags.bit(5)
    /// The input is the stream of one connection.
    static let isSingleStream = Flags.bit(7)

    let flags: Flags
    let seed: UInt64

    var servesEcho: Bool { flags.contains(Self.hasEcho) }

    fileprivate var hasFewHandles: Bool { flags.contains(Self.hasFewDescriptors) }

    var isHarsh: Bool { flags.contains(Self.isHarshFlag) }

    fileprivate var faults: SimulatedFaults { isHarsh ? .harsh : SimulatedFaults() }

    fileprivate var model: any LanguageModel {
        flags.contains(Self.isSilent) ? SilentModel() : FuzzedModel()
    }

    /// The smallest limits that an operator may set, where that brings them within reach.
    fileprivate var configuration: ServerConfiguration {
        var configuration = ServerConfiguration()
        configuration.debugEcho = servesEcho
        if flags.contains(Self.isBehindProxy) {
            configuration.admission.trustedProxies = AddressRange.loopback
            configuration.admission.proxyProtocol = .required
        }
        guard flags.contains(Self.hasSmallLimits) else { return configuration }
        configuration.admission.maxConnections = 3
        configuration.admission.maxSessions = 2
        configuration.connection.http.maxStartLineBytes = 256
        configuration.connection.http.maxHeaderBytes = 1_024
        configuration.connection.http.maxHeaderFields = 12
        configuration.connection.webSocket.maxMessageBytes = 1_024
        configuration.connection.webSocket.maxFramesPerMessage = 4
        configuration.connection.maxQueuedOutputBytes = 64 << 10
        configuration.connection.softQueuedOutputBytes = 4_096
        configuration.loop.maxWriteBytesPerTick = 1_024
        configuration.loop.readBufferBytes = 4_096
        configuration.loop.maxMessagesPerTick = 2
        configuration.loop.maxAcceptsPerTick = 1
        configuration.compression.minBytes = 1
        configuration.compression.contextMinBytes = 1
        configuration.compression.maxContextBytes = 80_000
        configuration.connection.slowReaderTimeout = .milliseconds(500)
        configuration.connection.webSocket.messageGrace = .milliseconds(500)
        configuration.connection.webSocket.messageIdleTimeout = .seconds(20)
        // Flood limits count reads, so they would depend on how a stream is split.
        if !flags.contains(Self.isSingleStream) {
            configuration.connection.webSocket.maxNuisanceBurst = 5
            configuration.connection.webSocket.maxNuisancesPerSecond = 2
            configuration.admission.maxConnectionsPerAddress = 2
            configuration.admission.handshakeBurstPerAddress = 3
            configuration.admission.handshakesPerSecondPerAddress = 1
        }
        configuration.loop.maxJobsPerTick = 1
        configuration.session.maxConversationItems = 4
        configuration.session.maxConversationBytes = 1_024
        configuration.session.maxBufferedAudioSeconds = 1
        return configuration
    }
}

/// A server, its peers, and the checks.
final class FuzzedServer {
    /// Ticks of the event loop, beyond those that bytes account for, after which the shard counts
    /// as spinning.
    private static let spareTicks = 20_000
    /// Longer than all deadlines of a connection together.
    private static let untilAllDeadlines = Duration.seconds(400)

    private let server: SimulatedServer
    private let choices: ServerChoices
    private(set) var peers: [FuzzedPeer] = []
    private var hasStopped = false
    private var ticks = 0

    init(_ choices: ServerChoices) {
        self.choices = choices
        do {
            server = try SimulatedServer(
                configuration: choices.configuration, agents: AgentSet(model: choices.model),
                seed: choices.seed, faults: choices.faults)
        } catch {
            fatalError("no server: \(error)")
        }
        if choices.hasFewHandles { server.io.handleLimit = 3 }
    }

    @discardableResult
    func connect(from address: String = "127.0.0.1") -> FuzzedPeer {
        let peer = FuzzedPeer(
            server.connect(window: 1 << 30, from: address), expectsEvents: !choices.servesEcho)
        peers.append(peer)
        return peer
    }

    /// Runs ticks until nothing is left to do within a period of virtual time.
    func run(for duration: Duration = .zero) {
        server.io.horizon = server.io.now + duration
        repeat {
            guard !hasStopped else { return }
            ticks += 1
            // A tick moves at least one byte or ends something; time moves by at most one packet.
            let moved = peers.reduce(0) { $0 + $1.bytesSent + $1.bytesRead }
            require(ticks < Self.spareTicks + 8 * moved, "the shard spins")
            hasStopped = !server.shard.tick()
            checkHandles()
        } while !server.io.isIdle || server.io.hasWork
    }

    /// Makes the next accept fail.
    func failAccept(_ code: Int32) { server.io.acceptFailures.append(code) }

    /// Suspends the process for a while.
    func suspend(for duration: Duration) { server.io.suspend(for: duration) }

    /// Asks the shard to stop.
    func stop() { server.shard.stop(.goingAway) }

    /// Asks the shard to stop after the grace period for its replies.
    func drain(after delay: Duration) { server.shard.drain(delay) }

    // MARK: Invariants

    private func checkHandles() {
        let unwatched = server.io.unwatchedHandles
        require(unwatched.isEmpty, "handles \(unwatched) are open and not watched")
    }

    /// Disconnects all peers, gracefully or not, and checks that nothing of them is left.
    func finish(politely: Bool) {
        run()
        for peer in peers {
            peer.setWindow(1 << 30)
            if politely { peer.read() }
        }
        run()
        for (index, peer) in peers.enumerated() where !peer.hasFinished {
            if politely || index % 2 == 0 { peer.finishWriting() } else { peer.reset() }
        }
        ticks = 0
        run(for: Self.untilAllDeadlines)
        // A refusal is written once, because it always fits the kernel's empty buffer. A kernel
        // that accepts only part of it cuts it off.
        let mayCutOff =
            choices.isHarsh && server.metrics.total(of: .connectionsRefused) > 0
        for peer in peers {
            peer.read()
            if !mayCutOff { peer.checkEnd() }
        }
        checkNothingIsLeft()
    }

    private func checkNothingIsLeft() {
        let metrics = server.metrics
        require(server.io.openHandles == 0, "\(server.io.openHandles) handles are open")
        require(metrics.connections.load(ordering: .relaxed) == 0, "connections are counted")
        require(metrics.sessions.load(ordering: .relaxed) == 0, "sessions are counted")
        let gauges: [ShardMetric] = [
            .connectionsOpen, .sessionsOpen, .ledgerBytes, .agentTasks, .compressionContextBytes,
            .sidebandsOpen,
        ]
        for gauge in gauges {
            let value = metrics.total(of: gauge)
            require(value == 0, "\(gauge) is \(value) after all")
        }
        require(server.shard.chunksInUse == 0, "\(server.shard.chunksInUse) chunks are in use")
    }
}
