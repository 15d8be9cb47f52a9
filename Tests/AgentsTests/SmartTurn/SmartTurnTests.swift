// The turn model, as `make smart-turn` installs it.

import Foundation
import Session
import TestMaterial
import Testing

@testable import Agents

@Suite struct SmartTurnTests {
    private func probability(of samples: [Int16]) async throws -> Float {
        let model = SmartTurn(modelsDirectory: modelsDirectory)
        try #require(model.missingFile == nil, "run `make smart-turn`")
        return try await model.probability(
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
        await #expect(throws: Self.notLoaded) {
            try await model.probability(ofEndAfter: HeardAudio(), on: ScriptedAgentHost())
        }
        #expect(model.loadedBytes == 0)
    }

    private static let notLoaded = AgentError.unavailable(
        message: "The turn model cannot be loaded.")

    /// A models directory with the installed model and runtime. Its use ends with `body`.
    private func inFolder(_ body: (URL) async throws -> Void) async throws {
        try #require(
            SmartTurn(modelsDirectory: modelsDirectory).missingFile == nil, "run `make smart-turn`")
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "smart-turn-\(UInt64.random(in: 0...(.max)))")
        defer { try? FileManager.default.removeItem(at: folder) }
        for file in ["smart-turn/smart-turn.onnx", "sherpa-onnx/lib/libonnxruntime.so"] {
            let link = folder.appending(path: file)
            try FileManager.default.createDirectory(
                at: link.deletingLastPathComponent(), withIntermediateDirectories: true)
            try FileManager.default.createSymbolicLink(
                atPath: link.path(), withDestinationPath: "\(modelsDirectory)/\(file)")
        }
        try await body(folder)
    }

    /// The model that lies there is whole: only the checksum keeps it from being loaded.
    @Test(arguments: [
        ("smart-turn/SHA256SUMS", "smart-turn.onnx"),
        ("SHA256SUMS", "sherpa-onnx/lib/libonnxruntime.so"),
    ])
    func aDamagedFileIsReportedOnceUntilItIsReplaced(sums: String, file: String) async throws {
        try await inFolder { folder in
            let sum = String(repeating: "0", count: 64)
            let list = folder.appending(path: sums)
            try Data("\(sum)  \(file)\n".utf8).write(to: list)
            let reports = Collected<String>()
            let model = SmartTurn(modelsDirectory: folder.path()) { reports.append($0) }
            for _ in 0..<2 {
                await #expect(throws: Self.notLoaded) {
                    try await model.probability(ofEndAfter: HeardAudio(), on: ScriptedAgentHost())
                }
            }
            #expect(reports.all == ["\(file) is damaged"])
            try FileManager.default.removeItem(at: list)
            let end = try await model.probability(
                ofEndAfter: HeardAudio(), on: ScriptedAgentHost())
            #expect((0...1).contains(end))
            #expect(reports.all.count == 1)
        }
    }
}
