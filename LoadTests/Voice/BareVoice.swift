// The reference of `parley-load voice`: the codec and the voice activity network in a loop, without
// a server. It has as many streams as the server has sessions, and handles one packet of each in
// order. A single stream would stay in the core's first-level cache, which is not possible for a
// server's streams.

import ArgumentParser
import CLinux
import Codec
import Session

/// `parley-load voice-bare`: started by `parley-load voice`.
struct BareVoiceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "voice-bare", abstract: "The bare loop of `parley-load voice`.",
        shouldDisplay: false)

    @Option(help: "The speech: a WAV file.") var wav: String
    @Option(help: "Streams.") var streams: Int
    @Option(help: "How much of the time is speech, in percent.") var speechShare: Int
    @Option(help: "The folder of the models.") var models: String

    /// Each line of input is a length in milliseconds; the answer is nanoseconds per 20 ms of a stream.
    func run() throws {
        do throws(LoadFailure) {
            let loop = try BareVoice(
                streams: streams,
                speech: SpokenLoop(path: wav, pause: .aroundSpeech(percent: speechShare)),
                models: models)
            while let line = readLine() {
                guard let length = Int64(line) else { throw LoadFailure("no length: \(line)") }
                try loop.run(forNanoseconds: 200_000_000)
                let answer = "\(try loop.run(forNanoseconds: length * 1_000_000))\n"
                _ = Array(answer.utf8).withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
            }
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }
}

/// Streams of packets that are decoded and passed to the voice activity model.
final class BareVoice {
    /// One stream: its decoder, its voice activity, and its samples.
    private final class Stream {
        var decoder: OpusDecoder
        var activity: GatedVoiceActivity
        /// The samples that voice activity needs as history, then new ones.
        var samples: [Int16] = []
        var analysed = 0
        var next: Int

        init(model: VoiceActivityModel, next: Int) throws(OpusError) {
            decoder = try OpusDecoder(rate: .hz16000)
            activity = GatedVoiceActivity(model: model)
            self.next = next
            samples.reserveCapacity(16_384)
        }
    }

    private let packets: [[UInt8]]
    private var streams: [Stream] = []
    private let decoded = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 2_880)
    /// The sum of all probabilities, so that the compiler cannot remove the computation.
    private(set) var speech: Float = 0

    init(streams count: Int, speech: SpokenLoop, models: String) throws(LoadFailure) {
        packets = speech.packets
        do {
            let model = try VoiceActivityModel(weights: readWholeFile(models + "/silero_vad.bin"))
            for index in 0..<count {
                streams.append(try Stream(model: model, next: index * 37 % packets.count))
            }
        } catch let failure as LoadFailure {
            throw failure
        } catch {
            throw LoadFailure("the bare loop cannot be made: \(error)")
        }
    }

    deinit { decoded.deallocate() }

    /// Runs for a time and returns the nanoseconds of processor time per 20 ms of a stream.
    @discardableResult
    func run(forNanoseconds length: Int64) throws(LoadFailure) -> Double {
        let end = monotonicNanoseconds() + length
        let begin = processorNanoseconds()
        var count = 0
        repeat {
            for stream in streams {
                do throws(OpusError) { try take(stream) } catch {
                    throw LoadFailure("a packet did not decode: \(error)")
                }
            }
            count += streams.count
        } while monotonicNanoseconds() < end
        return Double(processorNanoseconds() - begin) / Double(count)
    }

    private func take(_ stream: Stream) throws(OpusError) {
        let packet = packets[stream.next]
        stream.next = (stream.next + 1) % packets.count
        guard !packet.isEmpty else { return }
        let count = try stream.decoder.decode(packet.span.bytes, into: decoded)
        stream.samples.append(contentsOf: decoded[..<count])
        let size = VoiceActivityDetector.windowSamples
        while stream.analysed + size <= stream.samples.count {
            let history = max(0, stream.analysed - GatedVoiceActivity.historySamples)
            speech += stream.samples[history..<stream.analysed + size].withUnsafeBufferPointer {
                stream.activity.process($0, senderHeardNothing: false)
            }
            stream.analysed += size
        }
        guard stream.samples.count > 12_288 else { return }
        let excess = stream.analysed - GatedVoiceActivity.historySamples
        stream.samples.removeFirst(excess)
        stream.analysed -= excess
    }

    private func processorNanoseconds() -> Int64 {
        var now = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now)
        return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
    }
}
