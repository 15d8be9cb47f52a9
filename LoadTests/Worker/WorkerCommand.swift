// A worker: a process with one thread, one epoll and a share of a scenario's sessions. ScenarioRun
// starts several, because a process has at most 20,000 descriptors and a thread at most one core.

import ArgumentParser
import CLinux
import Foundation

/// `parley-load worker`: started by the commands that run scenarios.
struct WorkerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker", abstract: "A share of a scenario's sessions.", shouldDisplay: false)

    func run() throws {
        do throws(LoadFailure) {
            try Worker().run()
        } catch {
            Worker.say(.failed(error.reason))
        }
    }
}

/// The worker's loop.
private final class Worker {
    /// Interval of the progress reports, in nanoseconds.
    private static let reportInterval: Int64 = 500_000_000
    /// Time in which the last answers may still arrive.
    private static let rest: Int64 = 1_000_000_000
    /// The epoll token of the parent's pipe.
    private static let parentToken = UInt64.max

    private let epoll = epoll_create1(0)
    private let crowd: Crowd
    private var nextReport: Int64
    private var saysOpened = false
    private var saysMeasured = false
    private var input: [UInt8] = []

    init() throws(LoadFailure) {
        raiseDescriptorLimit()
        guard let line = readLine(),
            let order = try? JSONDecoder().decode(WorkerOrder.self, from: Data(line.utf8))
        else { throw LoadFailure("a worker was given no order") }
        crowd = try Crowd(order, epoll: epoll)
        nextReport = monotonicNanoseconds() + Self.reportInterval
        guard parley_epoll_control(epoll, EPOLL_CTL_ADD, 0, EPOLLIN.rawValue, Self.parentToken) == 0
        else { throw .system("epoll_ctl") }
    }

    deinit { close(epoll) }

    static func say(_ report: WorkerReport) {
        guard var bytes = try? JSONEncoder().encode(report) else { return }
        bytes.append(UInt8(ascii: "\n"))
        bytes.withUnsafeBytes { all in
            var rest = all
            while !rest.isEmpty {
                let count = write(1, rest.baseAddress, rest.count)
                guard count > 0 else { return }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
    }

    func run() throws(LoadFailure) {
        var events = [epoll_event](repeating: epoll_event(), count: 512)
        while true {
            let count = try waitForEvents(
                epoll, &events, until: min(crowd.wheel.nextCheck, nextReport))
            for event in events.prefix(count) {
                if event.data.u64 == Self.parentToken {
                    guard try readCalls() else { return }
                } else {
                    crowd.handle(Int(event.data.u64), event.events)
                }
            }
            let now = monotonicNanoseconds()
            crowd.fire(at: now)
            report(at: now)
        }
    }

    /// Carries out the parent's calls.
    /// - Returns: false when the parent has ended.
    private func readCalls() throws(LoadFailure) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = read(0, &buffer, buffer.count)
        guard count > 0 else { return false }
        input += buffer[..<count]
        while let end = input.firstIndex(of: UInt8(ascii: "\n")) {
            let line = Data(input[..<end])
            input.removeFirst(end + 1)
            guard let call = try? JSONDecoder().decode(WorkerCall.self, from: line) else {
                throw LoadFailure("a worker does not understand its parent")
            }
            switch call {
            case .measure(let begin, let end): crowd.begin(begin..<end)
            case .end:
                crowd.end()
                Self.say(.ended)
            }
        }
        return true
    }

    private func report(at now: Int64) {
        if !saysOpened, crowd.unsettled == 0 {
            saysOpened = true
            Self.say(.opened)
        }
        if let window = crowd.window, !saysMeasured, isOver(window, at: now) {
            saysMeasured = true
            crowd.readSlowReaders()
            crowd.countOverdue()
            Self.say(
                .measured(
                    WorkerResult(
                        counts: crowd.counts, errors: crowd.errors,
                        latencies: crowd.latencies.buckets)))
        }
        guard now >= nextReport else { return }
        nextReport = now + Self.reportInterval
        Self.say(
            .progress(
                WorkerProgress(
                    open: crowd.open, counts: crowd.counts,
                    errors: crowd.errors.values.reduce(0, +),
                    interval: crowd.latencies.takeInterval())))
    }

    private func isOver(_ window: Range<Int64>, at now: Int64) -> Bool {
        guard now >= window.upperBound + Self.rest else { return false }
        let patience = Int64(crowd.scenario.turnPatience * 1e9)
        let isQuiet = crowd.turnsInFlight == 0 && crowd.unsettled == 0
        return isQuiet || now >= window.upperBound + patience
    }
}
