// Claims about rates that need no model: echoes over WebSocket, and the smallest answers over HTTP.
// Both are closed loops with one request in flight on each connection. They measure the throughput
// of a core, not the latency under a given load.

import CLinux
import Foundation

extension Claim {
    /// WebSocket messages per second.
    static func echo(_ size: ClaimSize) -> Claim {
        let (node, fastapi) = (Contender(stack: .node), Contender(stack: .fastapi))
        return Claim(
            name: "echo", title: "WebSocket throughput",
            published: [
                PublishedClaim(
                    text: "Node has 2–3 times Python's throughput", source: .tables,
                    conditions: [
                        .ratio(
                            node, to: fastapi, measure: "rate",
                            in: ClaimBounds(least: 2, most: 3))
                    ])
            ],
            measures: [
                Measure(
                    word: "rate", title: "messages echoed", unit: "/s", places: 0, isGain: true),
                Measure(word: "cost", title: "server's CPU per message", unit: "µs", places: 2),
            ],
            contenders: Stack.agents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: 1.5 + Double(size.slice) / 1_000,
            remarks: """
                100 connections, 160 bytes, one message in flight on each, \(size.slice) ms each \
                time; every byte is checked. `make bench-echo` compares echoes more closely.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            let process = try bench.start(
                [
                    bench.executable, "echo-generator", "--port", "\(server.port)",
                    "--process", "\(server.process.identifier)", "--connections", "100",
                    "--path", contender.stack.echoPath,
                ], name: "the generator", core: ClaimBench.loadCore, isTalking: true)
            guard case .ready = try answer(of: process) else {
                throw LoadFailure("the generator is out of step")
            }
            let order = SliceOrder(
                kind: .echo, bytes: 160, depth: 1, warmUp: 500, length: size.slice)
            guard var line = try? JSONEncoder().encode(order) else {
                throw LoadFailure("the order cannot be written")
            }
            line.append(UInt8(ascii: "\n"))
            process.input?.write(line)
            guard case .done(let result) = try answer(of: process), result.count > 0 else {
                throw LoadFailure("nothing was echoed")
            }
            return ["rate": result.rate, "cost": result.serverMicroseconds]
        }
    }

    private static func answer(of process: PinnedProcess) throws(LoadFailure) -> GeneratorLine {
        guard let data = process.readLine(within: 60),
            let line = try? JSONDecoder().decode(GeneratorLine.self, from: data)
        else { throw LoadFailure("no answer of the echo generator within 60 s") }
        if case .failed(let reason) = line { throw LoadFailure(reason) }
        return line
    }

    /// Requests per second of the smallest answer.
    static func hello(_ size: ClaimSize) -> Claim {
        let pairs: [(text: String, ratio: Double)] = [
            ("Fastify 46,664 requests a second, FastAPI about 42,000", 46_664.0 / 42_000),
            ("Fastify about 30,000 requests a second, FastAPI about 25,000", 30.0 / 25),
            ("Fastify 35,000 requests a second, FastAPI 22,000", 35.0 / 22),
        ]
        let http = Contender(stack: .nodeHTTP)
        return Claim(
            name: "hello", title: "Hello world over HTTP",
            published: pairs.map { pair in
                PublishedClaim(
                    text: pair.text, source: .tables,
                    conditions: [
                        .ratio(
                            http, to: Contender(stack: .fastapi), measure: "rate",
                            in: .about(pair.ratio))
                    ])
            },
            measures: [
                Measure(word: "rate", title: "requests", unit: "/s", places: 0, isGain: true),
                Measure(word: "p99", title: "p99", unit: "ms", places: 2),
            ],
            contenders: Stack.webServers.map { Contender(stack: $0) },
            rounds: size.rounds, seconds: 1 + Double(size.wrkSeconds),
            remarks: """
                `wrk -t1 -c64` for \(size.wrkSeconds) s on the other core: one worker, one core, \
                keep-alive. Fastify comes with npm alone, so `node:http`, which it is built on, \
                stands for it; the other row of Node has `ws` beside it. Parley's is `/healthz`, \
                FastAPI's `{"hello": "world"}`. The verdict is on the ratio of the two stacks.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            let url = "http://127.0.0.1:\(server.port)\(contender.stack.helloPath ?? "/")"
            let lines = try bench.output(
                of: [
                    "/usr/bin/wrk", "-t1", "-c64", "-d\(size.wrkSeconds)s", "--latency", url,
                ], name: "wrk", within: Double(size.wrkSeconds) + 30)
            try server.checkIsRunning()
            return try readWrk(lines)
        }
    }

    /// Reads the output of wrk.
    /// - Throws: `LoadFailure` when a request failed, or nothing was measured.
    static func readWrk(_ lines: [String]) throws(LoadFailure) -> Sample {
        var sample: Sample = [:]
        for line in lines {
            let words = line.split(separator: " ")
            if words.first == "Requests/sec:" { sample["rate"] = words.last.flatMap { Double($0) } }
            if words.first == "99%" { sample["p99"] = words.last.flatMap(milliseconds) }
            if line.contains("Non-2xx") || line.contains("Socket errors") {
                throw LoadFailure(line.trimmingCharacters(in: .whitespaces))
            }
        }
        guard sample["rate"] != nil else {
            throw LoadFailure("wrk said nothing: is it installed (scripts/setup-apt.sh peers)?")
        }
        return sample
    }

    /// `1.23ms`, `870.00us` or `1.02s` in milliseconds.
    private static func milliseconds(_ text: Substring) -> Double? {
        for (unit, factor) in [("us", 0.001), ("ms", 1), ("s", 1_000)] where text.hasSuffix(unit) {
            return Double(text.dropLast(unit.count)).map { $0 * factor }
        }
        return nil
    }
}
