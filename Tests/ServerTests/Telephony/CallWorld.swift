// A server for telephone calls: scripted agents that remember what they were asked, and a carrier.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Hears a given text, answers with a sentence, and speaks 60 ms a character.
final class CallAgent: LanguageModel, SpeechRecognizer, SlowSpeaker {
    static let reply = "I have gone forward by ten meters, and then a little further still."

    private let asked = Mutex<[ModelRequest]>([])
    private let words = Mutex<String>("go forward ten meters")
    private let isStalling = Mutex<Bool>(false)
    private let deltas = Mutex<[String]>([CallAgent.reply])

    /// What it was asked, oldest first.
    var requests: [ModelRequest] { asked.withLock { $0 } }

    /// From now on its replies do not end.
    func stalls() { isStalling.withLock { $0 = true } }

    /// From now on it writes these deltas.
    func writes(_ deltas: [String]) { self.deltas.withLock { $0 = deltas } }

    /// From now on it hears this.
    func hears(_ text: String) { words.withLock { $0 = text } }

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        try await host.sleep(for: .milliseconds(50))
        return Transcript(words.withLock { $0 })
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        asked.withLock { $0.append(request) }
        try await host.sleep(for: .milliseconds(50))
        for delta in deltas.withLock({ $0 }) { try await reply(.text(delta)) }
        if isStalling.withLock({ $0 }) { try await host.sleep(for: .seconds(600)) }
    }
}

/// A server that takes calls.
final class CallWorld {
    let agent = CallAgent()
    let server: SimulatedServer

    init(
        _ carriers: [TelephoneCarrier] = [.twilio], keys: String? = nil,
        log: LogRecord = LogRecord(), hears: Bool = true,
        recordings: (any RecordingKeeper)? = nil, profiles: [AgentProfile] = [],
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        configuration.telephone.carriers = carriers
        change(&configuration)
        var rules = APIKeys()
        if let keys {
            try rules.add(
                ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(keys.utf8)))
        }
        server = try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: agent, recognizer: agent, synthesizer: agent),
            voiceActivityModel: hears ? VoiceActivityModel.installed() : nil, log: log,
            credentials: CredentialRules(keys: rules)
        ) {
            $0.recordings = recordings
            $0.profiles = AgentDirectory(AgentProfiles(profiles))
        }
    }

    /// The session of the first connection.
    var session: VoiceSession? { server.shard.connections[slot: 0]?.live?.session }

    /// From now on speech must have words to interrupt a reply.
    func needsWordsToInterrupt() {
        guard let id = session?.id else { return }
        let sideband = server.openClient("/v1/realtime?call_id=\(id)")
        #expect(server.run())
        sideband.send(
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
                + #""turn_detection":{"type":"server_vad","interruption_needs_words":true}}}}}"#)
        #expect(server.run())
        #expect(sideband.eventTypes.last == "session.updated")
    }

    /// The words of the newest reply as the agent was last shown them.
    var shownReply: String? {
        agent.requests.last?.messages.compactMap {
            if case .assistant(let words) = $0 { words } else { nil }
        }.last
    }
}
