// The Moonshine model in memory, run by sherpa-onnx: samples in, text out. MoonshineRecognizer
// decides when to load it, cuts long utterances, and uses the worker pool.
//
// Invariant: between two decodes the process keeps the weights in memory and nothing of the last
// decode.

import CLinux
import CSherpa
import Session

/// A loaded model. `transcribe` may run on several threads at once; each decode uses one thread.
final class MoonshineModel: @unchecked Sendable {
    /// The paths of a model's files in the server's models directory.
    struct Files {
        private static let libraryPath = "sherpa-onnx/lib/libsherpa-onnx-c-api.so"
        // sherpa-onnx recognises the format by the name, which must end in `.onnx`.
        private static let encoderPath = "moonshine-base-en/encoder_model.onnx"
        private static let decoderPath = "moonshine-base-en/decoder_model_merged.onnx"
        private static let tokensPath = "moonshine-base-en/tokens.txt"
        /// The files that loading opens, as paths in the directory.
        static let paths = [libraryPath, encoderPath, decoderPath, tokensPath]
        /// `paths`, and the ONNX runtime, which the library opens by itself.
        static let checkedPaths = paths + ["sherpa-onnx/lib/libonnxruntime.so"]

        let directory: String

        var library: String { path(of: Self.libraryPath) }
        var encoder: String { path(of: Self.encoderPath) }
        var decoder: String { path(of: Self.decoderPath) }
        var tokens: String { path(of: Self.tokensPath) }

        /// The state of each file, and of SHA256SUMS.
        var stamps: [ModelChecksums.Stamp?] {
            (Self.checkedPaths + [ModelChecksums.fileName]).map { .init(path: path(of: $0)) }
        }

        func path(of file: String) -> String { "\(directory)/\(file)" }
    }

    /// Resident bytes of the loaded model between decodes. 220 MB: the weights in the ONNX
    /// runtime's layout, and its library (LoadTests/results/memory.md, "Memory of the recogniser").
    static let loadedBytes = 220_000_000

    /// Additional bytes during one decode of the longest segment that `MoonshineRecognizer` makes.
    /// 60 MB for 15 s; they grow with the square of the length.
    static let decodeBytes = 60_000_000

    private let sherpa: SherpaLibrary
    private let recognizer: SherpaLibrary.Recognizer

    /// Loads a model; nil when sherpa-onnx refuses it. sherpa-onnx gives the reason on standard
    /// error only.
    init?(files: Files, sherpa: SherpaLibrary) {
        self.sherpa = sherpa
        let options = RuntimeOptions()
        let created = Self.withCStrings([
            files.encoder, files.decoder, files.tokens, options.provider, "greedy_search",
        ]) { texts in
            var configuration = SherpaOnnxOfflineRecognizerConfig()
            configuration.feat_config.sample_rate = 16_000
            configuration.feat_config.feature_dim = 80
            configuration.model_config.moonshine.encoder = texts[0]
            configuration.model_config.moonshine.merged_decoder = texts[1]
            configuration.model_config.tokens = texts[2]
            configuration.model_config.num_threads = 1
            configuration.model_config.provider = texts[3]
            configuration.decoding_method = texts[4]
            // This call reads the options' file; later calls do not.
            return withExtendedLifetime(options) {
                sherpa.createOfflineRecognizer(&configuration)
            }
        }
        guard let created else { return nil }
        recognizer = created
    }

    deinit { sherpa.destroyOfflineRecognizer(recognizer) }

    /// Transcribes samples at 16 kHz, at most 30 s of them, the longest that the model was trained
    /// on.
    /// - Throws: `AgentError.malformedReply` when the library gives no result.
    func transcribe(_ samples: ArraySlice<Int16>) throws(AgentError) -> String {
        let failure = AgentError.malformedReply(
            message: "The speech recognition library gave no result.")
        guard let stream = sherpa.createOfflineStream(recognizer) else { throw failure }
        defer { sherpa.destroyOfflineStream(stream) }
        let wave = samples.map { Float($0) / 32_768 }
        wave.withUnsafeBufferPointer {
            sherpa.acceptWaveformOffline(stream, 16_000, $0.baseAddress!, Int32($0.count))
        }
        sherpa.decodeOfflineStream(recognizer, stream)
        guard let result = sherpa.getOfflineStreamResult(stream) else { throw failure }
        defer { sherpa.destroyOfflineRecognizerResult(result) }
        return String(cString: result.pointee.text)
    }

    /// Calls `body` with C copies of strings, which are freed when it returns.
    private static func withCStrings<Result>(
        _ strings: [String], _ body: ([UnsafePointer<CChar>]) -> Result
    ) -> Result {
        let copies = strings.map { string in
            let bytes = string.utf8CString
            let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
            _ = UnsafeMutableBufferPointer(start: copy, count: bytes.count)
                .initialize(from: bytes)
            return copy
        }
        defer { for copy in copies { copy.deallocate() } }
        return body(copies.map { UnsafePointer($0) })
    }
}

/// The options of the ONNX runtime's sessions. sherpa-onnx reads them from a file, whose path
/// follows the provider's name and a colon. This is an anonymous file in memory, which exists as
/// long as the object.
private final class RuntimeOptions {
    /// Tensors come from the allocator, which returns the memory of large ones as soon as they are
    /// freed. The runtime's own arena never shrinks: with two threads it kept 155 MB at segments of
    /// 15 s and 270 MB at 28 s. Without the arena, a decode of 5 to 15 s is a fifth slower. Memory
    /// patterns would reserve a block for each length of input, and gain nothing without the arena.
    private static let content = "EnableCpuMemArena=0\nEnableMemPattern=0\n"

    private let file: Int32
    /// The provider's name for sherpa-onnx. It is plain "cpu", which means the arena, where the
    /// file cannot be made or `/proc` is not mounted: sherpa-onnx ends the process over a file that
    /// it cannot open.
    let provider: String

    init() {
        let file = parley_open_memory_file("parley-onnxruntime-options")
        self.file = file
        let path = "/proc/self/fd/\(file)"
        let isWritten = Self.content.utf8.withContiguousStorageIfAvailable {
            write(file, $0.baseAddress, $0.count) == $0.count
        }
        let isUsable = isWritten == true && access(path, R_OK) == 0
        provider = isUsable ? "cpu:" + path : "cpu"
    }

    deinit { if file >= 0 { close(file) } }
}
