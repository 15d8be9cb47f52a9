// The Prometheus text of the server's numbers: names, help, units. Nothing is counted here.
// Format: Prometheus exposition format 0.0.4; `promtool check metrics` accepts it.
//
// Invariant: HELP and TYPE once per name; base units; counters end in `_total`; all labels are
// fixed, or names of the operator's.

import Codec

/// A name in the exposition, and the cells that it shows.
private struct MetricFamily {
    /// One line: a label with its value, or none, and the cell.
    typealias Sample = (label: String, metric: ShardMetric)

    let name: String
    let kind: String
    let help: String
    /// The divisor that turns a cell into the base unit.
    var divisor = 1
    let samples: [Sample]

    static func counter(
        _ name: String, _ help: String, divisor: Int = 1, _ metric: ShardMetric
    ) -> MetricFamily {
        MetricFamily(
            name: name, kind: "counter", help: help, divisor: divisor, samples: [("", metric)])
    }

    static func gauge(_ name: String, _ help: String, _ metric: ShardMetric) -> MetricFamily {
        MetricFamily(name: name, kind: "gauge", help: help, samples: [("", metric)])
    }

    static func labelled(
        _ name: String, _ help: String, _ label: String, _ samples: [(String, ShardMetric)]
    ) -> MetricFamily {
        MetricFamily(
            name: name, kind: "counter", help: help,
            samples: samples.map { ("\(label)=\"\($0.0)\"", $0.1) })
    }

