// `make million`: up to a million sessions in one process on a simulated kernel. It measures the
// user-space memory and CPU that a session takes to open, to keep, to talk with and to close, at
// growing counts. The cost per session should not grow with the count; the longest tick shows the
// cost of growing a table.
//
// The figures are Parley's alone: the simulated kernel uses ten bytes per socket, allocated before
// the measurement, and there are no real sockets. There is one shard, as on one core.

import ArgumentParser
import CLinux
import Codec
import Logging
import Server
import Session

@main
struct SessionCensus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "session-census",
        abstract: "Count what sessions take, up to a million in one process.")

    @Option(help: "How many sessions are looked at, growing.")
    var counts = "10000,100000,300000,1000000"

    @Option(help: "Sessions that talk while the others are open.")
    var talking = 1_000

    @Option(help: "Deltas of each reply.")
    var deltas = 50

    @Flag(help: "WebSockets without sessions (/debug/echo), for comparison.")
    var echo = false

    func run() throws {
        let steps = counts.split(separator: ",").compactMap { Int($0) }
        guard let last = steps.last, steps == steps.sorted(), (steps.first ?? 0) > 0,
            last <= 16_000_000
        else { throw ValidationError("--counts is a list of growing numbers up to 16,000,000") }
        guard (1...steps[0]).contains(talking), deltas > 0 else {
            throw ValidationError("--talking is at most the first count, --deltas 1 or more")
        }
        let world = CensusWorld(
            capacity: last + CensusWorld.rehearsal, deltas: deltas, isEcho: echo)
        try world.rehearse(talking: echo ? 0 : talking)
        let before = MemoryUse()
        var rows: [CensusRow] = []
        for count in steps {
            rows.append(world.grow(to: count, before, talking: echo ? 0 : talking))
            printError("\(count) open")
        }
        let end = world.closeAll(before)
        print(CensusReport(rows: rows, end: end, before: before).text)
        guard end.ledgerBytes == 0, end.connections == 0, end.chunks == 0 else {
            printError("something is left: \(end)")
            throw ExitCode(1)
        }
    }

    private func printError(_ text: String) {
        let line = text + "\n"
        _ = line.utf8.withContiguousStorageIfAvailable { write(2, $0.baseAddress, $0.count) }
    }
}

/// The measurements at one count.
struct CensusRow {
    var count = 0
    /// Anonymous memory per session, beyond that without sessions.
    var anonymousBytes = 0.0
    var ledgerBytes = 0.0
    /// Microseconds of CPU per opened session.
    var opening = 0.0
    /// The longest tick of the shard meanwhile, in microseconds.
    var longestTick = 0.0
    /// Microseconds of CPU per session and ping, the only cost of an idle session.
    var keeping = 0.0
    /// Microseconds of CPU per reply of a talking session, without pings.
    var talking = 0.0
    var delays = DeltaDelays()
    /// Milliseconds of CPU to answer an operator's request for the list of sessions, and the
    /// longest tick meanwhile.
    var asking = 0.0
    var longestAsking = 0.0
}

/// The measurements after all sessions have closed.
struct CensusEnd {
    var ledgerBytes = 0
    var connections = 0
    var chunks = 0
    /// Microseconds of CPU per closed session.
    var closing = 0.0
    var longestTick = 0.0
    /// Bytes beyond those before the first session.
    var anonymousBytes = 0
    /// The same after malloc has returned free memory to the kernel.
    var trimmedBytes = 0
}

/// A shard and its million peers.
final class CensusWorld {
    /// Sessions that are opened and closed before the measurement, to allocate what all sessions
    /// share.
    static let rehearsal = 2_000
    /// New sessions per second of virtual time. 100,000: all are open within one ping interval.
    private static let perSecond = 100_000

    private let io: CensusIO
    private let shard: Shard<CensusIO>
    private let metrics: ServerMetrics
    private let tick = ShardTick()
    private let pingInterval: Duration
    private var longestTick = 0
    /// The lowest open handle.
    private var firstOpen: IOHandle = 1
    private var opened = 0

    init(capacity: Int, deltas: Int, isEcho: Bool) {
        io = CensusIO(
            capacity: capacity, path: isEcho ? "/debug/echo" : "/v1/realtime?model=census")
        var configuration = ServerConfiguration()
        configuration.admission.maxConnections = capacity
        configuration.admission.maxSessions = capacity
        configuration.debugEcho = isEcho
        pingInterval = configuration.connection.webSocket.pingInterval
        metrics = ServerMetrics(shards: 1, workers: { WorkerCounts() })
        var services = ShardServices(
            configuration: configuration,
            agents: AgentSet(model: CensusModel(tick: tick, deltas: deltas)),
            pool: IdlePool(), metrics: metrics,
            logger: Logger(label: "census", factory: { _ in SwiftLogNoOpLogHandler() }))
        var seed: UInt64 = 0
        services.makeSessionSeed = {
            seed &+= 1
            return seed
        }
        shard = Shard(io: io, services: services)
        do {
            try shard.listen(on: CensusIO.listener)
        } catch {
            preconditionFailure("the census listens to everybody")
        }
    }

    // MARK: Steps

    /// Opens some sessions, lets some talk, and closes them.
    func rehearse(talking: Int) throws {
        open(Self.rehearsal)
        if talking > 0 { _ = talk(min(talking, Self.rehearsal)) }
        closeOpen()
        malloc_trim(0)
    }

