// A client that stops reading while a reply is spoken. However the reply ends, the conversation keeps
// no more of it than left the socket, and the model gets no more of it with the next request.

import Codec
import Foundation
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Tells of forty words, each spoken for 300 ms, and remembers what it was asked.
private final class Narrator: LanguageModel, SpeechRecognizer, SpeechSynthesizer {
    /// All of one length, because the words that were heard are reckoned by it.
    static let words = (10...49).map { "word\($0)" }
    static let millisecondsPerWord = 300
    let requests = Mutex<[ModelRequest]>([])
    private let failsAfter: Duration?
    private let heard: String

    /// - Parameter failsAfter: when the voice fails, from its beginning.
    init(failsAfter: Duration?, heard: String) {
        self.failsAfter = failsAfter
        self.heard = heard
    }

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        Transcript(heard)
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        requests.withLock { $0.append(request) }
        try await reply(.text(Self.words.joined(separator: " ") + "."))
    }

    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let length = 24 * Self.millisecondsPerWord
        for _ in request.text.split(separator: " ") {
            let samples = [Int16](repeating: 1_000, count: length)
            try await emit(SpeechChunk(samples: samples, rate: .hz24000))
        }
        guard let failsAfter else { return }
        try await host.sleep(for: failsAfter)
        throw AgentError.overloaded
    }
}

@Suite struct ShardUnsentAudioTests {
    /// An event that ends a reply.
    enum Ending: String, CaseIterable {
        case cancel = "response.cancel"
        case clear = "output_audio_buffer.clear"
        case failure, speech
    }

    private struct World {
        let server: SimulatedServer
        let client: SimulatedClient
        let narrator: Narrator

        /// What the client has got of the first reply: milliseconds of audio in all, and up to the
        /// first gap, and what each truncation said when how much had come.
        func received() throws -> (all: Int, whole: Int, cuts: [(said: Int, all: Int)]) {
            var (all, whole) = (0, 0)
            var cuts: [(said: Int, all: Int)] = []
            for message in client.messages {
                switch message {
                case .binary(let bytes):
                    let position = bytes[4..<8].reversed().reduce(0) { $0 << 8 | Int($1) } / 24
                    let length = (bytes.count - 24) / 48
                    if position <= whole { whole = max(whole, position + length) }
                    all += length
                case .text(let text):
                    let event = try #require(
                        try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
                    if event["type"] as? String == "response.output_audio.delta" {
                        let audio = event["delta"] as? String ?? ""
                        all += (Data(base64Encoded: audio)?.count ?? 0) / 48
                    }
                    if event["type"] as? String == "conversation.item.truncated" {
                        cuts.append((try #require(event["audio_end_ms"] as? Int), all))
                    }
                default: break
                }
            }
            return (all, whole, cuts)
        }

        /// The model's reply as its next request has it.
        func shown() throws -> String {
            client.send(#"{"type":"response.create"}"#)
            #expect(server.run(for: .milliseconds(100)))
            let messages = narrator.requests.withLock { $0.last?.messages } ?? []
            for case .assistant(let text) in messages { return text }
            return ""
        }

        /// The client does not read for a while, but for what its kernel takes.
        func stall(for duration: Duration, meanwhile: () -> Void = {}) {
            client.isReading = false
            client.peer.window = 60_000
            #expect(server.run(for: duration))
            meanwhile()
            client.isReading = true
            client.peer.window = 1 << 30
        }

        func count(_ type: String) -> Int { client.eventTypes.count { $0 == type } }

        func speak(_ packets: some Sequence<[UInt8]>) {
            for packet in packets {
                client.send(.binary, packet)
                #expect(server.run(for: .milliseconds(20)))
            }
        }
    }

    /// A client whose reply has been playing for a second.
    private func talk(
        isBinary: Bool = false, failsAfter: Duration? = nil, heard: String = "go forward"
    ) throws -> World {
        let narrator = Narrator(failsAfter: failsAfter, heard: heard)
        let server = try SimulatedServer(
            agents: AgentSet(model: narrator, recognizer: narrator, synthesizer: narrator),
            voiceActivityModel: VoiceActivityModel.installed())
        let client = server.openClient()
        #expect(server.run())
        if isBinary {
            client.send(
                """
                {"type":"session.update","session":{"type":"realtime","audio":{"output":\
                {"transport":"binary"}}}}
                """)
        }
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(1)))
        return World(server: server, client: client, narrator: narrator)
    }

