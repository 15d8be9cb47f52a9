// A host whose jobs run in a task that has just been cancelled.

import Session

/// Cancels the task that asks for a job, and runs the job.
final class CancellingHost: HostWithoutServices {
    func sleep(for duration: Duration) async throws {}

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        withUnsafeCurrentTask { $0?.cancel() }
        return try work()
    }
}
