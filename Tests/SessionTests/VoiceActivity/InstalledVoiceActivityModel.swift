// The real voice activity model for this layer's tests.

import Session
import TestMaterial

extension VoiceActivityModel {
    /// Read once: in a debug build that takes longer than a second of audio.
    static let installed = installed(.best)

    /// With the instructions of a kernel.
    static func installed(_ kernel: DenseKernel) -> VoiceActivityModel {
        do {
            return try VoiceActivityModel(
                weights: InstalledModels.voiceActivityWeights, kernel: kernel)
        } catch {
            fatalError("models/silero_vad.bin: \(error)")
        }
    }
}
