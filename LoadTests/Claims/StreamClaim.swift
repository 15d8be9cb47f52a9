// The claim about server-sent events: many concurrent replies to POST /v1/chat/completions, which
// each stack streams from the scripted model.

import CLinux

extension Claim {
    /// Concurrent streams of server-sent events.
    static func streams(_ size: ClaimSize) -> Claim {
        let stacks = size.stacks.filter { $0.helloPath != nil }
        return Claim(
            name: "sse", title: "Server-sent events: streams at once",
            published: "both handle 10,000 connections; p95 of a streaming endpoint 180 and 165 ms",
            measures: [
                Measure(word: "p95", title: "delay per delta, p95", unit: "ms", places: 2),
                Measure(word: "p50", title: "p50", unit: "ms", places: 2),
                Measure(word: "p99", title: "p99", unit: "ms", places: 2),
                Measure(
                    word: "first", title: "request → first delta beyond the model's, p95",
                    unit: "ms", places: 1),
            ],
            contenders: size.streams.flatMap { count in
                stacks.map {
                    Contender(stack: $0, variant: "\(grouped(count)) streams", size: count)
                }
            }, rounds: 1,
            remarks: """
                Each stream gets a delta a second for \(size.streamDeltas) s; they begin evenly \
                over 4 s, which is \(grouped((size.streams.max() ?? 0) / 4)) requests a second for \
                the most. A stream that is refused, breaks off or lacks a delta fails the row. \
                9,500 instead of 10,000, as a stream is two descriptors (client and model) of the \
                20,000 of a process here.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            let crowd = EventStreamCrowd(
                target: server.connections(path: "/v1/chat/completions"),
                streams: contender.size, deltas: size.streamDeltas)
            let result = try crowd.run()
            try server.checkIsRunning()
            return result
        }
    }
}
