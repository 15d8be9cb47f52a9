// How the audio of a telephone line is encoded, and which of the session's formats that is. A line
// whose coding is a format of the session's is heard and spoken to without a conversion. Linear PCM
// at 8 kHz, which the protocol does not have, is companded: audio from the telephone network was
// µ-law or A-law before. No line is resampled.

/// The encoding of the audio on one line, the same in both directions.
public enum LineCoding: Equatable, CaseIterable, Sendable {
    /// G.711 µ-law.
    case mulaw
    /// G.711 A-law.
    case alaw
    /// 16-bit little-endian samples at 8 kHz.
    case linear8
    /// 16-bit little-endian samples at 16 kHz.
    case linear16
    /// 16-bit little-endian samples at 24 kHz.
    case linear24
    /// Opus packets.
    case opus

    /// The coding with a carrier's name for it, or nil where this server has none of that name and
    /// rate.
    /// - Parameters:
    ///   - name: as `audio/x-mulaw`, `PCMU`, `ulaw`, `audio/x-l16`, `slin24`.
    ///   - hertz: samples per second. The default is the carriers', 8,000.
    public init?(named name: String, hertz: Int?) {
        let name = name.lowercased()
        func has(_ parts: String...) -> Bool { parts.contains { name.contains($0) } }
        if has("opus") {
            self = .opus
        } else if has("ulaw", "pcmu") {
            guard hertz ?? 8_000 == 8_000 else { return nil }
            self = .mulaw
        } else if has("alaw", "pcma") {
            guard hertz ?? 8_000 == 8_000 else { return nil }
            self = .alaw
        } else if has("l16", "slin", "linear", "raw", "pcm", "base64") {
            // Asterisk has the rate in the name: `slin` is 8 kHz, `slin24` is 24 kHz.
            let kilohertz = name.hasPrefix("slin") ? name.dropFirst(4) : ""
            switch (kilohertz, hertz ?? 8_000) {
            case ("", 8_000): self = .linear8
            case ("16", _), ("", 16_000): self = .linear16
            case ("24", _), ("", 24_000): self = .linear24
            default: return nil
            }
        } else {
            return nil
        }
    }

    /// The session's format for it.
    public var format: AudioFormat {
        switch self {
        case .mulaw, .linear8: .pcmu
        case .alaw: .pcma
        case .linear16: .pcm16000
        case .linear24: .pcm
        case .opus: .opus
        }
    }

    /// The name for it in a message that says how its audio is encoded, and its rate.
    var contentType: (name: StaticString, hertz: Int) {
        switch self {
        case .mulaw: ("audio/x-mulaw", 8_000)
        case .alaw: ("audio/x-alaw", 8_000)
        case .linear8: ("audio/x-l16", 8_000)
        case .linear16: ("audio/x-l16", 16_000)
        case .linear24: ("audio/x-l16", 24_000)
        case .opus: ("audio/opus", 48_000)
        }
    }

    /// Whether its audio is converted on the way.
    public var isConverted: Bool { self == .linear8 }

    /// Appends audio of the line in the session's format. An odd byte at the end is left out.
    public func appendHeard(_ audio: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        guard self == .linear8 else { return writer.append(audio) }
        writer.append(upTo: audio.count / 2) { codes in
            for index in 0..<audio.count / 2 {
                let sample = audio.loadUnaligned(fromByteOffset: index * 2, as: Int16.self)
                codes[index] = G711.muLawCode(of: Int16(littleEndian: sample))
            }
            return audio.count / 2
        }
    }

    /// Appends audio of the session as the line has it.
    public func appendPlayed(_ audio: UnsafeRawBufferPointer, to writer: inout ByteWriter) {
        guard self == .linear8 else { return writer.append(audio) }
        writer.append(upTo: audio.count * 2) { samples in
            for index in 0..<audio.count {
                samples.storeBytes(
                    of: G711.muLawSample(of: audio[index]).littleEndian,
                    toByteOffset: index * 2, as: Int16.self)
            }
            return audio.count * 2
        }
    }
}
