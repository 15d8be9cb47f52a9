// Every fuzz target on its samples and on fixed mutations of them, and what a failure says. `make fuzz`
// runs the same targets under libFuzzer and the address sanitizer.

import Foundation
import Fuzz
import Testing

@Suite("Fuzz targets on fixed inputs")
struct FuzzReplayTests {
    @Test func httpMessage() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "http_message").run()
            })
    }

    @Test func webSocketFrames() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "websocket_frames").run()
            })
    }

    @Test func deflate() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "deflate").run()
            })
    }

    @Test func clientEvent() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "client_event").run()
            })
    }

    @Test func opusPackets() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "opus_packets").run()
            })
    }

    @Test func oggOpus() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "ogg_opus").run()
            })
    }

    @Test func oggOpusRecovery() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "ogg_opus_recovery").run()
            })
    }

    @Test func connectionBytes() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "connection_bytes").run()
            })
    }

    @Test func savedSession() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "saved_session").run()
            })
    }

    @Test func telephone() async throws {
        try await check(
            #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
                try FuzzReplay(named: "telephone").run()
            })
    }

    /// Records an issue unless the process has run all inputs. The input that ended it is then in a
    /// file.
    private func check(_ result: ExitTest.Result?) throws {
        let result = try #require(result)
        guard let failure = try ReplayFailure(result) else { return }
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let file = ".build/fuzz/\(failure.target)"
        try FileManager.default.createDirectory(
            at: root.appending(path: ".build/fuzz"), withIntermediateDirectories: true)
        try Data(failure.input?.bytes ?? []).write(to: root.appending(path: file))
        Issue.record("\(failure.explained(file: file))")
    }

    // MARK: What a failure says

    /// A target with a fault that its sample does not show.
    private enum FaultyTarget: FuzzTarget {
        static let name = "faulty"
        static let seeds = [(name: "good", bytes: [1, 1, 1] as [UInt8])]

        static func run(_ input: FuzzInput) {
            var input = input
            if input.byte() > 1 { fatalError("more than one") }
        }
    }

    @Test("A failed check names the input, the seed and the command")
    func failureIsExplained() async throws {
        let result = await #expect(processExitsWith: .failure, observing: FuzzReplay.streams) {
            FuzzReplay(FaultyTarget.self, words: []).run()
        }
        let ended = try #require(result)
        let replay = FuzzReplay(FaultyTarget.self, words: [])
        let failure = try #require(try ReplayFailure(ended) { _ in replay })
        let input = try #require(failure.input)
        #expect(input.bytes.first.map { $0 > 1 } == true)
        let text = failure.explained(file: "a-file")
        #expect(text.hasPrefix("faulty: ") && text.contains("Fatal error: more than one"))
        let seed = try #require(input.seed)
        #expect(text.contains("in mutation ") && text.contains(" of seed \(seed), "))
        #expect(text.contains("again: PARLEY_SEED=\(seed) make unit T=FuzzTests"))
        #expect(text.contains("make fuzz TARGET=faulty INPUT=a-file"))
    }
}