    /// Seconds of not reading: less than audio is useful for, and more.
    @Test(arguments: Ending.allCases, [3, 8])
    func aReplyEndsWithWhatLeftTheSocket(ending: Ending, seconds: Int) throws {
        for isBinary in [false, true] {
            let world = try talk(
                isBinary: isBinary, failsAfter: ending == .failure ? .seconds(seconds) : nil)
            let speech = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
            world.stall(for: .seconds(seconds)) {
                switch ending {
                case .cancel, .clear: world.client.send(#"{"type":"\#(ending.rawValue)"}"#)
                case .failure: break
                case .speech: world.speak(speech)
                }
                #expect(world.server.run(for: .milliseconds(100)))
            }
            // Before the next event.
            #expect(world.server.run(for: .milliseconds(1)))
            let (all, _, cuts) = try world.received()
            let cut = try #require(cuts.first)
            #expect(cuts.count == 1 && (1_000..<3_000).contains(cut.all), "\(cuts)")
            #expect(cut.said == cut.all)
            // The speech is answered.
            if ending == .speech { continue }
            #expect(all == cut.all)
            let shown = try world.shown().split(separator: " ")
            #expect(!shown.isEmpty && shown.count <= all / Narrator.millisecondsPerWord)
        }
    }

    /// The reply lasts 12 s: it is still being spoken when the client reads again, or long done.
    @Test(arguments: [8, 14])
    func aReplyEndsWhereItsAudioWasFirstLost(seconds: Int) throws {
        let world = try talk(isBinary: true)
        world.stall(for: .seconds(seconds))
        #expect(world.server.run(for: .seconds(10)))
        #expect(world.server.metrics.total(of: .lateAudioMessages) > 10)
        #expect(world.count("response.done") == 1)
        let (all, whole, cuts) = try world.received()
        #expect(all > whole + 1_000, "it goes on after the gap")
        #expect(cuts.map(\.said) == [whole])
        let shown = try world.shown().split(separator: " ")
        // A word less, as the clause's first silence is none of its words.
        let most = whole / Narrator.millisecondsPerWord
        #expect((most - 1...most).contains(shown.count))
    }

    /// Audio of the last second is kept, and sent again. Older audio is lost at the hold.
    @Test(arguments: [(400, false), (4_000, true)])
    func aFalseInterruptionGoesOnFromWhatLeft(milliseconds: Int, isLost: Bool) throws {
        let world = try talk(isBinary: true, heard: "")
        let sound = try SpeechRecording.goForward.packets(silenceMilliseconds: 0)[10..<38]
        world.stall(for: .milliseconds(milliseconds)) {
            world.speak(sound)
            world.speak(Array(repeating: [UInt8](repeating: 0, count: 960), count: 40))
        }
        #expect(world.server.run(for: .seconds(20)))
        #expect(world.server.metrics.total(of: \.falseInterruptions) == 1)
        #expect(world.server.metrics.total(of: \.interruptions) == 0)
        let (_, whole, cuts) = try world.received()
        #expect(cuts.map(\.said) == (isLost ? [whole] : []))
        #expect(isLost || whole >= Narrator.words.count * Narrator.millisecondsPerWord - 20)
    }

    @Test(arguments: ["output_audio_buffer.played", "conversation.item.truncate"])
    func aClientCannotHaveHeardWhatWaits(event: String) throws {
        let world = try talk()
        let item = try #require(
            world.client.texts.first { $0.contains("response.output_audio.delta") }?
                .split(separator: #""item_id":""#).dropFirst().first?.prefix { $0 != "\"" })
        world.stall(for: .seconds(3)) {
            world.client.send(
                #"{"type":"\#(event)","item_id":"\#(item)","content_index":0,"#
                    + #""audio_end_ms":3000}"#)
            #expect(world.server.run(for: .milliseconds(1)))
        }
        #expect(world.server.run(for: .milliseconds(1)))
        #expect(world.client.texts.contains { $0.contains(#""invalid_value""#) })
        #expect(world.count("conversation.item.truncated") == 0)
    }
}
