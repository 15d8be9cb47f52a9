// A models directory in which every file of the natural voice is there and none is a voice.

import Foundation

/// A temporary folder, which is removed with the value's last use.
final class VoiceFolder {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "parley-voice-" + UUID().uuidString
        for name in ["hibari.onnx", "symbols.txt", "lexicon.bin", "tagger.bin"] {
            try write("natural-voice/" + name, "no voice")
        }
        try write("sherpa-onnx/lib/libonnxruntime.so", "no library")
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func write(_ name: String, _ text: String) throws {
        let file = URL(filePath: "\(path)/\(name)")
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: file)
    }

    func remove(_ name: String) throws {
        try FileManager.default.removeItem(atPath: "\(path)/\(name)")
    }
}
