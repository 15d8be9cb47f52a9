// Which of flite's voices a client's name means. Clients of the protocol name the voices of another
// service; each is one of four speakers at a pitch of its own, so that two names sound like two
// people. The voice itself is in FliteVoice.

/// A speaker at a pitch.
struct FliteVoiceChoice: Hashable {
    let speaker: FliteSpeaker
    /// 1 is the speaker's own.
    let pitch: Double
}

/// The voices by name.
enum FliteVoiceTable {
    /// What is spoken with where a name is not known, as with the protocol's default.
    static let standard = FliteVoiceChoice(speaker: .slt, pitch: 1)

    /// The protocol's names, and the speakers' own. `rms` has one pitch only.
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

    /// The voice that a name means.
    static func choice(named name: String) -> FliteVoiceChoice { all[name] ?? standard }
}
