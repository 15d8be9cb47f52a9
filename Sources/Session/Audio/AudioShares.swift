// How much audio is heard in a tick of the event loop, and how audio of a format is measured in time and in
// bytes.

import Codec

/// How much audio the sessions of a shard may hear in a tick of its event loop, in samples at
/// 16 kHz. Opus packets and short messages are never cut, so that they may exceed their share.
struct AudioShares {
    /// The shortest share, and the longest message that is never cut. 100 ms: five ordinary
    /// packets, and about 0.2 ms of work. So each of many clients that send faster than real time
    /// delays a tick only a little.
    static let leastMilliseconds = 100

    /// Audio received when the tick has used its time up.
    private(set) var tickEnd = Int.max
    /// The end of the share of the connection that is being served. Without a shell that sets it,
    /// no share ends.
    private(set) var shareEnd = Int.max

    /// Begins a tick in which all sessions together may hear this many samples.
    mutating func beginTick(samples: Int, received: Int) { tickEnd = received + samples }

    /// Begins the share of another connection: the rest of the tick, and the shortest share in any
    /// case.
    mutating func beginShare(received: Int) {
        let least = SampleRate.hz16000.samples(inMilliseconds: Self.leastMilliseconds)
        shareEnd = max(tickEnd, received + least)
    }

    /// The rest of the share, in milliseconds: a multiple of a run, and at least the shortest
    /// share.
    func millisecondsLeft(received: Int) -> Int {
        guard shareEnd < .max else { return .max }
        let left = SampleRate.hz16000.milliseconds(ofSamples: shareEnd - received)
        let run = InputAudioDecoder.runMilliseconds
        return max(Self.leastMilliseconds, left / run * run)
    }
}

extension AudioFormat {
    /// How long this many bytes of PCM or G.711 last, rounded down. For Opus it is 0: a packet
    /// itself says how long it lasts, which is 120 ms at most.
    func milliseconds(inBytes bytes: Int) -> Int {
        self == .opus ? 0 : sampleRate.milliseconds(ofSamples: bytes / bytesPerSample)
    }

    /// Bytes of PCM or G.711 that last so long.
    func bytes(inMilliseconds milliseconds: Int) -> Int {
        sampleRate.samples(inMilliseconds: milliseconds) * bytesPerSample
    }
}
