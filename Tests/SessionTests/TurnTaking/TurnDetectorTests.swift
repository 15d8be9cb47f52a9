// Where speech starts and stops, from made-up probabilities.

import Codec
import Testing

@testable import Session

/// Feeds one probability a 32 ms window, from position 0 on; returns what changed, with the index
/// of the window that changed it.
private func changes(
    _ probabilities: [Float], _ parameters: TurnDetectionParameters = .init()
) -> [(window: Int, change: TurnDetector.Change)] {
    var detector = TurnDetector(parameters)
    var found: [(window: Int, change: TurnDetector.Change)] = []
    for (index, probability) in probabilities.enumerated() {
        let window = index * 512..<(index + 1) * 512
        if let change = detector.handle(probability: probability, window: window) {
            found.append((index, change))
        }
    }
    return found
}

@Suite struct TurnDetectorTests {
    @Test func speechStartsWithItsFirstWindowOnceTheSecondConfirmsIt() {
        let found = changes([0.1, 0.1, 0.9, 0.9, 0.9])
        #expect(found.count == 1)
        #expect(found.first?.window == 3)
        #expect(found.first?.change == .started(at: 2 * 512))
    }

    @Test func oneLoudWindowIsNoSpeech() {
        #expect(changes([0.1, 0.9, 0.1, 0.1, 0.95, 0.1]).isEmpty)
    }

    @Test func speechStopsWhereItEndedAfterTheSilenceThatTheClientAskedFor() {
        // 500 ms are 8,000 samples: the 16th silent window is the first to complete them.
        let found = changes([0.9, 0.9, 0.9] + Array(repeating: 0.1, count: 20))
        #expect(found.count == 2)
        #expect(found.last?.window == 3 + 15)
        #expect(found.last?.change == .stopped(at: 3 * 512))
    }

    @Test(arguments: [(200, 7), (500, 16), (1_000, 32)])
    func silenceDurationIsRespected(milliseconds: Int, windows: Int) {
        let parameters = TurnDetectionParameters(
            mode: .serverVAD(threshold: 0.5, silenceMilliseconds: milliseconds))
        let found = changes([0.9, 0.9] + Array(repeating: 0, count: 40), parameters)
        #expect(found.last?.window == 1 + windows)
    }

    @Test func aPauseShorterThanTheSilenceBelongsToTheSpeech() {
        let pause = Array(repeating: Float(0.05), count: 10)
        let found = changes([0.9, 0.9] + pause + [0.9, 0.9] + Array(repeating: 0, count: 20))
        #expect(found.map(\.change) == [.started(at: 0), .stopped(at: 14 * 512)])
    }

    @Test func softSoundsInsideTheHysteresisKeepSpeechGoing() {
        let soft = Array(repeating: Float(0.4), count: 30)
        #expect(changes([0.9, 0.9] + soft).map(\.change) == [.started(at: 0)])
    }

    @Test func thresholdIsRespected() {
        let strict = TurnDetectionParameters(
            mode: .serverVAD(threshold: 0.8, silenceMilliseconds: 500))
        #expect(changes([0.7, 0.7, 0.7], strict).isEmpty)
        #expect(changes([0.8, 0.8, 0.8], strict).count == 1)
    }

    @Test(arguments: [0.0, 0.005, 0.1, 0.15])
    func aLowThresholdCanBeLeft(threshold: Double) {
        let parameters = TurnDetectionParameters(
            mode: .serverVAD(threshold: threshold, silenceMilliseconds: 500))
        let found = changes([0.9, 0.9] + Array(repeating: 0.004, count: 20), parameters)
        #expect(found.map(\.change) == [.started(at: 0), .stopped(at: 2 * 512)])
    }

    @Test func eagernessOrdersTheWaitsWhereNoWordsAreKnown() {
        func wait(_ eagerness: TurnDetectionParameters.Eagerness) -> Int? {
            changes(
                [0.9, 0.9] + Array(repeating: 0, count: 80),
                TurnDetectionParameters(mode: .semanticVAD(eagerness: eagerness))
            ).last?.window
        }
        #expect(wait(.high)! < wait(.medium)!)
        #expect(wait(.medium) == wait(.auto))
        #expect(wait(.auto)! < wait(.low)!)
    }

    /// How many windows of silence end a turn whose words become known in the tenth of them.
    private func silence(after words: String, mode: TurnDetectionParameters.Mode) -> Int? {
        var detector = TurnDetector(TurnDetectionParameters(mode: mode))
        for index in 0..<2 {
            _ = detector.handle(probability: 0.9, window: index * 512..<(index + 1) * 512)
        }
        for index in 1...400 {
            if index == 10 { detector.handleWords(words, in: .english) }
            let window = (index + 1) * 512..<(index + 2) * 512
            if detector.handle(probability: 0, window: window) != nil { return index }
        }
        return nil
    }

    @Test func wordsShortenOrLengthenTheSilence() {
        let mode = TurnDetectionParameters.Mode.semanticVAD(eagerness: .medium)
        #expect(silence(after: "Where is it?", mode: mode) == (400 + 31) / 32)
        #expect(silence(after: "It is here.", mode: mode) == (489 + 31) / 32)
        #expect(silence(after: "It is the", mode: mode) == 125)
        // With server_vad they do not count.
        let silent = TurnDetectionParameters.Mode.serverVAD(
            threshold: 0.5, silenceMilliseconds: 500)
        #expect(silence(after: "It is the", mode: silent) == 16)
    }

    @Test func wordsThatComeAfterTheirWaitEndTheTurnAtOnce() {
        let mode = TurnDetectionParameters.Mode.semanticVAD(eagerness: .high)
        // 300 ms are 10 windows; the words come before the tenth.
        #expect(silence(after: "Where is it?", mode: mode) == 10)
    }

    @Test func moreSpeechMakesTheWordsOld() {
        var detector = TurnDetector(
            TurnDetectionParameters(mode: .semanticVAD(eagerness: .medium)))
        var position = 0
        func next(_ probability: Float) -> TurnDetector.Change? {
            defer { position += 512 }
            return detector.handle(probability: probability, window: position..<position + 512)
        }
        for _ in 0..<2 { _ = next(0.9) }
        for _ in 0..<5 { #expect(next(0) == nil) }
        detector.handleWords("It is the", in: .english)
        _ = next(0.9)
        let speechEnd = position
        // 984 ms, as for unknown words: 31 windows.
        for _ in 0..<30 { #expect(next(0) == nil) }
        #expect(next(0) == .stopped(at: speechEnd))
    }

    @Test func resetForgetsSpeechInProgress() {
        var detector = TurnDetector(TurnDetectionParameters())
        _ = detector.handle(probability: 0.9, window: 0..<512)
        _ = detector.handle(probability: 0.9, window: 512..<1_024)
        #expect(detector.isSpeaking)
        detector.reset()
        #expect(!detector.isSpeaking)
        #expect(detector.handle(probability: 0.9, window: 1_024..<1_536) == nil)
    }
}
