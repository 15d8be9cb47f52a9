// `parley-load voice-windows`: what a window of voice activity costs with each of the kernels that this
// processor has, for one stream, and for as many as do not fit into its caches.

import ArgumentParser
import CLinux
import Codec
import Session

/// The time of a window, by kernel.
struct VoiceWindowsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "voice-windows",
        abstract: "Measure a window of voice activity with each kernel of this processor.",
        discussion: """
            Streams take turns, window by window, over a recording. The kernels take turns, too. Run it \
            from the repository's root.
            """)

    @Option(help: "Streams of the second measurement.")
    var streams = 300

    @Option(help: "Measurements of each kernel.")
    var rounds = 5

    @Option(help: "The folder of the models.")
    var models = "models"

    @Option(name: .customLong("wav"), help: "The audio: a WAV file.")
    var recording =
        "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"

    func validate() throws {
        guard (1...10_000).contains(streams), rounds >= 1 else {
            throw ValidationError("--streams are 1…10000, --rounds at least 1")
        }
    }

    func run() throws {
        do throws(LoadFailure) {
            print(try measure())
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }

    private func measure() throws(LoadFailure) -> String {
        let weights = try readWholeFile(models + "/silero_vad.bin")
        let samples: [Int16]
        var runs: [WindowRun] = []
        do {
            let file = try WAVFile(parsing: readWholeFile(recording))
            guard file.rate == .hz16000 else {
                throw LoadFailure("\(recording) does not have 16 kHz")
            }
            samples = file.monoSamples
            for kernel in DenseKernel.allCases where kernel.isAvailable {
                for count in [1, streams] {
                    let model = try VoiceActivityModel(weights: weights, kernel: kernel)
                    runs.append(WindowRun(model, kernel: kernel, streams: count))
                }
            }
        } catch let failure as LoadFailure {
            throw failure
        } catch {
            throw LoadFailure("voice activity cannot be measured: \(error)")
        }
        for _ in 0...rounds {
            for index in runs.indices { runs[index].run(over: samples) }
        }
        var lines = [
            "| kernel | streams | µs of CPU a window, median (min … max) |", "|---|---|---|",
        ]
        for run in runs {
            // The first round fills the caches.
            let spread = Spread(Array(run.microseconds.dropFirst()))
            lines.append(
                "| \(run.kernel.rawValue) | \(run.streamCount) | \(decimal(spread.median, 1)) "
                    + "(\(decimal(spread.least, 1)) … \(decimal(spread.greatest, 1))) |")
        }
        return lines.joined(separator: "\n")
    }
}

/// One kernel with some streams, and its measurements so far.
private struct WindowRun {
    /// Windows of a measurement.
    private static let windows = 20_000

    let kernel: DenseKernel
    private var streams: [VoiceActivityDetector]
    private(set) var microseconds: [Double] = []
    var streamCount: Int { streams.count }

    init(_ model: VoiceActivityModel, kernel: DenseKernel, streams count: Int) {
        self.kernel = kernel
        streams = (0..<count).map { _ in VoiceActivityDetector(model: model) }
    }

    mutating func run(over samples: [Int16]) {
        let size = VoiceActivityDetector.windowSamples
        let places = samples.count / size
        let begin = processorNanoseconds(of: getpid())
        samples.withUnsafeBufferPointer { samples in
            for index in 0..<Self.windows {
                // Each stream is at another place of the recording.
                let start = (index / streams.count + index * 7) % places * size
                _ = streams[index % streams.count].process(
                    UnsafeBufferPointer(rebasing: samples[start..<start + size]))
            }
        }
        let spent = processorNanoseconds(of: getpid()) - begin
        microseconds.append(Double(spent) / Double(Self.windows) / 1_000)
    }
}
