// Claims about an idle worker's memory, and about the time that a worker takes to start.

import CLinux

extension Claim {
    /// Memory of an idle worker.
    static func idleWorker(_ size: ClaimSize) -> Claim {
        Claim(
            name: "idle-worker", title: "Memory of an idle worker",
            published: "Node 80–120 MB, Python 120–150 MB",
            measures: [
                Measure(word: "resident", title: "resident", unit: "MiB"),
                Measure(word: "anonymous", title: "of it anonymous", unit: "MiB"),
            ],
            contenders: Stack.allCases.map { Contender(stack: $0) }, rounds: size.rounds,
            remarks: """
                The agent server of each stack, one process, 1.5 s after its start, before any \
                connection: `Rss` and `Anonymous` of /proc/PID/smaps_rollup.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            poll(nil, 0, 1_500)
            let memory = try MemoryMap(of: server.process.identifier)
            let mebibyte = Double(1 << 20)
            return [
                "resident": Double(memory.resident) / mebibyte,
                "anonymous": Double(memory.anonymous) / mebibyte,
            ]
        }
    }

    /// From the start of a process to its first session.
    static func coldStart(_ size: ClaimSize) -> Claim {
        Claim(
            name: "cold-start", title: "Cold start",
            published: "Node 150–250 ms, Python 400–600 ms",
            measures: [Measure(word: "start", title: "exec → first session", unit: "ms")],
            contenders: Stack.allCases.map { Contender(stack: $0) }, rounds: size.rounds + 2,
            remarks: """
                From the start of the process to the answer (101) to a WebSocket upgrade at \
                `/v1/realtime`, asked again every millisecond; files are in the page cache. About \
                3 ms of each are taskset's and setpriv's.
                """
        ) { (bench, contender) throws(LoadFailure) in
            // Starts the model, whose start must not be measured.
            _ = try bench.modelURL()
            let begin = monotonicNanoseconds()
            let server = try bench.launch(contender.stack)
            let target = server.connections(path: "/v1/realtime?model=scripted")
            while monotonicNanoseconds() - begin < 30_000_000_000 {
                if let descriptor = try? target.connect() {
                    defer { close(descriptor) }
                    try target.upgrade([descriptor])
                    return ["start": Double(monotonicNanoseconds() - begin) / 1e6]
                }
                try server.checkIsRunning()
                poll(nil, 0, 1)
            }
            throw LoadFailure("no session within 30 s")
        }
    }
}
