// The turn model, as `make smart-turn` installs it.

import Foundation
import Session
import TestMaterial
import Testing

@testable import Agents

@Suite struct SmartTurnTests {
    private func probability(of samples: [Int16]) async throws -> Float {
        try await SmartTurn(modelsDirectory: modelsDirectory).probability(
            ofEndAfter: HeardAudio(samples: samples), on: ScriptedAgentHost())
    }

    /// "Go somewhere and do something", cut after "and", and whole.
    @Test func aSentenceThatIsCutSoundsLessOver() async throws {
        let speech = SpeechRecording.doSomething.samples
        let silence = [Int16](repeating: 0, count: 3_200)
        let cut = try await probability(of: Array(speech[..<30_320]) + silence)
        let whole = try await probability(of: speech + silence)
        #expect(cut < 0.5 && whole > 0.5)
    }

    @Test(arguments: [0, 1, 1_600, 200_000])
    func anyLengthIsHeard(count: Int) async throws {
        let noise = (0..<count).map { Int16(truncatingIfNeeded: $0 &* 7_919 % 64) }
        #expect((0...1).contains(try await probability(of: noise)))
    }

    @Test func aFolderWithoutItSaysSo() async throws {
        let model = SmartTurn(modelsDirectory: "/nowhere")
        #expect(model.missingFile?.hasPrefix("/nowhere/smart-turn/smart-turn.onnx") == true)
        await #expect(throws: AgentError.unavailable(message: "The turn model failed.")) {
            try await model.probability(ofEndAfter: HeardAudio(), on: ScriptedAgentHost())
        }
        #expect(model.loadedBytes == 0)
    }

    @Test func aDamagedFileIsNotLoaded() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "smart-turn-\(UInt64.random(in: 0...(.max)))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let own = folder.appending(path: "smart-turn")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        try Data("damaged".utf8).write(to: own.appending(path: "smart-turn.onnx"))
        let sum = String(repeating: "0", count: 64)
        try Data("\(sum)  smart-turn.onnx\n".utf8).write(to: own.appending(path: "SHA256SUMS"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.appending(path: "sherpa-onnx").path(),
            withDestinationPath: modelsDirectory + "/sherpa-onnx")
        let model = SmartTurn(modelsDirectory: folder.path())
        await #expect(throws: AgentError.unavailable(message: "The turn model failed.")) {
            try await model.probability(ofEndAfter: HeardAudio(), on: ScriptedAgentHost())
        }
    }
}
