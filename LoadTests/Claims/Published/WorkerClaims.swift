// Claims about an idle worker's memory and threads, and about the time that a worker takes to start.

import CLinux

extension Claim {
    /// Memory and threads of an idle worker.
    static func idleWorker(_ size: ClaimSize) -> Claim {
        let (node, http) = (Contender(stack: .node), Contender(stack: .nodeHTTP))
        let nodeRange = ClaimBounds(least: 80, most: 120)
        return Claim(
            name: "idle-worker", title: "Memory of an idle worker",
            published: [
                PublishedClaim(
                    text: "Node 80–100 MB (elsewhere 80–120), Python 120–150 MB",
                    source: .tables,
                    conditions: [
                        .figure(node, measure: "resident", in: nodeRange),
                        .figure(http, measure: "resident", in: nodeRange),
                        .figure(
                            Contender(stack: .fastapi), measure: "resident",
                            in: ClaimBounds(least: 120, most: 150)),
                    ])
            ],
            measures: [
                Measure(word: "resident", title: "resident", unit: "MB"),
                Measure(word: "anonymous", title: "of it anonymous", unit: "MB"),
                Measure(word: "threads", title: "threads", unit: "", places: 0),
            ],
            contenders: Stack.allCases.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: 2.3,
            remarks: """
                The agent server of each stack, one process, 1.5 s after its start, before any \
                connection: `Rss` and `Anonymous` of /proc/PID/smaps_rollup, and `Threads` of \
                /proc/PID/status. Published figures are those of whole applications, these of \
                servers with nothing else in them.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            poll(nil, 0, 1_500)
            try server.checkIsRunning()
            let memory = try MemoryMap(of: server.process.identifier)
            var sample = [
                "resident": Double(memory.resident) / 1e6,
                "anonymous": Double(memory.anonymous) / 1e6,
            ]
            let status = readSmallFile("/proc/\(server.process.identifier)/status") ?? ""
            sample["threads"] = status.split(separator: "\n").first { $0.hasPrefix("Threads:") }?
                .split(separator: "\t").last.flatMap { Double($0) }
            return sample
        }
    }

    /// From the start of a process to its first session.
    static func coldStart(_ size: ClaimSize) -> Claim {
        let (node, fastapi) = (Contender(stack: .node), Contender(stack: .fastapi))
        return Claim(
            name: "cold-start", title: "Cold start",
            published: [
                PublishedClaim(
                    text: "Node 150–300 ms (elsewhere 150–250), Python 400–600 ms",
                    source: .tables,
                    conditions: [
                        .ratio(
                            node, to: fastapi, measure: "start",
                            in: ClaimBounds(least: 150.0 / 600, most: 300.0 / 400))
                    ])
            ],
            measures: [Measure(word: "start", title: "exec → first session", unit: "ms")],
            contenders: Stack.agents.map { Contender(stack: $0) }, rounds: size.rounds + 2,
            seconds: 0.8,
            remarks: """
                From the start of the process to the answer (101) to a WebSocket upgrade at \
                `/v1/realtime`, asked again every millisecond; files are in the page cache. About \
                3 ms of each are taskset's and setpriv's. The verdict is on the ratio of the two \
                stacks: the published ranges allow 0.25 … 0.75.
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
