// The flite voice for each voice name of a client. Clients of the protocol use the names of another
// service's voices. Each name is one of four speakers at a pitch of its own, so that two names
// sound different. FliteVoice is the voice itself.

/// A speaker at a pitch.
struct FliteVoiceChoice: Hashable {
    let speaker: FliteSpeaker
    /// 1 is the speaker's own.
    let pitch: Double
}

/// The voices by name.
enum FliteVoiceTable {
    /// The voice for unknown names, and for `marin`, the protocol's default.
    static let standard = FliteVoiceChoice(speaker: .slt, pitch: 1)

    /// The protocol's names, and the speakers' own names. `rms` supports one pitch only.
    static let all: [String: FliteVoiceChoice] = [
        "marin": standard,
        "alloy": FliteVoiceChoice(speaker: .slt, pitch: 0.88),
        "coral": FliteVoiceChoice(speaker: .slt, pitch: 1.1),
        "nova": FliteVoiceChoice(speaker: .slt, pitch: 1.18),
        "sage": FliteVoiceChoice(speaker: .slt, pitch: 0.94),
        "shimmer": FliteVoiceChoice(speaker: .slt, pitch: 1.28),
        "cedar": FliteVoiceChoice(speaker: .rms, pitch: 1),
        "ash": FliteVoiceChoice(speaker: .awb, pitch: 0.9),
        "ballad": FliteVoiceChoice(speaker: .awb, pitch: 1.15),
        "verse": FliteVoiceChoice(speaker: .awb, pitch: 1),
        "fable": FliteVoiceChoice(speaker: .awb, pitch: 1.3),
        "onyx": FliteVoiceChoice(speaker: .kal16, pitch: 0.85),
        "echo": FliteVoiceChoice(speaker: .kal16, pitch: 1),
        "slt": standard,
        "rms": FliteVoiceChoice(speaker: .rms, pitch: 1),
        "awb": FliteVoiceChoice(speaker: .awb, pitch: 1),
        "kal16": FliteVoiceChoice(speaker: .kal16, pitch: 1),
    ]

    /// The voice for a client's name.
    static func choice(named name: String) -> FliteVoiceChoice { all[name] ?? standard }
}