    /// Families whose cells are summed over all shards.
    static let summed: [MetricFamily] = [
        .gauge("parley_connections", "Open connections.", .connectionsOpen),
        .gauge("parley_sessions", "Open sessions.", .sessionsOpen),
        .counter(
            "parley_connections_accepted_total", "Connections accepted.", .connectionsAccepted),
        .labelled(
            "parley_connections_refused_total", "Connections refused, by reason.", "reason",
            [
                ("max_connections", .connectionsRefused),
                ("address_connections", .refusedAddressConnections),
                ("address_rate", .refusedAddressRate), ("total_rate", .refusedTotalRate),
                ("descriptors", .refusedDescriptors), ("proxy_header", .refusedProxyHeader),
            ]),
        .labelled(
            "parley_requests_refused_total", "Requests refused, by the field they name.",
            "reason", [("host", .refusedHost), ("origin", .refusedOrigin)]),
        .labelled(
            "parley_auth_failures_total", "Requests refused for their credential, by reason.",
            "reason",
            [
                ("missing", .authMissing), ("malformed", .authMalformed),
                ("unknown", .authUnknown), ("expired", .authExpired), ("claims", .authClaims),
                ("insufficient", .authInsufficient), ("address_limit", .authLimited),
            ]),
        .labelled(
            "parley_credential_limits_total",
            "Requests refused for a limit of their credential, by the limit.", "limit",
            [
                ("models", .refusedModel), ("sessions", .refusedCredentialSessions),
                ("client_secrets", .refusedClientSecrets),
            ]),
        .counter(
            "parley_client_secrets_issued_total", "Client secrets issued.", .clientSecretsIssued),
        .counter(
            "parley_sessions_expired_total",
            "Sessions closed at the end of the time that their credential allows.",
            .sessionsExpired),
        .counter(
            "parley_sessions_failed_total",
            "Sessions ended because their state was broken, a defect of the server.",
            .sessionsFailed),
        .counter(
            "parley_accept_failures_total", "Failed accepts, for example for lack of descriptors.",
            .acceptFailures),
        .counter("parley_sessions_started_total", "Sessions started.", .sessionsStarted),
        .counter(
            "parley_sessions_refused_total", "Upgrades answered with 503.", .sessionsRefused),
        .labelled(
            "parley_drained_sessions_total",
            "Sessions closed for a restart, by the outcome of the turn in flight.", "outcome",
            [
                ("idle", .drainedIdle), ("finished", .drainedFinished),
                ("cut_off", .drainedCutOff),
            ]),
        .counter("parley_http_requests_total", "HTTP requests answered.", .requests),
        .gauge("parley_text_turns", "Text requests in flight.", .textRequestsOpen),
        .labelled(
            "parley_text_turns_total", "Text requests that began, by their format.", "format",
            [
                ("chat_completions", .textRequestsChatCompletions),
                ("ui_messages", .textRequestsUIMessages),
            ]),
        .labelled(
            "parley_text_turns_refused_total",
            "Text requests refused: their body is wrong, or no place was free.",
            "reason", [("invalid", .textRequestsInvalid), ("full", .textRequestsRefused)]),
        .counter(
            "parley_text_turns_abandoned_total",
            "Text requests stopped because no client waited for them any more.",
            .textRequestsAbandoned),
        .counter(
            "parley_text_replies_resumed_total", "Replies that a client resumed.",
            .textRepliesResumed),
        .counter("parley_received_bytes_total", "Bytes read from sockets.", .bytesReceived),
        .counter("parley_sent_bytes_total", "Bytes written to sockets.", .bytesSent),
        .labelled(
            "parley_compressed_bytes_total",
            "Compressed bytes of compressed messages, as on the wire.",
            "direction", [("received", .deflatedBytesIn), ("sent", .deflatedBytesOut)]),
        .labelled(
            "parley_uncompressed_bytes_total", "Uncompressed bytes of the same messages.",
            "direction", [("received", .inflatedBytesIn), ("sent", .inflatedBytesOut)]),
        .labelled(
            "parley_output_limit_closes_total",
            "Connections closed as too slow readers, by the limit of queued output.", "limit",
            [("hard", .outputLimitCloses), ("soft", .slowReaderCloses)]),
        .labelled(
            "parley_sends_total",
            "Sends, by outcome: at once, behind earlier output, or over the limit.",
            "outcome",
            [
                ("sent", .sendsSent), ("buffered", .sendsBuffered),
                ("over_limit", .sendsOverLimit),
            ]),
        .labelled(
            "parley_dropped_audio_messages_total",
            "Messages of reply audio that were dropped unsent, by reason.",
            "reason",
            [("late", .lateAudioMessages), ("cancelled", .cancelledAudioMessages)]),
        .labelled(
            "parley_dropped_audio_bytes_total", "Bytes of these messages.", "reason",
            [("late", .lateAudioBytes), ("cancelled", .cancelledAudioBytes)]),
        .labelled(
            "parley_peer_closes_total",
            "Connections closed for the behaviour of their peers, by reason.",
            "reason",
            [
                ("silence", .silenceCloses), ("message_idle", .messageIdleCloses),
                ("slow_request", .slowRequestCloses), ("slow_message", .slowMessageCloses),
                ("flood", .floodCloses),
            ]),
        .labelled(
            "parley_memory_closes_total",
            "Connections and text requests evicted for their memory, by the limit.", "limit",
            [("connection", .memoryClosesConnection), ("total", .memoryClosesTotal)]),
        .counter(
            "parley_postponed_pongs_total",
            "Pings that came while an earlier pong waited; only the newest is answered.",
            .postponedPongs),
        .counter(
            "parley_event_loop_absence_seconds_total",
            "Time that shards were late by more than 250 ms; peers' timeouts do not count it.",
            divisor: 1_000, .absentMilliseconds),
        .counter(
            "parley_protocol_errors_total", "HTTP and WebSocket rules broken by peers.",
            .protocolErrors),
        .labelled(
            "parley_tls_handshakes_total", "TLS handshakes, by result.", "result",
            [
                ("full", .tlsHandshakesFull), ("resumed", .tlsHandshakesResumed),
                ("failed", .tlsHandshakesFailed),
            ]),
        .counter(
            "parley_tls_truncations_total",
            "TLS streams that ended in use, without the peer's close_notify.", .tlsTruncations),
        .labelled(
            "parley_client_events_total", "Events received, by class.", "class",
            [
                ("session", .eventsInSession), ("input_audio_buffer", .eventsInAudio),
                ("conversation", .eventsInConversation), ("response", .eventsInResponse),
                ("output_audio_buffer", .eventsInOutputAudio),
                ("audio_packet", .eventsInAudioPacket), ("refused", .eventsInRefused),
            ]),
        .labelled(
            "parley_server_events_total", "Events sent, by class.", "class",
            [
                ("error", .eventsOutError), ("session", .eventsOutSession),
                ("input_audio_buffer", .eventsOutInputAudio),
                ("conversation", .eventsOutConversation), ("response", .eventsOutResponse),
                ("output_audio_buffer", .eventsOutOutputAudio),
                ("rate_limits", .eventsOutRateLimits), ("audio_packet", .eventsOutAudioPacket),
            ]),
        .counter("parley_turns_total", "User turns committed.", .turns),
        .labelled(
            "parley_interruptions_total",
            "Speech over a reply, by whether it ended the reply or only held it.", "kind",
            [("accepted", .interruptions), ("false", .falseInterruptions)]),
        .labelled(
            "parley_responses_total", "Responses that ended, by status.", "status",
            [
                ("completed", .responsesCompleted), ("cancelled", .responsesCancelled),
                ("incomplete", .responsesIncomplete), ("failed", .responsesFailed),
            ]),
        .labelled(
            "parley_mcp_calls_total", "Calls of MCP tools that ended, by result.", "result",
            [("completed", .toolCallsCompleted), ("failed", .toolCallsFailed)]),
        .counter(
            "parley_audio_received_seconds_total", "Audio received.", divisor: 16_000, .samplesIn),
        .counter(
            "parley_audio_sent_seconds_total", "Audio sent.", divisor: 1_000, .millisecondsOut),
        .counter(
            "parley_audio_decode_errors_total", "Audio that did not decode.", .decodeErrors),
        .labelled(
            "parley_opus_repaired_packets_total",
            "Missing Opus packets that were recovered from the next one, or concealed.",
            "means", [("recovered", .packetsRecovered), ("concealed", .packetsConcealed)]),
        .counter(
            "parley_opus_late_packets_total", "Numbered Opus packets that came twice or too late.",
            .packetsLate),
        MetricFamily(
            name: "parley_codecs", kind: "gauge",
            help: "Decoders and encoders, in use by sessions or pooled for reuse.",
            samples: [
                ("kind=\"decoder\",state=\"used\"", .decodersInUse),
                ("kind=\"decoder\",state=\"pooled\"", .decodersPooled),
                ("kind=\"encoder\",state=\"used\"", .encodersInUse),
                ("kind=\"encoder\",state=\"pooled\"", .encodersPooled),
            ]),
        .labelled(
            "parley_phrases_total", "Phrases to be spoken, by whether the cache had them.",
            "result", [("hit", .phraseHits), ("miss", .phraseMisses)]),
        .gauge("parley_phrase_cache_bytes", "Speech in the phrase cache.", .phraseBytes),
        .counter(
            "parley_memory_returns_total", "Times that unused memory was given back to the system.",
            .memoryReturns),
        .gauge("parley_agent_tasks", "Agents' tasks in flight.", .agentTasks),
        .gauge(
            "parley_upstream_transfers", "Descriptors of transfers to model servers.",
            .upstreamTransfers),
    ]

