// The messages of the server on `/admin/live`, as JSON. Values in, text out: ShardOperators decides when they
// are sent. docs/http.md has the same in words.

import Codec
import Session

/// The state of a server at one time, apart from its sessions.
struct ServerOverview {
    let node: String
    let seconds: Int
    let residentBytes: Int
    /// Nil means that there is no limit.
    let memoryLimit: Int?
    let maxSessions: Int
    /// The kind of agent that answers sessions.
    let agent: PageAgents.Kind
    /// Whether records of sessions are kept, and recordings.
    let keepsRecords: Bool
    let keepsRecordings: Bool
    /// The lag of each shard's event loop.
    let lagMicroseconds: [Int]
    let metrics: ServerMetrics

    /// Writes `server.overview`.
    var message: ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 2_048))
        json.object { json in
            json.member("type", "server.overview")
            json.member("node", node)
            json.member("time", seconds)
            json.member("draining", metrics.isDraining.load(ordering: .relaxed))
            json.member("short_of_memory", metrics.isShortOfMemory.load(ordering: .relaxed))
            json.member("connections", metrics.total(of: .connectionsOpen))
            json.member("sessions", metrics.sessions.load(ordering: .relaxed))
            json.member("max_sessions", maxSessions)
            json.member("agent", agent.rawValue)
            json.member("keeps_records", keepsRecords)
            json.member("keeps_recordings", keepsRecordings)
            json.member("detached", metrics.detached.load(ordering: .relaxed))
            json.member("text_requests", metrics.textRequests.load(ordering: .relaxed))
            json.member("ledger_bytes", metrics.total(of: .ledgerBytes))
            json.member("resident_bytes", residentBytes)
            json.member("memory_limit_bytes", memoryLimit)
            json.member("lag_us", lagMicroseconds.max() ?? 0)
            json.object("states") { json in
                for state in SessionState.allCases {
                    json.key(text: state.rawValue)
                    json.integer(metrics.count(of: state))
                }
            }
            writeTurns(into: &json)
            writeWorkers(into: &json)
            writeShards(into: &json)
            writeProviders(into: &json)
        }
        return json.finish()
    }

    /// Writes the measurements of all turns since the start.
    private func writeTurns(into json: inout JSONWriter) {
        json.object("turns") { json in
            for (name, histogram) in [
                ("transcript", ShardHistogram.transcript), ("first_token", .firstToken),
                ("first_audio", .firstAudio),
            ] {
                var sum = metrics.shards[0].distribution(of: histogram)
                for shard in metrics.shards.dropFirst() {
                    sum.add(shard.distribution(of: histogram))
                }
                json.key(text: name)
                json.object { json in
                    json.member("count", sum.counts.reduce(0, +))
                    json.member("p50_ms", sum.quantile(0.5).map { $0 / 1_000_000 })
                    json.member("p95_ms", sum.quantile(0.95).map { $0 / 1_000_000 })
                }
            }
        }
    }

    private func writeWorkers(into json: inout JSONWriter) {
        let workers = metrics.workerCounts
        json.object("workers") { json in
            json.member("running", workers.running)
            json.member("queued", workers.queued)
            json.member("refused", workers.refused)
        }
    }

    private func writeShards(into json: inout JSONWriter) {
        json.array("shards") { json in
            for (index, shard) in metrics.shards.enumerated() {
                json.object { json in
                    json.member("shard", index)
                    json.member("connections", shard.value(of: .connectionsOpen))
                    json.member("sessions", shard.value(of: .sessionsOpen))
                    json.member("busy_permille", shard.value(of: .busyPermille))
                    json.member(
                        "lag_us", index < lagMicroseconds.count ? lagMicroseconds[index] : 0)
                    json.member("ledger_bytes", shard.value(of: .ledgerBytes))
                    json.member("agent_tasks", shard.value(of: .agentTasks))
                    json.member("upstream_transfers", shard.value(of: .upstreamTransfers))
                }
            }
        }
    }

    private func writeProviders(into json: inout JSONWriter) {
        json.array("providers") { json in
            for provider in metrics.providerCounts {
                json.object { json in
                    json.member("name", provider.name)
                    json.member("paused", provider.isPaused)
                    json.member("in_flight", provider.inFlight)
                    json.member("waiting", provider.waiting)
                    json.member("completed", provider.completed)
                    json.member("failed", provider.failed)
                    json.member("cancelled", provider.cancelled)
                    json.member("skipped", provider.skipped)
                    json.member("fallbacks", provider.fallbacks)
                    json.member("refused", provider.refused)
                }
            }
        }
    }
}

