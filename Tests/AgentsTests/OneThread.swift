// How tests wait that move a clock by hand. A task that the kernel sets aside for some milliseconds
// must not find that minutes have passed on that clock: all tasks of such a test take turns on one
// thread, so each has gone on as far as it can before the clock moves.

import Dispatch
import Testing

/// A thread on which tasks take turns, in the order in which they are ready.
final class OneThread: TaskExecutor {
    static let shared = OneThread()

    private let queue = DispatchQueue(label: "one thread")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }
}

/// Runs the tests of a suite on `OneThread`. Tasks that a test begins with `Task` need its
/// `executorPreference`.
struct OneThreadTrait: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(OneThread.shared) { try await function() }
    }
}

extension Trait where Self == OneThreadTrait {
    /// All tasks of the tests take turns on one thread.
    static var onOneThread: Self { OneThreadTrait() }
}

/// Lets other tasks go on until something has happened.
/// - Throws: `CancellationError` once the time limit of the test is over.
func yield(until condition: () -> Bool) async throws {
    while !condition() {
        try Task.checkCancellation()
        await Task.yield()
    }
}