    /// Opens sessions up to `count`, and measures.
    func grow(to count: Int, _ before: MemoryUse, talking: Int) -> CensusRow {
        var row = CensusRow(count: count)
        let new = count - opened
        longestTick = 0
        row.opening = microseconds { open(new) } / Double(new)
        row.longestTick = Double(longestTick) / 1_000
        let use = MemoryUse()
        row.anonymousBytes = Double(use.anonymousBytes - before.anonymousBytes) / Double(count)
        row.ledgerBytes = Double(metrics.total(of: .ledgerBytes)) / Double(count)
        let pings = io.pings
        let keeping = microseconds { run(for: pingInterval) }
        row.keeping = keeping / Double(max(1, io.pings - pings))
        longestTick = 0
        row.asking = microseconds { ask() } / 1_000
        row.longestAsking = Double(longestTick) / 1_000_000
        guard talking > 0 else { return row }
        let pingsBefore = io.pings
        let all = microseconds { row.delays = talk(talking) }
        row.talking = (all - Double(io.pings - pingsBefore) * row.keeping) / Double(talking)
        return row
    }

    /// Closes all sessions, and measures what is left.
    func closeAll(_ before: MemoryUse) -> CensusEnd {
        var end = CensusEnd()
        let count = opened
        longestTick = 0
        end.closing = microseconds { closeOpen() } / Double(count)
        end.longestTick = Double(longestTick) / 1_000
        end.ledgerBytes = metrics.total(of: .ledgerBytes)
        end.connections = metrics.total(of: .connectionsOpen)
        end.chunks = shard.chunksInUse
        end.anonymousBytes = MemoryUse().anonymousBytes - before.anonymousBytes
        malloc_trim(0)
        end.trimmedBytes = MemoryUse().anonymousBytes - before.anonymousBytes
        return end
    }

    private func open(_ count: Int) {
        var left = count
        while left > 0 {
            let batch = min(left, Self.perSecond / 1_000)
            io.connect(batch)
            run(for: .milliseconds(1))
            left -= batch
        }
        opened += count
    }

    /// Lets some sessions, evenly spread, have one turn each. Their deltas are spread over the
    /// pace.
    private func talk(_ count: Int) -> DeltaDelays {
        var delays = DeltaDelays()
        let stride = opened / count
        let handles = (0..<count).map { firstOpen + IOHandle($0 * stride) }
        io.listen(to: handles)
        io.listen = { [tick] in delays.read($0, tick: tick.number) }
        let gap = Duration.nanoseconds(20_000_000 / count)
        for handle in handles {
            io.send(.turn, from: handle)
            run(for: gap)
        }
        while delays.replies < count { run(for: .milliseconds(100)) }
        io.listen = { _ in }
        io.listen(to: [])
        return delays
    }

    /// Lets an operator request the list of sessions.
    private func ask() {
        let before = io.operatorBytes
        io.connectOperator()
        while io.operatorBytes == before { run(for: .zero) }
    }

    private func closeOpen() {
        for handle in firstOpen..<(firstOpen + IOHandle(opened)) {
            io.send(.close, from: handle)
            if handle % 64 == 0 { run(for: .zero) }
        }
        run(for: .seconds(30))
        firstOpen += IOHandle(opened)
        opened = 0
    }

    // MARK: Time

    /// Runs for a period of virtual time.
    private func run(for duration: Duration) {
        io.horizon = io.now + duration
        repeat {
            tick.advance()
            let start = ThreadClock.nanoseconds
            _ = shard.tick()
            longestTick = max(longestTick, ThreadClock.nanoseconds - start)
        } while !io.isIdle
    }

    private func microseconds(_ work: () -> Void) -> Double {
        let start = ThreadClock.nanoseconds
        work()
        return Double(ThreadClock.nanoseconds - start) / 1_000
    }
}

/// Accepts no job: a census computes nothing on workers.
private struct IdlePool: ComputePool {
    let backlog = 0

    func submit(_ urgency: JobUrgency, for owner: JobOwner?, _ job: ComputeJob) -> Bool { false }
}

/// The tables of the report.
struct CensusReport {
    let rows: [CensusRow]
    let end: CensusEnd
    let before: MemoryUse

    /// The report as Markdown.
    var text: String {
        var lines = [
            "One process, one shard; \(before.anonymousBytes / 1_024) KiB anonymous before the "
                + "first session, \(CensusIO.bytesPerSocket) bytes of them for each simulated "
                + "socket.",
            "",
            "| sessions | bytes of user space each (Anonymous) | ledger each "
                + "| CPU to open, µs | longest tick, µs | CPU per ping, µs "
                + "| CPU per reply, µs | delta p50 / p99 / max, µs | in ticks "
                + "| list of sessions, ms of CPU | longest tick of it, ms |",
            "|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for row in rows {
            let delays =
                row.delays.nanoseconds.isEmpty
                ? "–"
                : [0.5, 0.99, 1].map { tenths(row.delays.quantile($0)) }.joined(separator: " / ")
            lines.append(
                "| \(row.count) | \(Int(row.anonymousBytes)) "
                    + "| \(Int(row.ledgerBytes)) | \(tenths(row.opening)) "
                    + "| \(Int(row.longestTick)) | \(tenths(row.keeping)) "
                    + "| \(tenths(row.talking)) | \(delays) | \(row.delays.ticks) "
                    + "| \(tenths(row.asking)) | \(tenths(row.longestAsking)) |")
        }
        lines += [
            "",
            "All closed: \(tenths(end.closing)) µs of CPU each, longest tick "
                + "\(Int(end.longestTick)) µs; ledger \(end.ledgerBytes), connections "
                + "\(end.connections), chunks \(end.chunks); anonymous memory "
                + "\(end.anonymousBytes / 1_024) KiB above the start, "
                + "\(end.trimmedBytes / 1_024) KiB after malloc_trim.",
        ]
        return lines.joined(separator: "\n")
    }

    private func tenths(_ value: Double) -> String {
        let scaled = Int((value * 10).rounded())
        return "\(scaled / 10).\(abs(scaled % 10))"
    }
}