    /// Families that are shown shard by shard.
    static let perShard: [MetricFamily] = [
        .gauge("parley_shard_connections", "Open connections of a shard.", .connectionsOpen),
        .gauge("parley_shard_sessions", "Open sessions of a shard.", .sessionsOpen),
        .gauge(
            "parley_ledger_total_bytes",
            "Memory of the connections and text requests of a shard.", .ledgerBytes),
        .gauge(
            "parley_shard_compression_context_bytes",
            "Memory that compression contexts of a shard's connections may take.",
            .compressionContextBytes),
        .gauge(
            "parley_shard_send_buffer_bytes", "Memory of a shard's send buffers.",
            .sendBufferBytes),
        .gauge(
            "parley_shard_scratch_bytes", "Memory that a shard's connections share.",
            .scratchBytes),
        MetricFamily(
            name: "parley_shard_busy_ratio", kind: "gauge",
            help: "The part of the last second or more that a shard worked.", divisor: 1_000,
            samples: [("", .busyPermille)]),
        .gauge(
            "parley_shard_opus_complexity_reduction",
            "Steps by which a busy shard reduces the complexity of Opus.", .complexityReduction),
    ]
}

/// A name in the exposition, and the distributions that it shows.
private struct HistogramFamily {
    let name: String
    let help: String
    let samples: [(label: String, histogram: ShardHistogram)]

    static let all = [
        HistogramFamily(
            name: "parley_turn_latency_seconds",
            help: "Time from the end of the user's speech to a hop of the turn.",
            samples: [
                ("hop=\"transcript\"", .transcript), ("hop=\"first_token\"", .firstToken),
                ("hop=\"first_audio\"", .firstAudio),
            ]),
        HistogramFamily(
            name: "parley_event_loop_lag_seconds",
            help: "How late deadlines expired; audio is as late.",
            samples: [("", .eventLoopLag)]),
        HistogramFamily(
            name: "parley_event_loop_turn_seconds",
            help: "Work of a tick of the event loop, from the return of one wait to the next.",
            samples: [("", .eventLoopTick)]),
        HistogramFamily(
            name: "parley_session_scan_seconds",
            help: "Work of a scan of a shard's connections for an operator, over several ticks.",
            samples: [("", .sessionScan)]),
        HistogramFamily(
            name: "parley_delta_delay_seconds",
            help:
                "From the beginning of the tick that read a model's delta to its write to the client; "
                + "its wait in the socket before that tick is left out.",
            samples: [("", .deltaDelay)]),
    ]
}

/// Writes one exposition.
struct MetricsText {
    let metrics: ServerMetrics

    init(metrics: ServerMetrics) { self.metrics = metrics }

