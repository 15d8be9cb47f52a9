// Ends a run of a model before it is done.

import CONNXRuntime
import Session
import Synchronization

extension AgentHost {
    /// Runs models on a worker thread, and ends their runs when the task is cancelled.
    /// - Throws: `CancellationError` then; otherwise what `work` or the host throws.
    func computeInterruptibly<Result: Sendable>(
        _ work: @escaping @Sendable (ONNXInterruption) throws -> Result
    ) async throws -> Result {
        let interruption = ONNXInterruption()
        return try await withTaskCancellationHandler {
            try await compute {
                do { return try work(interruption) } catch {
                    throw interruption.isInterrupted ? CancellationError() : error
                }
            }
        } onCancel: {
            interruption.interrupt()
        }
    }
}

/// Whether runs of models are still wanted. Any thread.
final class ONNXInterruption: @unchecked Sendable {
    private struct State {
        var isInterrupted = false
        /// The runtime's own flag. Made with the first run.
        var options: parley_ort_run_options?
        var table: parley_ort?
    }

    private let state = Mutex(State())

    deinit {
        state.withLock {
            if let table = $0.table { parley_ort_release_run_options(table, $0.options) }
        }
    }

    /// Whether `interrupt` was called.
    var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    /// Ends the runs: within the operation that each is at. Later ones end at once.
    func interrupt() {
        state.withLock {
            $0.isInterrupted = true
            if let table = $0.table { parley_ort_interrupt(table, $0.options) }
        }
    }

    /// What a run is told.
    func options(of runtime: ONNXRuntime) throws(ONNXError) -> parley_ort_run_options {
        try state.withLock { state throws(ONNXError) in
            guard !state.isInterrupted else { throw ONNXError(message: "the run is not wanted") }
            if let options = state.options { return options }
            let options = try runtime.made { parley_ort_create_run_options(runtime.table, $0) }
            (state.options, state.table) = (options, runtime.table)
            return options
        }
    }
}
