// The flite voice for each voice name of a client. Clients of the protocol use the names of another
// service's voices. Each name is one of four speakers at a pitch of its own, so that two names
// sound different. FliteVoice is the voice itself.

import Session

/// A speaker at a pitch.
struct FliteVoiceChoice: Hashable {
    let speaker: FliteSpeaker
    /// 1 is the speaker's own.
    let pitch: Double

    /// How it sounds, in a few words of English.
    var description: String {
        let height =
            switch pitch {
            case ..<0.92: "low"
            case ..<1: "a little low"
            case ..<1.05: "medium"
            case ..<1.14: "a little high"
            case ..<1.25: "high"
            default: "very high"
            }
        return "\(speaker.description), \(height)"
    }
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

    /// The names of the protocol and how each sounds, speaker by speaker from low to high.
    static let described: [PageVoice] =
        all.filter { name, _ in !FliteSpeaker.allCases.contains { "\($0)" == name } }
        .sorted {
            ($0.value.speaker.rawValue, $0.value.pitch)
                < ($1.value.speaker.rawValue, $1.value.pitch)
        }
        .map { PageVoice(name: $0, description: $1.description) }

    /// The voice for a client's name.
    static func choice(named name: String) -> FliteVoiceChoice { all[name] ?? standard }
}
