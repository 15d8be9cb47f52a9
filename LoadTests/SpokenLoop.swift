// The audio of speaking sessions: a recording and the silence after it as Opus packets, encoded
// once and shared by all sessions. Talker and Speaker decide when packets are due.

import CLinux
import Codec

/// A recording followed by silence, for repetition.
struct SpokenLoop {
    /// The silence after the recording.
    enum Pause {
        /// Its length. Its packets are sent, as those of speech are.
        case seconds(Double)
        /// Speech is this share of the whole, in percent. Of the pauses, only the packets are sent that
        /// discontinuous transmission (DTX) sends, two or three a second.
        case aroundSpeech(percent: Int)
    }

    /// Most bytes that an encoder with DTX makes of 20 ms that need not be sent (RFC 6716, section
    /// 2.1.9).
    private static let unsentBytes = 2
    /// Duration of one packet.
    static let packetNanoseconds: Int64 = 20_000_000

    /// Packets of 20 ms; the last ones are silence. An empty one is not sent.
    let packets: [[UInt8]]
    /// Packets up to the end of speech: the last 20 ms within 26 dB of the loudest.
    let speechPackets: Int
    /// The first packet of speech: the first 20 ms within 26 dB of the loudest.
    let firstLoudPacket: Int

    /// Reads and encodes a WAV file.
    /// - Throws: `LoadFailure` when the file cannot be used.
    init(path: String, pause: Pause) throws(LoadFailure) {
        let rate = SampleRate.hz48000
        let packetSamples = rate.samples(inMilliseconds: 20)
        do {
            let file = try WAVFile(parsing: readWholeFile(path))
            var samples = try Self.resample(file.monoSamples, from: file.rate, to: rate)
            let pauseSamples =
                switch pause {
                case .seconds(let seconds): Int(seconds * Double(rate.hertz))
                case .aroundSpeech(let percent): samples.count * (100 - percent) / percent
                }
            samples += [Int16](repeating: 0, count: pauseSamples)
            var usesDTX = false
            if case .aroundSpeech = pause { usesDTX = true }
            var encoder = try OpusEncoder(rate: rate, bitrate: 24_000, usesDTX: usesDTX)
            var packets: [[UInt8]] = []
            var levels: [Double] = []
            for start in stride(from: 0, to: samples.count - packetSamples + 1, by: packetSamples) {
                let piece = samples[start..<start + packetSamples]
                levels.append(piece.reduce(0.0) { $0 + Double($1) * Double($1) })
                let packet = try Self.encode(piece, with: &encoder)
                packets.append(usesDTX && packet.count <= Self.unsentBytes ? [] : packet)
            }
            let loudest = levels.max() ?? 0
            self.packets = packets
            // The levels are energies, of which 26 dB are a factor of 400.
            speechPackets = (levels.lastIndex { $0 > 0 && $0 >= loudest / 400 } ?? 0) + 1
            firstLoudPacket = levels.firstIndex { $0 > 0 && $0 >= loudest / 400 } ?? 0
        } catch let failure as LoadFailure {
            throw failure
        } catch {
            throw LoadFailure("\(path) cannot be used: \(error)")
        }
    }

    private static func resample(
        _ samples: [Int16], from source: SampleRate, to target: SampleRate
    ) throws(ResamplerError) -> [Int16] {
        var resampler = try Resampler(from: source, to: target)
        let room = resampler.maxOutputSamples(for: samples.count)
        return [Int16](unsafeUninitializedCapacity: room) { output, count in
            count = samples.withUnsafeBufferPointer { resampler.process($0, into: output) }
        }
    }

    private static func encode(
        _ samples: ArraySlice<Int16>, with encoder: inout OpusEncoder
    ) throws(OpusError) -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
        let count = try packet.withUnsafeMutableBufferPointer { (room) throws(OpusError) in
            try samples.withUnsafeBufferPointer { (pcm) throws(OpusError) in
                try encoder.encode(pcm, into: UnsafeMutableRawBufferPointer(room))
            }
        }
        return Array(packet[..<count])
    }
}

/// Reads a file.
/// - Throws: `LoadFailure` that names it.
func readWholeFile(_ path: String) throws(LoadFailure) -> [UInt8] {
    let descriptor = parley_open_readonly(path)
    guard descriptor >= 0 else { throw .system("cannot read \(path)") }
    defer { close(descriptor) }
    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    while true {
        let count = read(descriptor, &buffer, buffer.count)
        guard count >= 0 else { throw .system("cannot read \(path)") }
        if count == 0 { return content }
        content += buffer[..<count]
    }
}
