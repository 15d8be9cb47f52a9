// What a client may ask of the Opus that it sends and gets: the fields that Parley adds to the
// format `audio/opus`. What they do is in Session (PacketOrder, OutputAudioEncoder), how they are
// read in Fields/AudioFormatFields.

/// How reply audio is encoded (an extension of Parley); nil is the server's default.
public struct OpusSettings: Hashable, Sendable {
    /// What `bitrate` may be, in bits per second. Beyond 128,000 a voice gains nothing.
    public static let bitrates = 6_000...128_000
    /// What `complexity` may be.
    public static let complexities = 0...10

    /// `bitrate`: bits per second on average.
    public var bitrate: Int?
    /// `complexity`: the most work per packet; a busy server does less.
    public var complexity: Int?
    /// `dtx`: whether silence becomes packets of a byte or two.
    public var usesDTX: Bool?

    /// The server's defaults.
    public init(bitrate: Int? = nil, complexity: Int? = nil, usesDTX: Bool? = nil) {
        self.bitrate = bitrate
        self.complexity = complexity
        self.usesDTX = usesDTX
    }
}

extension JSONWriter {
    /// Writes the settings that the client has made, inside `format`.
    mutating func opusSettings(_ settings: OpusSettings) {
        if let bitrate = settings.bitrate { member("bitrate", bitrate) }
        if let complexity = settings.complexity { member("complexity", complexity) }
        if let usesDTX = settings.usesDTX { member("dtx", usesDTX) }
    }
}
