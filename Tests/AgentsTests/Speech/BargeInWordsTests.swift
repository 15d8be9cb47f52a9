// The first word of a barge-in must be recognised. A real recording is sent to a session that is
// speaking, with the real voice activity model, and the recogniser gets the session's utterance.
// Without the padding before the onset the word would be cut.

import Agents
import Codec
import Foundation
import Session
import Testing

@Suite struct BargeInWordsTests {
    /// The utterance of a session when a recording is spoken over its reply.
    private func utterance(of recording: Recording) throws -> Utterance? {
        let weights = try Data(
            contentsOf: URL(filePath: modelsDirectory).appending(path: "silero_vad.bin"))
        let context = SessionContext(
            voiceActivityModel: try VoiceActivityModel(weights: [UInt8](weights)),
            hasRecognizer: true, hasSynthesizer: true)
        let session = VoiceSession(
            parameters: SessionParameters(model: "test"), context: context, seed: 1)
        var heard: Utterance?
        var isInterrupted = false
        func takeOutputs(_ now: Int) {
            while let output = session.nextOutput() {
                switch output {
                case .command(.transcribe(_, let utterance)): heard = utterance
                case .event(.responseDone(let response)):
                    if case .cancelled = response.status { isInterrupted = true }
                default: break
                }
            }
        }
        var responseID = ""
        session.start(at: .milliseconds(0))
        takeOutputs(0)
        session.handle(
            .responseCreate(ResponseParameters()), eventID: nil, audio: RawSpan(),
            at: .milliseconds(0))
        while let output = session.nextOutput() {
            if case .command(.respond(let id, _)) = output { responseID = id }
        }
        let text = "This reply goes on for a very long time without any end."
        for event: AgentEvent in [
            .modelDelta(responseID: responseID, .text(text)),
            .modelFinished(responseID: responseID),
            .speech(
                responseID: responseID,
                SpeechChunk(samples: [Int16](repeating: 9, count: 16_000 * 9), rate: .hz16000)),
        ] {
            session.handle(event, at: .milliseconds(10))
            takeOutputs(10)
        }
        var resampler = try Resampler(from: .hz16000, to: .hz24000)
        let samples = try recording.samples() + [Int16](repeating: 0, count: 16_000)
        for (index, start) in stride(from: 0, to: samples.count - 320, by: 320).enumerated() {
            var packet = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: 320))
            let count = samples[start..<start + 320].withUnsafeBufferPointer { input in
                packet.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
            }
            let bytes = packet[..<count].flatMap {
                [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
            }
            session.handleAudioPacket(bytes.span.bytes, at: .milliseconds(1_000 + 20 * index))
            takeOutputs(1_000 + 20 * index)
        }
        #expect(isInterrupted)
        return heard
    }

    @Test(arguments: [("goforward.raw", "go"), ("something.raw", "go"), ("cards/001.wav", "ten")])
    func theFirstWordIsRecognised(file: String, first: String) async throws {
        let recording = try #require(Recording.all.first { $0.file == file })
        let utterance = try #require(try utterance(of: recording))
        let recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)
        let text = try await recognizer.transcribe(utterance, on: ScriptedAgentHost()).text
        let words = text.lowercased().split { !$0.isLetter }
        #expect(words.first.map(String.init) == first, "\(text)")
    }
}
