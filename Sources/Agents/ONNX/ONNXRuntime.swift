// The ONNX runtime, opened at run time: `make models` takes it from sherpa-onnx's package. Only what
// the models of this layer need. Each status of the runtime is checked. ONNXModel is a model of it,
// ONNXTensor what a model reads and makes.

import CLinux
import CONNXRuntime
import Synchronization

/// The message of the runtime, or of the dynamic linker. It may name files by their whole path.
struct ONNXError: Error, Equatable {
    var message: String
}

/// The runtime of the process. Any thread. It is never freed: its library keeps threads and tables
/// of its own until the end.
struct ONNXRuntime: @unchecked Sendable {
    /// The path of its library in the models directory.
    static let library = "sherpa-onnx/lib/libonnxruntime.so"

    /// The runtime's functions.
    let table: parley_ort
    let environment: parley_ort_environment
    /// Names the memory of the process to the runtime.
    let memory: parley_ort_memory

    /// The open ones, by the paths of their libraries: a process has one models directory.
    private static let open = Mutex<[String: ONNXRuntime]>([:])

    /// The runtime of a models directory. The first call compares the library with its checksum, as a
    /// damaged one may end the process, and opens it for the life of the process.
    static func opened(modelsDirectory: String) throws(ModelFault) -> ONNXRuntime {
        try open.withLock { open throws(ModelFault) in
            let path = "\(modelsDirectory)/\(library)"
            if let runtime = open[path] { return runtime }
            if let fault = ModelChecksums(directory: modelsDirectory)?.firstFault(of: [library]) {
                throw ModelFault(fault)
            }
            do throws(ONNXError) {
                let runtime = try ONNXRuntime(path: path)
                open[path] = runtime
                return runtime
            } catch {
                throw .refused(error.message)
            }
        }
    }

    private init(path: String) throws(ONNXError) {
        guard let handle = dlopen(path, RTLD_NOW | RTLD_LOCAL),
            let base = dlsym(handle, "OrtGetApiBase")
        else {
            let reason = dlerror().map { String(cString: $0) }
            throw ONNXError(message: reason ?? "the library has no OrtGetApiBase")
        }
        guard let table = parley_ort_open(base) else {
            throw ONNXError(message: "the ONNX runtime is older than 1.17")
        }
        self.table = table
        environment = try Self.made(table) { parley_ort_create_environment(table, 3, "parley", $0) }
        memory = try Self.made(table) { parley_ort_create_memory(table, $0) }
    }

    /// Throws what a status says, and releases it.
    private static func check(
        _ table: parley_ort, _ status: parley_ort_status?
    ) throws(ONNXError) {
        guard let status else { return }
        defer { parley_ort_release_status(table, status) }
        let message = parley_ort_message(table, status).map { String(cString: $0) }
        throw ONNXError(message: message ?? "no reason was given")
    }

    /// The object that a function makes. `body` gets the place for it, and returns the status.
    private static func made(
        _ table: parley_ort,
        _ body: (UnsafeMutablePointer<OpaquePointer?>) -> parley_ort_status?
    ) throws(ONNXError) -> OpaquePointer {
        var object: OpaquePointer?
        try check(table, body(&object))
        guard let object else { throw ONNXError(message: "the runtime made nothing") }
        return object
    }

    /// Throws what a status says, and releases it.
    func check(_ status: parley_ort_status?) throws(ONNXError) {
        try Self.check(table, status)
    }

    /// The object that a function makes. `body` gets the place for it, and returns the status.
    func made(
        _ body: (UnsafeMutablePointer<OpaquePointer?>) -> parley_ort_status?
    ) throws(ONNXError) -> OpaquePointer { try Self.made(table, body) }
}
