// The parent's side of the worker processes: starts them, sends orders and calls, and receives
// their reports, which it passes to ScenarioRun.

import CLinux
import Foundation

/// The worker processes of one run. They end when the object is freed.
final class WorkerGroup {
    private let processes: [PinnedProcess]
    private var unread: [[UInt8]]
    private var buffer = [UInt8](repeating: 0, count: 256 << 10)

    /// Starts the workers and sends their orders.
    /// - Parameters:
    ///   - order: the order; each worker gets it with its own number.
    ///   - core: the core that they share; nil: not pinned.
    init(
        _ order: WorkerOrder, executable: String, core: Int?
    ) throws(LoadFailure) {
        var processes: [PinnedProcess] = []
        for worker in 0..<order.workers {
            let process = try PinnedProcess([executable, "worker"], core: core, isTalking: true)
            var share = order
            share.worker = worker
            try Self.tell(share, to: process)
            processes.append(process)
        }
        self.processes = processes
        unread = .init(repeating: [], count: processes.count)
    }

    /// The processes' identifiers.
    var identifiers: [Int32] { processes.map(\.identifier) }

    /// Sends a call to all workers.
    func call(_ call: WorkerCall) throws(LoadFailure) {
        for process in processes { try Self.tell(call, to: process) }
    }

    private static func tell(
        _ value: some Encodable, to process: PinnedProcess
    ) throws(LoadFailure) {
        guard var line = try? JSONEncoder().encode(value) else {
            throw LoadFailure("an order cannot be written")
        }
        line.append(UInt8(ascii: "\n"))
        do { try process.input?.write(contentsOf: line) } catch {
            throw LoadFailure("a worker has ended")
        }
    }

    /// Waits until the deadline for reports, and handles those that arrive.
    /// - Throws: `LoadFailure` when one has ended or failed.
    func gather(
        until deadline: Int64, _ handle: (Int, WorkerReport) -> Void
    ) throws(LoadFailure) {
        var entries = processes.map {
            pollfd(fd: $0.output?.fileDescriptor ?? -1, events: Int16(POLLIN), revents: 0)
        }
        let left = deadline - monotonicNanoseconds()
        let count = poll(
            &entries, nfds_t(entries.count), Int32(max(0, left + 999_999) / 1_000_000))
        guard count > 0 else { return }
        for (worker, entry) in entries.enumerated() where entry.revents != 0 {
            let count = read(entry.fd, &buffer, buffer.count)
            guard count > 0 else { throw LoadFailure("worker \(worker) has ended") }
            unread[worker] += buffer[..<count]
            try takeLines(of: worker, handle)
        }
    }

    private func takeLines(
        of worker: Int, _ handle: (Int, WorkerReport) -> Void
    ) throws(LoadFailure) {
        var start = 0
        while let end = unread[worker][start...].firstIndex(of: UInt8(ascii: "\n")) {
            let line = Data(unread[worker][start..<end])
            start = end + 1
            guard let report = try? JSONDecoder().decode(WorkerReport.self, from: line) else {
                throw LoadFailure("worker \(worker) is out of step")
            }
            if case .failed(let reason) = report { throw LoadFailure(reason) }
            handle(worker, report)
        }
        unread[worker].removeFirst(start)
    }
}