/// The other messages to an operator's page.
enum OperatorMessage {
    /// The subprotocol of an operator's page. The page sends its key as another subprotocol.
    static let subprotocol = "parley-operator"

    /// `server.history`: samples as arrays, which are a third of the bytes of objects.
    static func history(_ samples: [HistorySample]) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 256 + 48 * samples.count))
        json.object { json in
            json.member("type", "server.history")
            json.array("fields") { json in
                for name in ["time", "resident_bytes", "ledger_bytes", "sessions", "lag_us"] {
                    json.string(name)
                }
            }
            json.array("samples") { json in
                for sample in samples {
                    json.array { json in
                        json.integer(sample.seconds)
                        json.integer(sample.residentBytes)
                        json.integer(sample.ledgerBytes)
                        json.integer(sample.sessions)
                        json.integer(sample.lagMicroseconds)
                    }
                }
            }
        }
        return json.finish()
    }

    /// `server.failures`, the newest first.
    static func failures(_ failures: [RecentFailures.Failure]) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 128 + 256 * failures.count))
        json.object { json in
            json.member("type", "server.failures")
            json.array("data") { json in
                for failure in failures.reversed() {
                    json.object { json in
                        json.member("kind", failure.kind.rawValue)
                        json.member("source", failure.source)
                        json.member("code", failure.code.isEmpty ? nil : failure.code)
                        json.member("reason", failure.reason)
                        json.member("advice", failure.advice.isEmpty ? nil : failure.advice)
                        json.member("time", failure.seconds)
                        json.member("count", failure.count)
                    }
                }
            }
        }
        return json.finish()
    }

    /// `sessions.page`
    static func page(_ scan: OperatorScan, of node: String) -> ByteWriter {
        let page = SessionPage(scan.reports, to: scan.query)
        var json = JSONWriter(ByteWriter(capacity: 256 + 400 * page.rows.count))
        json.object { json in
            json.member("type", "sessions.page")
            json.member("sort", scan.query.order.rawValue)
            json.member("order", scan.query.isReversed ? "ascending" : "descending")
            json.member("matching", page.matching)
            json.member("position", page.position)
            json.member("shards", scan.shards)
            json.member("shards_answered", scan.reports.count)
            json.member("first", page.rows.first?.rank.cursor)
            json.member("last", page.rows.last?.rank.cursor)
            json.array("data") { json in
                for row in page.rows { row.write(of: node, into: &json) }
            }
        }
        return json.finish()
    }

    /// `session.card`, or nil where no shard has the session.
    static func card(_ scan: OperatorScan, of node: String) -> ByteWriter? {
        guard let row = scan.reports.lazy.flatMap(\.rows).first else { return nil }
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.object { json in
            json.member("type", "session.card")
            json.key("session")
            row.write(of: node, into: &json)
        }
        return json.finish()
    }

    /// `session.event`: an event of the session that is watched, as it is.
    static func event(_ text: [UInt8], of sessionID: String) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 96 + text.count))
        json.object { json in
            json.member("type", "session.event")
            json.member("id", sessionID)
            json.key("event")
            json.raw(RawJSON(String(decoding: text, as: UTF8.self)))
        }
        return json.finish()
    }

    /// A message that names a session: `session.watched`, `session.ended` or `session.closed`.
    static func notice(_ type: String, of sessionID: String) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 128))
        json.object { json in
            json.member("type", type)
            json.member("id", sessionID)
        }
        return json.finish()
    }

    /// `error`, in the form of the protocol's. `sessionID`: the session that was asked for.
    static func error(_ error: ClientEventError, of sessionID: String? = nil) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { json in
            json.member("type", "error")
            json.object("error") { json in
                json.member("type", error.kind.rawValue)
                json.member("code", error.code)
                json.member("message", error.message)
                json.member("param", error.param)
                json.member("session_id", sessionID)
            }
        }
        return json.finish()
    }
}
