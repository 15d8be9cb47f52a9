// A model that the ONNX runtime runs. ONNXTensor is what it reads and makes.

import CLinux
import CONNXRuntime

/// A model in memory. Several threads may run it at once; each run uses the thread that calls it.
final class ONNXModel: @unchecked Sendable {
    /// The runtime that runs it, and that makes tensors for it.
    let runtime: ONNXRuntime
    private let session: parley_ort_session

    /// Loads a model.
    /// - Parameter keepsMemory: whether the memory of a run is kept for the next one. False for a model
    ///   whose runs need much: the process would keep as much as the longest input has taken.
    init(
        path: String, runtime: ONNXRuntime, keepsMemory: Bool = true
    ) throws(ONNXError) {
        self.runtime = runtime
        let options = try runtime.made { parley_ort_create_options(runtime.table, $0) }
        defer { parley_ort_release_options(runtime.table, options) }
        try runtime.check(parley_ort_set_threads(runtime.table, options, 1))
        // A pattern would keep a block for each length of an input.
        try runtime.check(parley_ort_disable_memory_patterns(runtime.table, options))
        if !keepsMemory { try runtime.check(parley_ort_disable_arena(runtime.table, options)) }
        session = try runtime.made {
            parley_ort_create_session(runtime.table, runtime.environment, path, options, $0)
        }
    }

    deinit { parley_ort_release_session(runtime.table, session) }

    /// Runs the model.
    /// - Parameters:
    ///   - inputs: the inputs by their names. One that an earlier run has made is read where it lies.
    ///   - outputs: the names of the wanted outputs.
    ///   - interruption: ends the run early, with an error.
    /// - Returns: the outputs, in the order of their names.
    func run(
        _ inputs: [(name: String, tensor: ONNXTensor)], outputs: [String],
        until interruption: ONNXInterruption? = nil
    ) throws(ONNXError) -> [ONNXTensor] {
        let inputNames = inputs.map { UnsafePointer(strdup($0.name)) }
        let outputNames = outputs.map { UnsafePointer(strdup($0)) }
        defer {
            for name in inputNames + outputNames { free(UnsafeMutablePointer(mutating: name)) }
        }
        let values: [parley_ort_value?] = inputs.map(\.tensor.value)
        var results = [parley_ort_value?](repeating: nil, count: outputs.count)
        let options = try interruption?.options(of: runtime)
        try withExtendedLifetime((inputs, interruption)) { () throws(ONNXError) in
            try runtime.check(
                parley_ort_run(
                    runtime.table, session, options, inputNames, values, values.count, outputNames,
                    outputs.count, &results))
        }
        let tensors = results.map { $0.map { ONNXTensor(made: $0, by: runtime) } }
        guard tensors.allSatisfy({ $0 != nil }) else {
            throw ONNXError(message: "the model made no output")
        }
        return tensors.compactMap { $0 }
    }
}