    /// Writes every metric.
    func writeAll(workers: WorkerCounts, into text: inout ByteWriter) {
        for family in MetricFamily.summed {
            writeHead(family.name, family.kind, family.help, into: &text)
            for sample in family.samples {
                let value = metrics.total(of: sample.metric)
                writeLine(
                    family.name, sample.label, scaled(value, by: family.divisor), into: &text)
            }
        }
        for family in MetricFamily.perShard {
            writeHead(family.name, family.kind, family.help, into: &text)
            for (index, shard) in metrics.shards.enumerated() {
                let value = shard.value(of: family.samples[0].metric)
                writeLine(
                    family.name, "shard=\"\(index)\"", scaled(value, by: family.divisor),
                    into: &text)
            }
        }
        for family in HistogramFamily.all {
            writeHead(family.name, "histogram", family.help, into: &text)
            for sample in family.samples {
                write(sample.histogram, as: family.name, sample.label, into: &text)
            }
        }
        writeLedgers(into: &text)
        writeProcess(workers, into: &text)
    }

    private func writeProcess(_ workers: WorkerCounts, into text: inout ByteWriter) {
        writeHead(
            "parley_worker_queue_jobs", "gauge", "Jobs that wait for a worker thread.", into: &text)
        writeLine("parley_worker_queue_jobs", "", "\(workers.queued)", into: &text)
        writeHead(
            "parley_worker_running_jobs", "gauge", "Jobs that a worker thread runs.", into: &text)
        writeLine("parley_worker_running_jobs", "", "\(workers.running)", into: &text)
        writeHead(
            "parley_worker_refused_jobs_total", "counter",
            "Jobs refused because too many waited.", into: &text)
        writeLine("parley_worker_refused_jobs_total", "", "\(workers.refused)", into: &text)
        writeHead(
            "parley_worker_evicted_jobs_total", "counter",
            "Jobs that lost their place in a full queue to a caller with a smaller share.",
            into: &text)
        writeLine("parley_worker_evicted_jobs_total", "", "\(workers.evicted)", into: &text)
        writeHead(
            "parley_draining", "gauge", "1 while the server drains.", into: &text)
        let isDraining = metrics.isDraining.load(ordering: .relaxed)
        writeLine("parley_draining", "", isDraining ? "1" : "0", into: &text)
    }

    /// Writes why new sessions are refused now, a line for each reason.
    func writeAdmission(isFull: Bool, into text: inout ByteWriter) {
        let name = "parley_admission_closed"
        writeHead(name, "gauge", "1 while new sessions are refused for this reason.", into: &text)
        let reasons = [
            ("memory", metrics.isShortOfMemory.load(ordering: .relaxed)), ("sessions", isFull),
            ("draining", metrics.isDraining.load(ordering: .relaxed)),
        ]
        for (reason, isClosed) in reasons {
            writeLine(name, "reason=\"\(reason)\"", isClosed ? "1" : "0", into: &text)
        }
    }

    private func write(
        _ histogram: ShardHistogram, as name: String, _ label: String, into text: inout ByteWriter
    ) {
        var buckets = [Int](repeating: 0, count: ShardMetrics.boundCount + 1)
        var nanoseconds = 0
        for shard in metrics.shards {
            let (counts, sum) = shard.distribution(of: histogram)
            for index in buckets.indices { buckets[index] += counts[index] }
            nanoseconds += sum
        }
        let prefix = label.isEmpty ? "" : label + ","
        var total = 0
        for (index, count) in buckets.enumerated() {
            total += count
            let isLast = index == ShardMetrics.boundCount
            let nanoseconds = ShardMetrics.firstBoundNanoseconds << index
            let bound = isLast ? "+Inf" : scaled(nanoseconds, by: 1_000_000_000)
            writeLine("\(name)_bucket", "\(prefix)le=\"\(bound)\"", "\(total)", into: &text)
        }
        writeLine("\(name)_sum", label, scaled(nanoseconds, by: 1_000_000_000), into: &text)
        writeLine("\(name)_count", label, "\(total)", into: &text)
    }

    private func scaled(_ value: Int, by divisor: Int) -> String {
        divisor == 1 ? "\(value)" : "\(Double(value) / Double(divisor))"
    }

    func writeHead(
        _ name: String, _ kind: String, _ help: String, into text: inout ByteWriter
    ) {
        text.append("# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n")
    }

    func writeLine(
        _ name: String, _ label: String, _ value: String, into text: inout ByteWriter
    ) {
        text.append(label.isEmpty ? "\(name) \(value)\n" : "\(name){\(label)} \(value)\n")
    }
}
