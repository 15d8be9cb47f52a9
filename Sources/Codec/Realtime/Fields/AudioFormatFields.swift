// The field `format` of either direction, and the settings that Parley adds to the format
// `audio/opus`. Session applies them (PacketOrder, OutputAudioEncoder).

/// The direction of audio.
enum AudioDirection { case input, output }

/// `format`: an object whose `type` is an `AudioFormat`.
struct AudioFormatRule: ValueRule {
    let direction: AudioDirection

    /// Fields of the object, whatever its type.
    enum Fields {
        static let type = RequiredField("type", .name, "How the samples are encoded.")
        static let rate: StaticString = "rate"
    }

    var schema: ValueSchema {
        .oneOf(AudioFormat.ofEachType.map { .object(table(of: $0)) })
    }

    /// Rates of a type in hertz, in their order.
    private static func rates(of type: String) -> [Int] {
        AudioFormat.allCases.filter { $0.wireName == type }.map(\.sampleRate.hertz).sorted()
    }

    private func table(of format: AudioFormat) -> ObjectTable {
        let type = FieldEntry(Fields.type.name, .constant(format.wireName), Fields.type.meaning)
        let rates = Self.rates(of: format.wireName).map { ValueSchema.integer($0...$0) }
        let rate = FieldEntry(
            Fields.rate, rates.count > 1 ? .oneOf(rates) : rates[0], isRequired: false,
            isNullable: true, "Samples per second.")
        switch (format, direction) {
        case (.pcm, _), (.pcm8000, _), (.pcm16000, _), (.pcm48000, _):
            return ObjectTable(
                "PCM",
                "16-bit little-endian samples, mono; 24,000 Hz, and others as an extension of Parley.",
                [type, rate])
        case (.pcmu, _): return ObjectTable("PCMU", "G.711 µ-law.", [type, rate])
        case (.pcma, _): return ObjectTable("PCMA", "G.711 A-law.", [type, rate])
        case (.opus, .input):
            return ObjectTable(
                "OpusInput", "One Opus packet per message (an extension of Parley).",
                [type, rate, OpusNumberingRule.sequence.entry])
        case (.opus, .output):
            return ObjectTable(
                "OpusOutput", "One Opus packet per message (an extension of Parley).",
                [type, rate] + OpusSettingsRule.entries)
        }
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> AudioFormat {
        guard value.kind == .object else {
            let expected = "an object such as {\"type\":\"audio/pcm\",\"rate\":24000}"
            throw .wrongType(path.text, expected: expected, value)
        }
        let fields = try EventFields(value, path: path.text)
        let name = try fields.read(Fields.type)
        guard let standard = AudioFormat.ofEachType.first(where: { $0.wireName == name }) else {
            let names = quotedList(AudioFormat.ofEachType.map(\.wireName))
            throw .invalid(
                fields.path(of: Fields.type.name), "expected one of \(names), got '\(name)'")
        }
        guard let rate = fields.value(Fields.rate) else { return standard }
        let format = AudioFormat.allCases.first {
            $0.wireName == name && $0.sampleRate.hertz == rate.int
        }
        guard let format else {
            let rates = Self.rates(of: name).map(String.init)
            let expected = rates.count > 1 ? "one of " + rates.joined(separator: ", ") : rates[0]
            throw .mismatch(fields.path(of: Fields.rate), expected: expected, rate, of: .number)
        }
        return format
    }
}

/// `sequence` in `format`: whether packets are numbered.
struct OpusNumberingRule: ValueRule {
    static let sequence = DefaultedField(
        "sequence", .boolean, default: false,
        "Whether each binary message begins with its number.")

    var schema: ValueSchema { AudioFormatRule(direction: .input).schema }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Bool {
        let fields = try EventFields(value, path: path.text)
        guard try fields.read(Self.sequence) else { return false }
        try fields.checkIsOpus("'sequence'")
        return true
    }
}

/// `bitrate`, `complexity` and `dtx` in `format`.
struct OpusSettingsRule: ValueRule {
    private static let bitrate = OptionalField(
        "bitrate", .integer(in: OpusSettings.bitrates),
        "Average bits per second; default: the server's setting.")
    private static let complexity = OptionalField(
        "complexity", .integer(in: OpusSettings.complexities),
        "Maximum work per packet; default: the server's setting.")
    private static let dtx = OptionalField(
        "dtx", .boolean, "Whether silence is sent as packets of one or two bytes.")

    static var entries: [FieldEntry] { [bitrate.entry, complexity.entry, dtx.entry] }

    var schema: ValueSchema { AudioFormatRule(direction: .output).schema }

    /// - Throws: for values out of range, and for settings of a format that does not have them.
    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> OpusSettings {
        let fields = try EventFields(value, path: path.text)
        let settings = OpusSettings(
            bitrate: try fields.read(Self.bitrate), complexity: try fields.read(Self.complexity),
            usesDTX: try fields.read(Self.dtx))
        if settings != OpusSettings() {
            try fields.checkIsOpus("'bitrate', 'complexity' and 'dtx'")
        }
        return settings
    }
}

extension EventFields {
    fileprivate func checkIsOpus(_ names: String) throws(ClientEventError) {
        guard try read(AudioFormatRule.Fields.type) != AudioFormat.opus.wireName else { return }
        throw .invalid(path, "\(names) are for '\(AudioFormat.opus.wireName)' only")
    }
}
