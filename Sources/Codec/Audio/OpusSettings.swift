// Opus settings that a client may choose for both directions: the fields that Parley adds to the
// format `audio/opus`. Session applies them (PacketOrder, OutputAudioEncoder);
// Fields/AudioFormatFields parses them.

/// How reply audio is encoded (an extension of Parley). Nil means the server's default.
public struct OpusSettings: Hashable, Sendable {
    /// Allowed values of `bitrate`, in bits per second. Speech gains nothing beyond 128,000.
    public static let bitrates = 6_000...128_000
    /// Allowed values of `complexity`.
    public static let complexities = 0...10

    /// `bitrate`: bits per second on average.
    public var bitrate: Int?
    /// `complexity`: the maximum work per packet. A busy server uses less.
    public var complexity: Int?
    /// `dtx`: whether silence is sent as packets of one or two bytes.
    public var usesDTX: Bool?

    /// The server's defaults.
    public init(bitrate: Int? = nil, complexity: Int? = nil, usesDTX: Bool? = nil) {
        self.bitrate = bitrate
        self.complexity = complexity
        self.usesDTX = usesDTX
    }
}

extension JSONWriter {
    /// Writes the settings that the client chose, inside `format`.
    mutating func opusSettings(_ settings: OpusSettings) {
        if let bitrate = settings.bitrate { member("bitrate", bitrate) }
        if let complexity = settings.complexity { member("complexity", complexity) }
        if let usesDTX = settings.usesDTX { member("dtx", usesDTX) }
    }
}
