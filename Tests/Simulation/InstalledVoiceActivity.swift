// The real voice activity model, for simulations of spoken turns.

import Session
@_exported import TestMaterial

extension VoiceActivityModel {
    /// The model that `make models` installs.
    package static func installed() throws -> VoiceActivityModel {
        try VoiceActivityModel(weights: InstalledModels.voiceActivityWeights)
    }
}
