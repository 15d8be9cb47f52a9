// The speech of `turn-table --pauses`: the cuts of Tests/TurnTable, and pauses that people made
// themselves, in readings and in the prompts of a telephone exchange. Digits that people said are
// joined to numbers in groups.

import Foundation
import Session
import TestMaterial

/// Speech whose silences are judged.
enum TurnMaterial {
    /// Languages of the prompts that the embedded recogniser does not understand.
    static let otherLanguages = ["es", "fr", "it", "ru"]
    /// What scripts/setup-recordings.sh fetches.
    private static let readings = ".build/recordings"
    /// Most pauses, and most ends, of one source: evenly chosen, so that no speaker outweighs others.
    private static let maxOfSource = 24
    /// Prompts of a language that are searched, evenly chosen from those of at least 2.5 s.
    private static let maxPrompts = 90
    private static let minPromptBytes = 40_000
    /// The groups of dictated numbers: digits in each.
    private static let groups = [
        [3, 4], [3, 3, 4], [2, 2, 2], [4, 4], [4, 3], [5], [3, 2, 2], [2, 4],
    ]
    /// The pause in the middle of the recordings that go on after a cut, in milliseconds.
    private static let innerPause = 500

    /// Everything in English.
    static func english(_ finder: TurnEvents) async throws -> [TurnEvent] {
        var events = try await cuts(finder)
        for name in ["two_cities", "beckett"] {
            let samples = try SpeechRecording(wav: "\(readings)/\(name).wav").samples
            events += limited(try await finder.all(in: samples, source: name, hasWords: true))
        }
        events += try await prompts("en", finder)
        return events + (try await dictated("en", finder))
    }

    /// The prompts and the dictated numbers of a language.
    static func other(_ language: String, _ finder: TurnEvents) async throws -> [TurnEvent] {
        try await prompts(language, finder) + dictated(language, finder)
    }

    /// The 39 cuts, and the ends of their recordings after each.
    static func cuts(_ finder: TurnEvents) async throws -> [TurnEvent] {
        var events: [TurnEvent] = []
        for recording in HumanRecording.all {
            let samples = try recording.samples()
            for cut in recording.cuts.map({ 16 * $0.milliseconds }) {
                let (before, after) = (Array(samples[..<cut]), Array(samples[cut...]))
                let whole =
                    before + TurnEvents.room(innerPause) + PausedSpeech.withoutSilentEnd(after)
                for (speech, isEnd) in [(before, false), (whole, true)] {
                    let event = try await finder.last(
                        of: speech, source: recording.source, isEnd: isEnd, hasWords: true)
                    if let event { events.append(event) }
                }
            }
        }
        return events
    }

    /// Prompts of a language: pauses of the speaker, and ends.
    private static func prompts(
        _ language: String, _ finder: TurnEvents
    ) async throws -> [TurnEvent] {
        let names = try SpokenPrompts.names(in: language, minBytes: minPromptBytes)
        var events: [TurnEvent] = []
        for name in evenly(names, maxPrompts) {
            events += try await finder.all(
                in: SpokenPrompts.samples(of: [name], in: language), source: "prompts \(language)",
                hasWords: language == "en")
        }
        return limited(events)
    }

    /// Numbers in groups: the silence after each group, and the end.
    private static func dictated(
        _ language: String, _ finder: TurnEvents
    ) async throws -> [TurnEvent] {
        var random = SeededGenerator(seed: 7)
        var events: [TurnEvent] = []
        for groups in groups {
            var speech: [Int16] = []
            for (index, count) in groups.enumerated() {
                let digits = (0..<count).map { _ in
                    "digits/\(Int.random(in: 0...9, using: &random))"
                }
                // A prompt has half a second of silence behind it.
                speech += try SpokenPrompts.samples(of: digits, in: language)
                let event = try await finder.last(
                    of: speech, source: "dictated \(language)",
                    isEnd: index == groups.count - 1, hasWords: language == "en")
                if let event { events.append(event) }
            }
        }
        return events
    }

    private static func limited(_ events: [TurnEvent]) -> [TurnEvent] {
        evenly(events.filter { !$0.isEnd }, maxOfSource)
            + evenly(events.filter(\.isEnd), maxOfSource)
    }

    private static func evenly<Element>(_ elements: [Element], _ count: Int) -> [Element] {
        guard elements.count > count else { return elements }
        return (0..<count).map { elements[$0 * elements.count / count] }
    }
}

extension HumanRecording {
    /// Its speaker, or its collection.
    var source: String {
        ["alsa", "librivox", "cards", "tidigits"].first { path.contains("/\($0)/") }
            ?? (path as NSString).lastPathComponent
    }
}
