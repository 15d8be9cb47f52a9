// sherpa-onnx's C API, opened at run time, so that a server without speech models does not need the
// library. Only the functions for offline recognition are here; MoonshineModel calls them.

import CLinux
import CSherpa

/// The functions of `libsherpa-onnx-c-api.so`, under their own names without the prefix. Calls
/// through them are as thread-safe as the library: a recogniser may decode several streams at once.
struct SherpaLibrary: Sendable {
    typealias Recognizer = OpaquePointer
    typealias Stream = OpaquePointer
    typealias Result = UnsafePointer<SherpaOnnxOfflineRecognizerResult>

    let createOfflineRecognizer:
        @convention(c) (UnsafePointer<SherpaOnnxOfflineRecognizerConfig>) -> Recognizer?
    let destroyOfflineRecognizer: @convention(c) (Recognizer) -> Void
    let createOfflineStream: @convention(c) (Recognizer) -> Stream?
    let destroyOfflineStream: @convention(c) (Stream) -> Void
    let acceptWaveformOffline: @convention(c) (Stream, Int32, UnsafePointer<Float>, Int32) -> Void
    let decodeOfflineStream: @convention(c) (Recognizer, Stream) -> Void
    let getOfflineStreamResult: @convention(c) (Stream) -> Result?
    let destroyOfflineRecognizerResult: @convention(c) (Result) -> Void

    /// The dynamic linker's message when the library cannot be used.
    struct LoadingError: Error, Equatable {
        var message: String
    }

    /// Opens the library, which stays open for the life of the process. The library finds its ONNX
    /// runtime beside it, through its own search path.
    /// - Throws: `LoadingError`.
    init(path: String) throws(LoadingError) {
        guard let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) else { throw Self.lastError() }
        createOfflineRecognizer = try Self.function("CreateOfflineRecognizer", in: handle)
        destroyOfflineRecognizer = try Self.function("DestroyOfflineRecognizer", in: handle)
        createOfflineStream = try Self.function("CreateOfflineStream", in: handle)
        destroyOfflineStream = try Self.function("DestroyOfflineStream", in: handle)
        acceptWaveformOffline = try Self.function("AcceptWaveformOffline", in: handle)
        decodeOfflineStream = try Self.function("DecodeOfflineStream", in: handle)
        getOfflineStreamResult = try Self.function("GetOfflineStreamResult", in: handle)
        destroyOfflineRecognizerResult = try Self.function(
            "DestroyOfflineRecognizerResult", in: handle)
    }

    /// - Precondition: `Function` is the C function type that the header declares.
    private static func function<Function>(
        _ name: String, in handle: UnsafeMutableRawPointer
    ) throws(LoadingError) -> Function {
        guard let symbol = dlsym(handle, "SherpaOnnx" + name) else { throw lastError() }
        return unsafeBitCast(symbol, to: Function.self)
    }

    private static func lastError() -> LoadingError {
        LoadingError(message: dlerror().map { String(cString: $0) } ?? "no reason was given")
    }
}
