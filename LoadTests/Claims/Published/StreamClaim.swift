// The claim about server-sent events: many concurrent replies to POST /v1/chat/completions, which
// each stack streams from the scripted model.

import CLinux

extension Claim {
    /// Concurrent streams of server-sent events.
    static func streams(_ size: ClaimSize) -> Claim {
        let (node, fastapi) = (Contender(stack: .node), Contender(stack: .fastapi))
        let ceiling = Double(size.streams)
        let all = ClaimBounds(least: 10_000)
        return Claim(
            name: "sse", title: "Server-sent events: streams at once",
            published: [
                PublishedClaim(
                    text: "Node and FastAPI both handle 10,000 concurrent streams",
                    source: .tables,
                    conditions: [node, fastapi].map {
                        .figure($0, measure: "streams", in: all, ceiling: ceiling)
                    }),
                PublishedClaim(
                    text: "p95 of a streaming endpoint 180 ms (Node) and 165 ms (FastAPI)",
                    source: .tables,
                    conditions: [
                        .ratio(node, to: fastapi, measure: "p95", in: .about(180.0 / 165))
                    ]),
            ],
            measures: [
                Measure(
                    word: "streams", title: "streams held", unit: "", places: 0, isGain: true),
                Measure(word: "p95", title: "delay per delta, p95", unit: "ms", places: 2),
                Measure(word: "p50", title: "p50", unit: "ms", places: 2),
                Measure(word: "p99", title: "p99", unit: "ms", places: 2),
                Measure(
                    word: "first", title: "request → first delta beyond the model's, p95",
                    unit: "ms", places: 1),
            ],
            contenders: size.chatStacks.filter(Stack.webServers.contains).map {
                Contender(stack: $0)
            }, rounds: size.rounds, seconds: 7 + Double(size.streamDeltas),
            remarks: """
                \(grouped(size.streams)) streams; each gets a delta a second for \
                \(size.streamDeltas) s. They begin evenly over 4 s, which is \
                \(grouped(size.streams / 4)) requests a second. Held: none is refused, breaks off or \
                lacks a delta. A stream takes two descriptors of its server, its client's and the \
                model's: the limit of \(grouped(raiseDescriptorLimit())) for a process decides \
                whether 10,000 can be shown. The load of the published p95 is not known.
                """
        ) { (bench, contender) throws(LoadFailure) in
            let server = try bench.start(contender.stack)
            let crowd = EventStreamCrowd(
                target: server.connections(path: "/v1/chat/completions"),
                streams: size.streams, deltas: size.streamDeltas)
            let result = try crowd.run()
            try server.checkIsRunning()
            return result.merging(["streams": Double(size.streams)]) { $1 }
        }
    }
}
