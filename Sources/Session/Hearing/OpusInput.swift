// Decodes one client's stream of Opus packets to samples at 16 kHz, without holes. A lost packet is
// recovered from the next one where that has a copy of it, and concealed otherwise. A long gap is
// silence.
//
// Invariant: one packet makes at most `maxGapMilliseconds` of made-up audio and 120 ms of its own,
// whatever its bytes are.

import Codec

/// Decodes the packets of one stream.
struct OpusInput: ~Copyable {
    /// How much of a gap is concealed. 100 ms: after that, concealment is noise that fades out.
    static let maxConcealedMilliseconds = 100
    /// How much of a gap is filled at all. 1 s: the turn ends in it, and a packet that claims a gap
    /// causes at most a second of audio.
    static let maxGapMilliseconds = 1_000

    /// Packets that were recovered or concealed; for the counters.
    struct Repairs {
        /// Lost packets that the next one had a copy of.
        var recovered = 0
        /// Lost or corrupt packets that were concealed, or lay in a gap.
        var concealed = 0
        /// Samples of the last packet, as many as the next lost one counts.
        var packetSamples = OpusInput.usualSamples
    }

    private var decoder: OpusDecoder
    /// Samples of the last packet; a lost one counts as as many.
    private var packetSamples = OpusInput.usualSamples

    /// 20 ms.
    static let usualSamples = 320

    /// - Throws: what libopus says where it has no memory.
    init() throws(OpusError) { decoder = try OpusDecoder(rate: .hz16000) }

    /// Forgets the stream.
    mutating func reset() {
        decoder.reset()
        packetSamples = Self.usualSamples
    }

    /// Decodes the next packet and hands `sink` runs of samples that fit into `room`.
    /// - Parameter missing: packets that were lost before it; nil if they are not numbered. A
    ///   numbered packet without bytes is one that DTX left out: the background noise is continued.
    /// - Returns: the error of a packet that is not valid, which was concealed.
    mutating func decode(
        _ packet: RawSpan, missing: Int?, repairs: inout Repairs,
        into room: UnsafeMutableBufferPointer<Int16>,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) -> OpusError? {
        defer { repairs.packetSamples = packetSamples }
        if let missing, missing > 0 { fillGap(missing, before: packet, &repairs, room, sink) }
        if packet.isEmpty, missing != nil {
            conceal(packetSamples, room, sink)
            return nil
        }
        do {
            let count = try decoder.decode(packet, into: room)
            packetSamples = count
            sink(UnsafeBufferPointer(rebasing: room[..<count]))
            return nil
        } catch {
            repairs.concealed += 1
            conceal(packetSamples, room, sink)
            return error
        }
    }

    private mutating func fillGap(
        _ missing: Int, before packet: RawSpan, _ repairs: inout Repairs,
        _ room: UnsafeMutableBufferPointer<Int16>, _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) {
        let isRecoverable = OpusDecoder.holdsPreviousPacket(packet)
        let recovered = isRecoverable ? 1 : 0
        repairs.recovered += recovered
        repairs.concealed += missing - recovered
        let rate = SampleRate.hz16000
        let (lost, overflow) = (missing - recovered).multipliedReportingOverflow(by: packetSamples)
        let most = rate.samples(inMilliseconds: Self.maxGapMilliseconds) - recovered * packetSamples
        let gap = overflow ? most : min(lost, most)
        let concealed = min(gap, rate.samples(inMilliseconds: Self.maxConcealedMilliseconds))
        conceal(concealed, room, sink)
        silence(gap - concealed, room, sink)
        guard isRecoverable else { return }
        do {
            let count = try decoder.recover(samples: packetSamples, from: packet, into: room)
            sink(UnsafeBufferPointer(rebasing: room[..<count]))
        } catch {
            conceal(packetSamples, room, sink)
        }
    }

    private mutating func conceal(
        _ samples: Int, _ room: UnsafeMutableBufferPointer<Int16>,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) {
        var left = samples
        while left > 0 {
            // Packets last multiples of 2.5 ms, and so does what is left of them here.
            let wanted = min(left, packetSamples)
            guard let count = try? decoder.conceal(samples: wanted, into: room), count > 0 else {
                return silence(left, room, sink)
            }
            sink(UnsafeBufferPointer(rebasing: room[..<count]))
            left -= count
        }
    }

    private func silence(
        _ samples: Int, _ room: UnsafeMutableBufferPointer<Int16>,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) {
        var left = samples
        while left > 0 {
            let run = UnsafeMutableBufferPointer(rebasing: room[..<min(left, room.count)])
            run.update(repeating: 0)
            sink(UnsafeBufferPointer(run))
            left -= run.count
        }
    }
}
