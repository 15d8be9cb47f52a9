// The models that `make models` installs, for tests that need a real one.

import Foundation

/// Files of the folder `models/`, or of the one that `PARLEY_MODELS` names.
package enum InstalledModels {
    /// The weights of the voice activity network.
    package static let voiceActivityWeights: [UInt8] = {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let file = URL(filePath: models, relativeTo: root).appending(path: "silero_vad.bin")
        guard let data = try? Data(contentsOf: file) else {
            fatalError("models/silero_vad.bin is missing: run `make models`")
        }
        return [UInt8](data)
    }()
}
