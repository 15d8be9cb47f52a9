// The ONNX runtime, opened at run time: sherpa-onnx brings it along for the recogniser. Only what
// the natural voice needs: a model from a file, tensors of floats and integers, one output. Each
// status of the runtime is checked.

import CLinux
import CONNXRuntime

/// The message of the runtime, or of the dynamic linker. It may name files by their whole path.
struct ONNXError: Error, Equatable {
    var message: String
}

/// The runtime of the process. Any thread. It is never freed: its library keeps threads and tables
/// of its own until the end.
struct ONNXRuntime: @unchecked Sendable {
    /// The runtime's functions.
    fileprivate let table: parley_ort
    fileprivate let environment: parley_ort_environment
    /// Names the memory of the process to the runtime.
    fileprivate let memory: parley_ort_memory

    /// Opens the library, which stays open for the life of the process.
    init(path: String) throws(ONNXError) {
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

    fileprivate func check(_ status: parley_ort_status?) throws(ONNXError) {
        try Self.check(table, status)
    }

    fileprivate func made(
        _ body: (UnsafeMutablePointer<OpaquePointer?>) -> parley_ort_status?
    ) throws(ONNXError) -> OpaquePointer { try Self.made(table, body) }
}

/// A model in memory. Several threads may run it at once; each run uses the thread that calls it.
final class ONNXModel: @unchecked Sendable {
    /// An input of a model. The product of a shape is the number of elements.
    enum Input {
        case integers([Int64], shape: [Int64])
        case floats([Float], shape: [Int64])
    }

    private let runtime: ONNXRuntime
    private let session: parley_ort_session

    /// Loads a model.
    init(path: String, runtime: ONNXRuntime) throws(ONNXError) {
        self.runtime = runtime
        let options = try runtime.made { parley_ort_create_options(runtime.table, $0) }
        defer { parley_ort_release_options(runtime.table, options) }
        try runtime.check(parley_ort_set_threads(runtime.table, options, 1))
        // A pattern would keep a block for each length of a clause.
        try runtime.check(parley_ort_disable_memory_patterns(runtime.table, options))
        session = try runtime.made {
            parley_ort_create_session(runtime.table, runtime.environment, path, options, $0)
        }
    }

    deinit { parley_ort_release_session(runtime.table, session) }

    /// Runs the model.
    /// - Parameters:
    ///   - inputs: the inputs by their names.
    ///   - output: the name of the wanted output, whose elements are floats.
    /// - Returns: the elements of the output.
    func run(
        _ inputs: [(name: String, value: Input)], output: String
    ) throws(ONNXError) -> [Float] {
        var tensors: [ONNXTensor] = []
        for input in inputs { tensors.append(try ONNXTensor(input.value, runtime)) }
        let names = inputs.map { strdup($0.name) }
        defer { for name in names { free(name) } }
        let values: [parley_ort_value?] = tensors.map(\.value)
        let result = try withExtendedLifetime(tensors) { () throws(ONNXError) in
            try runtime.made {
                parley_ort_run(
                    runtime.table, session, names.map { UnsafePointer($0) }, values, values.count,
                    output, $0)
            }
        }
        defer { parley_ort_release_value(runtime.table, result) }
        return try elements(of: result)
    }

    private func elements(of value: parley_ort_value) throws(ONNXError) -> [Float] {
        let shape = try runtime.made { parley_ort_shape_of(runtime.table, value, $0) }
        defer { parley_ort_release_shape(runtime.table, shape) }
        var (type, count): (Int32, Int) = (0, 0)
        try runtime.check(parley_ort_element_type(runtime.table, shape, &type))
        try runtime.check(parley_ort_element_count(runtime.table, shape, &count))
        guard type == ONNXTensor.float else {
            throw ONNXError(message: "the output has elements of type \(type)")
        }
        var data: UnsafeMutablePointer<Float>?
        try runtime.check(parley_ort_data(runtime.table, value, &data))
        return Array(UnsafeBufferPointer(start: data, count: data == nil ? 0 : count))
    }
}

/// An input in memory of its own, as the runtime reads it.
private final class ONNXTensor {
    static let float = Int32(PARLEY_ORT_FLOAT)
    private static let int64 = Int32(PARLEY_ORT_INT64)

    let value: parley_ort_value
    private let memory: UnsafeMutableRawBufferPointer
    private let runtime: ONNXRuntime

    init(_ input: ONNXModel.Input, _ runtime: ONNXRuntime) throws(ONNXError) {
        let (shape, type): ([Int64], Int32)
        switch input {
        case .integers(let elements, let wanted):
            (shape, type) = (wanted, Self.int64)
            memory = elements.withUnsafeBytes(Self.copy)
        case .floats(let elements, let wanted):
            (shape, type) = (wanted, Self.float)
            memory = elements.withUnsafeBytes(Self.copy)
        }
        self.runtime = runtime
        let memory = memory
        do throws(ONNXError) {
            value = try runtime.made {
                parley_ort_create_tensor(
                    runtime.table, runtime.memory, memory.baseAddress, memory.count, shape,
                    shape.count, type, $0)
            }
        } catch {
            memory.deallocate()
            throw error
        }
    }

    deinit {
        parley_ort_release_value(runtime.table, value)
        memory.deallocate()
    }

    private static func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawBufferPointer {
        let memory = UnsafeMutableRawBufferPointer.allocate(
            byteCount: bytes.count, alignment: MemoryLayout<Int64>.alignment)
        memory.copyMemory(from: bytes)
        return memory
    }
}
