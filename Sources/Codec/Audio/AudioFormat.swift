// The audio formats that cross the wire, and exact sample arithmetic between them.
// No codec lives here: see Opus, G711 and Resampler.

/// Samples per second of one channel.
public struct SampleRate: Hashable, Sendable {
    /// Samples per second, per channel.
    public let hertz: Int

    /// Creates a rate. The embedded codecs and the resampler know 8, 12, 16, 24 and 48 kHz.
    /// - Precondition: `hertz` is positive.
    public init(hertz: Int) {
        precondition(hertz > 0)
        self.hertz = hertz
    }

    /// Telephony (G.711).
    public static let hz8000 = SampleRate(hertz: 8_000)
    /// The rate of voice activity detection and speech recognition.
    public static let hz16000 = SampleRate(hertz: 16_000)
    /// The protocol's `audio/pcm`.
    public static let hz24000 = SampleRate(hertz: 24_000)
    /// Opus at full band.
    public static let hz48000 = SampleRate(hertz: 48_000)

    /// Samples per channel in a whole number of milliseconds, rounded down.
    @inlinable
    public func samples(inMilliseconds milliseconds: Int) -> Int { hertz * milliseconds / 1_000 }

    /// Whole milliseconds that a sample count lasts, rounded down.
    @inlinable
    public func milliseconds(ofSamples samples: Int) -> Int { samples * 1_000 / hertz }
}

/// The encoding of one direction of a session's audio; always mono on the wire for PCM and G.711.
public enum AudioFormat: Hashable, CaseIterable, Sendable {
    /// `audio/pcm`: 16-bit signed little-endian at 24,000 Hz, the protocol's only rate.
    case pcm
    /// The same at 8,000, 16,000 and 48,000 Hz (an extension of Parley): what telephony, recognisers and
    /// browsers have, so that their programs need no resampler.
    case pcm8000, pcm16000, pcm48000
    /// `audio/pcmu`: G.711 µ-law at 8,000 Hz.
    case pcmu
    /// `audio/pcma`: G.711 A-law at 8,000 Hz.
    case pcma
    /// `audio/opus` (an extension of Parley): one Opus packet per message, RFC 6716.
    case opus

    /// One format of each type. That of `audio/pcm` has the protocol's rate.
    static let ofEachType: [AudioFormat] = [.pcm, .pcmu, .pcma, .opus]

    /// The `type` of the protocol's format object.
    public var wireName: String {
        switch self {
        case .pcm, .pcm8000, .pcm16000, .pcm48000: "audio/pcm"
        case .pcmu: "audio/pcmu"
        case .pcma: "audio/pcma"
        case .opus: "audio/opus"
        }
    }

    /// The rate that time stamps of this format count in. Opus counts at 48 kHz (RFC 7587 §4.1).
    public var sampleRate: SampleRate {
        switch self {
        case .pcm: .hz24000
        case .pcm16000: .hz16000
        case .pcm8000, .pcmu, .pcma: .hz8000
        case .pcm48000, .opus: .hz48000
        }
    }

    /// Whether it is linear samples of 16 bits.
    public var isPCM: Bool {
        switch self {
        case .pcm, .pcm8000, .pcm16000, .pcm48000: true
        case .pcmu, .pcma, .opus: false
        }
    }

    /// Bytes of a sample of PCM or G.711.
    public var bytesPerSample: Int { isPCM ? PCM.bytesPerSample : 1 }

    /// Its number in the header of binary messages.
    public var code: UInt8 {
        switch self {
        case .pcm: 0
        case .pcmu: 1
        case .pcma: 2
        case .opus: 3
        case .pcm8000: 4
        case .pcm16000: 5
        case .pcm48000: 6
        }
    }
}
