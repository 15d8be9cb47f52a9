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
    struct Repairs: Equatable {
        /// Lost packets that the next one had a copy of.
        var recovered = 0
        /// Lost or corrupt packets that were concealed, or lay in a gap.
        var concealed = 0
        /// Corrupt packets.
        var corrupt = 0
    }

    /// The parts of a packet that are still to come, in this order.
    private struct Plan {
        /// Samples of a gap that are concealed, and those after them that are silence.
        var concealed = 0, silence = 0
        /// Whether the packet before is recovered from this one.
        var isRecovered = false
        /// Whether the packet itself is decoded, or else the background noise is continued.
        var isDecoded = false, isContinued = false
    }

    private var decoder: OpusDecoder
    /// Samples of the last packet; a lost one counts as the same number.
    private(set) var packetSamples = OpusInput.usualSamples
    private var plan = Plan()
    /// The repairs in and before the packet.
    private(set) var repairs = Repairs()
    /// Why the packet is not valid, or nil where it is. A packet that is not valid is concealed.
    private(set) var error: OpusError?

    /// 20 ms.
    static let usualSamples = 320

    /// - Throws: libopus's error where it has no memory.
    init() throws(OpusError) { decoder = try OpusDecoder(rate: .hz16000) }

    /// Forgets the stream.
    mutating func reset() {
        decoder.reset()
        packetSamples = Self.usualSamples
        plan = Plan()
    }

    /// Begins with the next packet: `next(of:into:)` has its samples.
    /// - Parameter missing: packets that were lost before it; nil if they are not numbered. A
    ///   numbered packet without bytes is one that DTX left out: the background noise is continued.
    mutating func begin(_ packet: RawSpan, missing: Int?) {
        (plan, repairs, error) = (Plan(), Repairs(), nil)
        if let missing, missing > 0 { planGap(missing, before: packet) }
        plan.isContinued = packet.isEmpty && missing != nil
        plan.isDecoded = !plan.isContinued
    }

    private mutating func planGap(_ missing: Int, before packet: RawSpan) {
        plan.isRecovered = OpusDecoder.holdsPreviousPacket(packet)
        let recovered = plan.isRecovered ? 1 : 0
        repairs.recovered += recovered
        repairs.concealed += missing - recovered
        let rate = SampleRate.hz16000
        let (lost, overflow) = (missing - recovered).multipliedReportingOverflow(by: packetSamples)
        let most = rate.samples(inMilliseconds: Self.maxGapMilliseconds) - recovered * packetSamples
        let gap = overflow ? most : min(lost, most)
        plan.concealed = min(gap, rate.samples(inMilliseconds: Self.maxConcealedMilliseconds))
        plan.silence = gap - plan.concealed
    }

    /// The next run of samples of the packet, written into `room`, or nil where there are no more.
    mutating func next(
        of packet: RawSpan, into room: UnsafeMutableBufferPointer<Int16>
    ) -> UnsafeBufferPointer<Int16>? {
        while true {
            if plan.concealed > 0 {
                if let count = conceal(into: room) { return run(count, of: room) }
                plan.silence += plan.concealed
                plan.concealed = 0
            } else if plan.silence > 0 {
                let count = min(plan.silence, room.count)
                plan.silence -= count
                UnsafeMutableBufferPointer(rebasing: room[..<count]).update(repeating: 0)
                return run(count, of: room)
            } else if plan.isRecovered {
                plan.isRecovered = false
                let count = try? decoder.recover(samples: packetSamples, from: packet, into: room)
                if let count { return run(count, of: room) }
                plan.concealed = packetSamples
            } else if plan.isContinued {
                plan.isContinued = false
                plan.concealed = packetSamples
            } else if plan.isDecoded {
                plan.isDecoded = false
                do {
                    packetSamples = try decoder.decode(packet, into: room)
                    return run(packetSamples, of: room)
                } catch {
                    self.error = error
                    repairs.concealed += 1
                    repairs.corrupt += 1
                    plan.concealed = packetSamples
                }
            } else {
                return nil
            }
        }
    }

    /// Continues the sound; nil where the decoder cannot.
    private mutating func conceal(into room: UnsafeMutableBufferPointer<Int16>) -> Int? {
        // Packets last multiples of 2.5 ms, and so does their rest here.
        let wanted = min(plan.concealed, packetSamples)
        guard let count = try? decoder.conceal(samples: wanted, into: room), count > 0 else {
            return nil
        }
        plan.concealed = max(0, plan.concealed - count)
        return count
    }

    private func run(
        _ count: Int, of room: UnsafeMutableBufferPointer<Int16>
    ) -> UnsafeBufferPointer<Int16> { UnsafeBufferPointer(rebasing: room[..<count]) }
}
