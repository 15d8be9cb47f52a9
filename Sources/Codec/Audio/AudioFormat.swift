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
    /// `audio/pcm`: 16-bit signed little-endian at 24,000 Hz.
    case pcm
    /// `audio/pcmu`: G.711 µ-law at 8,000 Hz.
    case pcmu
    /// `audio/pcma`: G.711 A-law at 8,000 Hz.
    case pcma
    /// `audio/opus` (an extension of Parley): one Opus packet per message, RFC 6716.
    case opus

    /// The `type` of the protocol's format object.
    public var wireName: String {
        switch self {
        case .pcm: "audio/pcm"
        case .pcmu: "audio/pcmu"
        case .pcma: "audio/pcma"
        case .opus: "audio/opus"
        }
    }

    /// The rate that time stamps of this format count in. Opus counts at 48 kHz (RFC 7587 §4.1).
    public var sampleRate: SampleRate {
        switch self {
        case .pcm: .hz24000
        case .pcmu, .pcma: .hz8000
        case .opus: .hz48000
        }
    }
}
