// The real voice activity model for this layer's tests.

import Session
import TestMaterial

extension VoiceActivityModel {
    /// Read once: in a debug build that takes longer than a second of audio.
    static let installed: VoiceActivityModel = {
        do {
            return try VoiceActivityModel(weights: InstalledModels.voiceActivityWeights)
        } catch {
            fatalError("models/silero_vad.bin: \(error)")
        }
    }()
}
