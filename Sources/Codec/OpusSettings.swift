// What a client may ask of the Opus that it sends and gets: the fields that Parley adds to the
// format `audio/opus`. What they do is in Session (PacketOrder, OutputAudioEncoder).

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

extension EventFields {
    /// The settings in `format`; nil if there is no such object.
    /// - Throws: for values out of their range, and for settings of a format that has none.
    func opusSettings(_ key: StaticString) throws(ClientEventError) -> OpusSettings? {
        guard let fields = try fields(key) else { return nil }
        let settings = OpusSettings(
            bitrate: try fields.integer("bitrate", in: OpusSettings.bitrates),
            complexity: try fields.integer("complexity", in: OpusSettings.complexities),
            usesDTX: try fields.bool("dtx"))
        if settings != OpusSettings() {
            try fields.checkIsOpus("'bitrate', 'complexity' and 'dtx'")
        }
        return settings
    }

    /// Whether the packets of `format` are numbered (`sequence`); nil if there is no such object.
    func isNumbered(_ key: StaticString) throws(ClientEventError) -> Bool? {
        guard let fields = try fields(key) else { return nil }
        guard try fields.bool("sequence") == true else { return false }
        try fields.checkIsOpus("'sequence'")
        return true
    }

    private func checkIsOpus(_ names: String) throws(ClientEventError) {
        guard try requiredName("type") != AudioFormat.opus.wireName else { return }
        throw .invalid(path, "\(names) are for '\(AudioFormat.opus.wireName)' only")
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
