// A part of `make bench-languages`: transcribes WAV files with the embedded recognisers. LoadTests/languages
// has the recordings, compares the words and makes the table.
//
//   language-table LANGUAGE,… < LIST      the list has a line for each file: its language, a tab, its path
//
// For each file a line in JSON: what was heard in the language of the list, what language was heard where
// none is named, and the processor time of both in milliseconds. One thread works, so other programs on
// the machine change the times little. PARLEY_MODELS names the models directory.

import Agents
import CLinux
import Codec
import Foundation
import Session

@main
struct LanguageTable {
    private struct Line: Encodable {
        let path: String
        let seconds: Double
        let text: String
        let milliseconds: Double
        let heard: String?
        let identifying: Double
    }

    private let recognizer: LanguageRecognizer
    private let host = TableHost()

    static func main() async throws {
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let languages = CommandLine.arguments.dropFirst().first ?? "en,es,fr,it,ru"
        let weights = try Data(contentsOf: URL(fileURLWithPath: "\(models)/silero_vad.bin"))
        let voiceActivity = try VoiceActivityModel(weights: Array(weights))
        // Whisper alone, to compare it with Moonshine.
        let isWhisperAlone = CommandLine.arguments.contains("--whisper")
        let english = MoonshineRecognizer(modelsDirectory: models, voiceActivity: voiceActivity)
        let table = LanguageTable(
            recognizer: LanguageRecognizer(
                languages: languages.split(separator: ",").map(String.init),
                single: isWhisperAlone ? [:] : ["en": english],
                whisper: WhisperRecognizer(modelsDirectory: models, voiceActivity: voiceActivity)))
        await table.recognizer.prepare(on: table.host)
        while let line = readLine() {
            let fields = line.split(separator: "\t").map(String.init)
            guard fields.count == 2 else { continue }
            let result = try await table.line(language: fields[0], path: fields[1])
            print(String(decoding: try JSONEncoder().encode(result), as: UTF8.self))
        }
    }

    private func line(language: String, path: String) async throws -> Line {
        let sound = try WAVFile(
            parsing: Array(try Data(contentsOf: URL(fileURLWithPath: path))))
        let utterance = Utterance(samples: sound.samples, language: language)
        let start = processorMilliseconds
        let named = try await recognizer.transcribe(utterance, on: host)
        let middle = processorMilliseconds
        let found = try await recognizer.transcribe(
            Utterance(samples: sound.samples), on: host)
        return Line(
            path: path, seconds: Double(sound.samples.count) / 16_000, text: named.text,
            milliseconds: middle - start, heard: found.language,
            identifying: processorMilliseconds - middle)
    }

    private var processorMilliseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1_000 + Double(time.tv_nsec) / 1e6
    }
}

/// Runs jobs where they are asked for.
private struct TableHost: AgentHost {
    struct NoNetwork: Error {}

    func sleep(for duration: Duration) async throws {}

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result { try work() }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        var elements: [Element] = []
        try work { element in
            elements.append(element)
            return true
        }
        for element in elements { try await each(element) }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        throw NoNetwork()
    }
}
