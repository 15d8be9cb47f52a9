// Every metric of the server: its name, its help, its labels, and where its figures are read. The
// table is in the order and under the headings of docs/operations.md, which a test compares with it.
// MetricsText writes the exposition; nothing is counted here.
//
// Invariant: base units; counters end in `_total`; all labels are fixed, or names of the operator's.

import Session

/// One metric: a name in the exposition, and its lines.
struct MetricFamily: Sendable {
    enum Kind: String { case counter, gauge, histogram }

    /// Labels, such as `reason="memory"`, or none; and the figure.
    typealias Line = (label: String, value: Int)

    /// Where the figures are read.
    enum Lines: Sendable {
        /// Cells, each summed over all shards.
        case sums([(label: String, cell: Int)])
        /// A cell of each shard.
        case shards(cell: Int)
        /// Distributions of durations, summed over all shards.
        case durations([(label: String, histogram: ShardHistogram)])
        /// The ledgers of each shard by state: a histogram of a moment, whose counts fall when a
        /// connection ends.
        case ledgers
        /// Figures of the process. Without any, the metric is left out.
        case figures(@Sendable (MetricsSnapshot) -> [Line])
    }

    let name: String
    let kind: Kind
    let help: String
    /// The divisor that turns a cell into the base unit.
    let divisor: Int
    let lines: Lines

    init(
        _ kind: Kind, _ name: String, _ help: String, divisor: Int = 1, _ lines: Lines
    ) {
        (self.name, self.kind, self.help, self.divisor) = (name, kind, help, divisor)
        self.lines = lines
    }

    private static func counter(
        _ name: String, _ help: String, divisor: Int = 1, _ metric: ShardMetric
    ) -> Self { Self(.counter, name, help, divisor: divisor, .sums([("", metric.cell)])) }

    private static func counter(
        _ name: String, _ help: String, divisor: Int = 1, _ counter: SessionCounter
    ) -> Self {
        Self(.counter, name, help, divisor: divisor, .sums([("", ShardMetrics.cell(of: counter))]))
    }

    private static func counters(
        _ name: String, _ help: String, _ label: String, _ metrics: [(String, ShardMetric)]
    ) -> Self {
        Self(.counter, name, help, .sums(metrics.map { ("\(label)=\"\($0.0)\"", $0.1.cell) }))
    }

    private static func counters(
        _ name: String, _ help: String, _ label: String, _ counters: [(String, SessionCounter)]
    ) -> Self {
        let cells = counters.map { ("\(label)=\"\($0.0)\"", ShardMetrics.cell(of: $0.1)) }
        return Self(.counter, name, help, .sums(cells))
    }

    private static func gauge(_ name: String, _ help: String, _ metric: ShardMetric) -> Self {
        Self(.gauge, name, help, .sums([("", metric.cell)]))
    }

    /// A gauge that is shown shard by shard.
    private static func shards(
        _ name: String, _ help: String, divisor: Int = 1, _ metric: ShardMetric
    ) -> Self { Self(.gauge, name, help, divisor: divisor, .shards(cell: metric.cell)) }

    static func figure(
        _ kind: Kind, _ name: String, _ help: String,
        _ value: @escaping @Sendable (MetricsSnapshot) -> Int
    ) -> Self { Self(kind, name, help, .figures { [("", value($0))] }) }
}

// MARK: - The table

extension MetricFamily {
    /// Every metric, under the headings of the documentation.
    static let sections = [
        ("Connections and sessions", admission),
        ("HTTP and text requests", requests),
        ("Bytes, sends and closes", transport),
        ("Events, turns and responses", conversation),
        ("Audio", audio),
        ("Models, agents and workers", agents),
        ("Redis and the store of sessions", store),
        ("Records and webhooks", records),
        ("Recordings", recordings),
        ("Event loops", loops),
        ("Memory", memory),
    ]

    private static let admission: [MetricFamily] = [
        .gauge("parley_connections", "Open connections.", .connectionsOpen),
        .gauge("parley_sessions", "Open sessions.", .sessionsOpen),
        .counter(
            "parley_connections_accepted_total", "Connections accepted.", .connectionsAccepted),
        .counters(
            "parley_connections_refused_total", "Connections refused, by reason.", "reason",
            [
                ("max_connections", .connectionsRefused),
                ("address_connections", .refusedAddressConnections),
                ("address_rate", .refusedAddressRate), ("total_rate", .refusedTotalRate),
                ("descriptors", .refusedDescriptors), ("proxy_header", .refusedProxyHeader),
            ]),
        .counter(
            "parley_accept_failures_total", "Failed accepts, for example for lack of descriptors.",
            .acceptFailures),
        .counters(
            "parley_requests_refused_total", "Requests refused, by the field they name.", "reason",
            [("host", .refusedHost), ("origin", .refusedOrigin)]),
        .counters(
            "parley_auth_failures_total", "Requests refused for their credential, by reason.",
            "reason",
            [
                ("missing", .authMissing), ("malformed", .authMalformed), ("unknown", .authUnknown),
                ("expired", .authExpired), ("claims", .authClaims),
                ("insufficient", .authInsufficient), ("address_limit", .authLimited),
                ("signature", .authSignature),
            ]),
        .counters(
            "parley_credential_limits_total",
            "Requests refused for a limit of their credential, by the limit.", "limit",
            [
                ("models", .refusedModel), ("agents", .refusedAgent),
                ("sessions", .refusedCredentialSessions),
                ("agent_sessions", .refusedAgentSessions),
                ("client_secrets", .refusedClientSecrets), ("quotas", .refusedQuota),
            ]),
        .counters(
            "parley_quota_refusals_total",
            "Connections, events, messages of audio and requests to models refused for a quota, "
                + "by its unit.", "unit",
            [
                ("connections", .quotaRefusedConnections), ("events", .quotaRefusedEvents),
                ("audio_seconds", .quotaRefusedAudio), ("turns", .quotaRefusedTurns),
                ("tokens", .quotaRefusedTokens),
            ]),
        .counter(
            "parley_client_secrets_issued_total", "Client secrets issued.", .clientSecretsIssued),
        .counters(
            "parley_client_secret_lookups_total",
            "Client secrets that this server did not know and asked the store for; failed: without "
                + "an answer, or with one that cannot be read.", "outcome",
            [
                ("found", .secretsFound), ("missing", .secretsMissing),
                ("failed", .secretsFailed),
            ]),
        .counter("parley_sessions_started_total", "Sessions started.", .sessionsStarted),
        .counter(
            "parley_sessions_refused_total", "Upgrades answered with 503.", .sessionsRefused
        ),
        .counter(
            "parley_sessions_expired_total",
            "Sessions closed at the end of the time that their credential allows.", .sessionsExpired
        ),
        .counter(
            "parley_sessions_failed_total",
            "Sessions ended because their state was broken, a defect of the server.",
            .sessionsFailed),
        .counter(
            "parley_sessions_hung_up_total", "Sessions ended by a request to hang up.",
            .callsHungUp),
        .gauge(
            "parley_sessions_resumable", "Open sessions whose client can come back.",
            .sessionsResumable),
        .gauge(
            "parley_sessions_detached", "Sessions that wait for their client.", .sessionsDetached),
        .counters(
            "parley_detachments_total",
            "Connections that were lost by sessions which can be resumed.", "outcome",
            [("waits", .sessionsDetachedTotal), ("refused", .detachmentsRefused)]),
        .counters(
            "parley_resumes_total",
            "Clients that came back: all that they missed was sent, the items were, or the session "
                + "was not found; and sessions whose client did not come back in time.", "outcome",
            [
                ("recovered", .resumesRecovered), ("restored", .resumesRestored),
                ("unknown", .resumesUnknown), ("missed", .resumesMissed),
            ]),
        .counter(
            "parley_sessions_handed_over_total",
            "Sessions given up for a restart, to go on at another server.", .sessionsHandedOver),
        .counter(
            "parley_resumes_taken_over_total",
            "Connections closed because their session went on at another.", .resumesTakenOver),
        .gauge(
            "parley_sidebands", "Open connections that have joined a session.", .sidebandsOpen),
        .counter("parley_sidebands_joined_total", "Sessions joined.", .sidebandsJoined),
        .counter(
            "parley_sidebands_cut_off_total",
            "Sidebands closed because more waited for them, or of them, than their limit.",
            .sidebandsCutOff),
        .counters(
            "parley_sideband_events_total", "Events from and to sidebands.", "direction",
            [("received", .sidebandEventsIn), ("sent", .sidebandEventsOut)]),
        .gauge("parley_calls", "Open connections of telephone carriers.", .callsOpen),
        .counter("parley_calls_total", "Telephone calls begun.", .callsBegun),
        .counter(
            "parley_calls_refused_total",
            "Telephone calls with a bad parameter, or that did not begin in time.", .callsRefused),
        .counter(
            "parley_call_clears_total", "Times that a carrier was to drop what it had not played.",
            .callsCleared),
        .counters(
            "parley_call_marks_total",
            "Marks that came back: after their audio was played, or after it was dropped.",
            "outcome", [("played", .callMarksPlayed), ("cleared", .callMarksCleared)]),
        .counter("parley_call_digits_total", "Keys that callers have pressed.", .callDigits),
        .counter(
            "parley_call_messages_refused_total", "Messages of carriers that break a rule.",
            .callMessagesRefused),
        .gauge(
            "parley_relays", "Open connections whose request another server answers.",
            .relaysOpen),
        .counter("parley_relays_total", "Requests passed on to another server.", .relaysBegun),
        .counter(
            "parley_relays_failed_total",
            "Requests passed on that the other server did not answer.", .relaysFailed),
        .counters(
            "parley_drained_sessions_total",
            "Sessions closed for a restart, by the outcome of the turn in flight.", "outcome",
            [("idle", .drainedIdle), ("finished", .drainedFinished), ("cut_off", .drainedCutOff)]),
        MetricFamily(
            .gauge, "parley_admission_closed", "1 while new sessions are refused for this reason.",
            .figures {
                [
                    ("reason=\"memory\"", $0.isShortOfMemory ? 1 : 0),
                    ("reason=\"sessions\"", $0.isFull ? 1 : 0),
                    ("reason=\"draining\"", $0.isDraining ? 1 : 0),
                ]
            }),
        .figure(.gauge, "parley_draining", "1 while the server drains.") { $0.isDraining ? 1 : 0 },
    ]

    private static let requests: [MetricFamily] = [
        .counter("parley_http_requests_total", "HTTP requests answered.", .requests),
        .gauge("parley_text_turns", "Text requests in flight.", .textRequestsOpen),
        .counters(
            "parley_text_turns_total", "Text requests that began, by their format.", "format",
            [
                ("chat_completions", .textRequestsChatCompletions),
                ("ui_messages", .textRequestsUIMessages),
            ]),
        .counters(
            "parley_text_turns_refused_total",
            "Text requests refused: their body is wrong, or no place was free.", "reason",
            [("invalid", .textRequestsInvalid), ("full", .textRequestsRefused)]),
        .counter(
            "parley_text_turns_abandoned_total",
            "Text requests stopped because no client waited for them any more.",
            .textRequestsAbandoned),
        .counter(
            "parley_text_replies_resumed_total", "Replies that a client resumed.",
            .textRepliesResumed),
        .counters(
            "parley_after_calls_total",
            "Questions of agents about sessions that are over (after-call).", "outcome",
            [
                ("answered", .afterCallsAnswered), ("failed", .afterCallsFailed),
                ("not_asked", .afterCallsNotAsked),
            ]),
    ]

    private static let transport: [MetricFamily] = [
        .counter("parley_received_bytes_total", "Bytes read from sockets.", .bytesReceived),
        .counter("parley_sent_bytes_total", "Bytes written to sockets.", .bytesSent),
        .counters(
            "parley_compressed_bytes_total",
            "Compressed bytes of compressed messages, as on the wire.", "direction",
            [("received", .deflatedBytesIn), ("sent", .deflatedBytesOut)]),
        .counters(
            "parley_uncompressed_bytes_total", "Uncompressed bytes of the same messages.",
            "direction", [("received", .inflatedBytesIn), ("sent", .inflatedBytesOut)]),
        .counters(
            "parley_sends_total",
            "Sends, by outcome: at once, behind earlier output, or over the limit.", "outcome",
            [("sent", .sendsSent), ("buffered", .sendsBuffered), ("over_limit", .sendsOverLimit)]),
        .counters(
            "parley_output_limit_closes_total",
            "Connections closed as too slow readers, by the limit of queued output.", "limit",
            [("hard", .outputLimitCloses), ("soft", .slowReaderCloses)]),
        .counters(
            "parley_dropped_audio_messages_total",
            "Messages of reply audio that were dropped unsent, by reason.", "reason",
            [("late", .lateAudioMessages), ("cancelled", .cancelledAudioMessages)]),
        .counters(
            "parley_dropped_audio_bytes_total", "Bytes of these messages.", "reason",
            [("late", .lateAudioBytes), ("cancelled", .cancelledAudioBytes)]),
        .counters(
            "parley_peer_closes_total",
            "Connections closed for the behaviour of their peers, by reason.", "reason",
            [
                ("silence", .silenceCloses), ("message_idle", .messageIdleCloses),
                ("slow_request", .slowRequestCloses), ("slow_message", .slowMessageCloses),
                ("flood", .floodCloses), ("work", .workCloses),
            ]),
        .counter(
            "parley_work_pauses_total",
            "Times that a connection was not read because it asks for more turns and events than "
                + "`max-turns-per-second`.", .workPauses),
        .counters(
            "parley_memory_closes_total",
            "Connections and text requests evicted for their memory, by the limit.", "limit",
            [("connection", .memoryClosesConnection), ("total", .memoryClosesTotal)]),
        .counter(
            "parley_postponed_pongs_total",
            "Pings that came while an earlier pong waited; only the newest is answered.",
            .postponedPongs),
        .counter(
            "parley_protocol_errors_total", "HTTP and WebSocket rules broken by peers.",
            .protocolErrors),
        .counters(
            "parley_tls_handshakes_total", "TLS handshakes, by result.", "result",
            [
                ("full", .tlsHandshakesFull), ("resumed", .tlsHandshakesResumed),
                ("failed", .tlsHandshakesFailed),
            ]),
        .counter(
            "parley_tls_truncations_total",
            "TLS streams that ended in use, without the peer's close_notify.", .tlsTruncations),
    ]

    private static let conversation: [MetricFamily] = [
        .counters(
            "parley_client_events_total", "Events received, by class.", "class",
            [
                ("session", .eventsInSession), ("input_audio_buffer", .eventsInAudio),
                ("conversation", .eventsInConversation), ("response", .eventsInResponse),
                ("output_audio_buffer", .eventsInOutputAudio),
                ("audio_packet", .eventsInAudioPacket), ("refused", .eventsInRefused),
            ]),
        .counters(
            "parley_server_events_total", "Events sent, by class.", "class",
            [
                ("error", .eventsOutError), ("session", .eventsOutSession),
                ("input_audio_buffer", .eventsOutInputAudio),
                ("conversation", .eventsOutConversation), ("response", .eventsOutResponse),
                ("output_audio_buffer", .eventsOutOutputAudio),
                ("rate_limits", .eventsOutRateLimits), ("audio_packet", .eventsOutAudioPacket),
            ]),
        .counter("parley_turns_total", "User turns committed.", \.turns),
        .counter(
            "parley_turns_without_words_total",
            "User turns in which no words were recognised.", \.turnsWithoutWords),
        .counters(
            "parley_interruptions_total",
            "Speech over a reply, by whether it ended the reply or only held it.", "kind",
            [("accepted", \.interruptions), ("false", \.falseInterruptions)]),
        .counters(
            "parley_responses_total", "Responses that ended, by status.", "status",
            [
                ("completed", \.responsesCompleted), ("cancelled", \.responsesCancelled),
                ("incomplete", \.responsesIncomplete), ("failed", \.responsesFailed),
            ]),
        .counter(
            "parley_apologies_total",
            "Apologies said where a model or a recogniser had failed.", \.apologies),
        .counters(
            "parley_mcp_calls_total", "Calls of MCP tools that ended, by result.", "result",
            [("completed", \.toolCallsCompleted), ("failed", \.toolCallsFailed)]),
        MetricFamily(
            .histogram, "parley_turn_latency_seconds",
            "Time from the end of the user's speech to a hop of the turn.",
            .durations([
                ("hop=\"transcript\"", .transcript), ("hop=\"first_token\"", .firstToken),
                ("hop=\"first_audio\"", .firstAudio),
            ])),
        MetricFamily(
            .histogram, "parley_delta_delay_seconds",
            """
            From the beginning of the tick that read a model's delta to its write to the client; \
            its wait in the socket before that tick is left out.
            """, .durations([("", .deltaDelay)])),
    ]

    private static let audio: [MetricFamily] = [
        .counter(
            "parley_audio_received_seconds_total", "Audio received.", divisor: 16_000, \.samplesIn),
        .counter(
            "parley_audio_sent_seconds_total", "Audio sent.", divisor: 1_000, \.millisecondsOut),
        .counter(
            "parley_audio_decode_errors_total", "Audio that did not decode.", \.decodeErrors
        ),
        .counters(
            "parley_opus_repaired_packets_total",
            "Missing Opus packets that were recovered from the next one, or concealed.", "means",
            [("recovered", \.packetsRecovered), ("concealed", \.packetsConcealed)]),
        .counter(
            "parley_opus_late_packets_total", "Numbered Opus packets that came twice or too late.",
            \.packetsLate),
        MetricFamily(
            .gauge, "parley_codecs",
            "Decoders and encoders, in use by sessions or pooled for reuse.",
            .sums([
                ("kind=\"decoder\",state=\"used\"", ShardMetric.decodersInUse.cell),
                ("kind=\"decoder\",state=\"pooled\"", ShardMetric.decodersPooled.cell),
                ("kind=\"encoder\",state=\"used\"", ShardMetric.encodersInUse.cell),
                ("kind=\"encoder\",state=\"pooled\"", ShardMetric.encodersPooled.cell),
            ])),
        .counters(
            "parley_phrases_total", "Phrases to be spoken, by whether the cache had them.",
            "result", [("hit", .phraseHits), ("miss", .phraseMisses)]),
        .gauge("parley_phrase_cache_bytes", "Speech in the phrase cache.", .phraseBytes),
    ]

    private static let agents: [MetricFamily] = [
        MetricFamily(
            .counter, "parley_model_turns_total", "Turns of model providers, by outcome.",
            .figures {
                $0.providers.flatMap { provider in
                    [
                        ("completed", provider.completed), ("failed", provider.failed),
                        ("cancelled", provider.cancelled), ("skipped", provider.skipped),
                    ].map { ("provider=\"\(provider.name)\",outcome=\"\($0)\"", $1) }
                }
            }),
        MetricFamily(
            .counter, "parley_service_failures_total",
            "Requests to configured services that failed for good: a model's provider, stt, tts, "
                + "or mcp/ and the label of an MCP server.",
            .figures { $0.serviceFailures.map { ("service=\"\($0.service)\"", $0.count) } }),
        MetricFamily(
            .counter, "parley_model_fallbacks_total",
            "Turns that a provider took over from another that had failed.",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.fallbacks) } }),
        MetricFamily(
            .gauge, "parley_model_provider_paused",
            "1 while a provider is left alone after failures in a row.",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.isPaused ? 1 : 0) } }),
        MetricFamily(
            .gauge, "parley_model_requests_in_flight", "Turns that a provider answers now.",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.inFlight) } }),
        MetricFamily(
            .gauge, "parley_model_requests_waiting",
            "Turns that wait until a provider has fewer than its concurrency.",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.waiting) } }),
        MetricFamily(
            .counter, "parley_model_requests_refused_total",
            "Turns that a provider was not asked for, because too many waited or one waited too long.",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.refused) } }),
        MetricFamily(
            .counter, "parley_model_jobs_repeated_total",
            "Turns that were run again because their worker had died (redis-stream).",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.repeats) } }),
        MetricFamily(
            .counter, "parley_model_jobs_lost_total",
            "Turns that failed because their worker had died (redis-stream).",
            .figures { $0.providers.map { ("provider=\"\($0.name)\"", $0.lost) } }),
        .gauge("parley_agent_tasks", "Agents' tasks in flight.", .agentTasks),
        .gauge(
            "parley_upstream_transfers", "Descriptors of transfers to model servers.",
            .upstreamTransfers),
        .figure(.gauge, "parley_worker_queue_jobs", "Jobs that wait for a worker thread.") {
            $0.workers.queued
        },
        .figure(.gauge, "parley_worker_running_jobs", "Jobs that a worker thread runs.") {
            $0.workers.running
        },
        .figure(
            .counter, "parley_worker_refused_jobs_total", "Jobs refused because too many waited."
        ) { $0.workers.refused },
        .figure(
            .counter, "parley_worker_evicted_jobs_total",
            "Jobs that lost their place in a full queue to a caller with a smaller share."
        ) { $0.workers.evicted },
        MetricFamily(
            .counter, "parley_hypotheses_shed_total",
            "Recognitions of speech in progress that busy workers refused, by what they are for.",
            .figures {
                [
                    ("use=\"turn\"", $0.workers.shedExpected),
                    ("use=\"words\"", $0.workers.shedSpare),
                ]
            }),
        MetricFamily(
            .counter, "parley_worker_cpu_seconds_total",
            "Processor time of worker threads, by what it is for.", divisor: 1_000,
            .figures {
                let used = $0.workers.used
                return [
                    ("use=\"awaited\"", used.awaited.wholeMilliseconds),
                    ("use=\"turn\"", used.expected.wholeMilliseconds),
                    ("use=\"words\"", used.spare.wholeMilliseconds),
                ]
            }),
        .figure(
            .counter, "parley_voice_substitutions_total",
            "Clauses that flite spoke because the natural voice cannot be loaded."
        ) { $0.substitutedClauses },
    ]

    private static let store: [MetricFamily] = [
        .gauge(
            "parley_redis_connections", "Connections to Redis servers that answer.",
            .redisConnections),
        .counters(
            "parley_redis_commands_total",
            "Commands for Redis servers, by whether they got a reply that is no error.", "result",
            [("completed", .redisCompleted), ("failed", .redisFailed)]),
        .counter(
            "parley_redis_losses_total",
            "Connections to Redis servers that were lost, or could not be made.", .redisLosses),
        .gauge("parley_redis_waiting_commands", "Commands without a reply.", .redisWaiting),
        .gauge("parley_redis_queued_bytes", "Bytes of commands not yet sent.", .redisQueuedBytes),
        .shards(
            "parley_store_connected", "1 while the store of sessions answers a shard.",
            .storeConnected),
        MetricFamily(
            .gauge, "parley_store_troubles",
            "Shards for which the store of sessions is of no use, by its cause.",
            .sums(RedisTrouble.allCases.map { ("cause=\"\($0)\"", $0.storeMetric.cell) })),
        MetricFamily(
            .histogram, "parley_store_operation_seconds",
            "Time from an operation of the store to its reply.",
            .durations(StoreOperation.allCases.map { ("operation=\"\($0)\"", $0.histogram) })),
        .counter(
            "parley_store_failures_total",
            "Operations of the store that failed: it was away, slow or full.", .storeFailures),
        .counter(
            "parley_store_fenced_total",
            "Changes refused because another server owns the session.", .storeFenced),
    ]

    private static let recordings: [MetricFamily] = [
        recording(.gauge, "parley_recordings", "Recordings in progress.", { $0.open }),
        recording(
            .counter, "parley_recordings_finished_total", "Recordings that are complete.",
            { $0.finished }),
        recording(
            .counter, "parley_recording_written_bytes_total",
            "Bytes written to files of recordings.", { $0.writtenBytes }),
        recording(
            .counter, "parley_recording_dropped_bytes_total",
            "Bytes of audio that are missing in recordings: too much waited, or the folder was full.",
            { $0.droppedBytes }),
        recording(
            .gauge, "parley_recording_folder_bytes", "Bytes of the files in the folder.",
            { $0.folderBytes }),
        recording(
            .gauge, "parley_recording_pending_uploads", "Files that wait to be uploaded.",
            { $0.pendingUploads }),
        recording(
            .counter, "parley_recording_uploads_total", "Files that were uploaded.", { $0.uploads }),
        recording(
            .counter, "parley_recording_failed_uploads_total",
            "Attempts to upload a file that failed. The file waits for another.",
            { $0.failedUploads }),
        recording(
            .gauge, "parley_recording_pending_erasures",
            "Uploaded files that wait to be deleted where they are.", { $0.pendingErasures }),
        recording(
            .counter, "parley_recording_erasures_total", "Uploaded files that were deleted.",
            { $0.erasures }),
        recording(
            .counter, "parley_recording_failed_erasures_total",
            "Attempts to delete an uploaded file that failed. It waits for another.",
            { $0.failedErasures }),
    ]

    /// A count of the keeper of recordings, where there is one.
    private static func recording(
        _ kind: Kind, _ name: String, _ help: String,
        _ count: @escaping @Sendable (RecordingCounts) -> Int
    ) -> Self {
        Self(
            kind, name, help,
            .figures { snapshot in
                snapshot.recordings.map { [("", count($0))] } ?? []
            })
    }

    private static let loops: [MetricFamily] = [
        MetricFamily(
            .histogram, "parley_event_loop_lag_seconds",
            "How late deadlines expired; audio is as late.", .durations([("", .eventLoopLag)])),
        MetricFamily(
            .histogram, "parley_event_loop_turn_seconds",
            "Work of a tick of the event loop, from the return of one wait to the next.",
            .durations([("", .eventLoopTick)])),
        .counter(
            "parley_event_loop_absence_seconds_total",
            "Time that shards were late by more than 250 ms; peers' timeouts do not count it.",
            divisor: 1_000, .absentMilliseconds),
        MetricFamily(
            .histogram, "parley_session_scan_seconds",
            "Work of a scan of a shard's connections for an operator, over several ticks.",
            .durations([("", .sessionScan)])),
        .shards("parley_shard_connections", "Open connections of a shard.", .connectionsOpen),
        .shards("parley_shard_sessions", "Open sessions of a shard.", .sessionsOpen),
        .shards(
            "parley_shard_busy_ratio", "The part of the last second or more that a shard worked.",
            divisor: 1_000, .busyPermille),
        .shards(
            "parley_shard_opus_complexity_reduction",
            "Steps by which a busy shard reduces the complexity of Opus.", .complexityReduction),
    ]

    private static let memory: [MetricFamily] = [
        MetricFamily(
            .gauge, "parley_memory_bytes",
            "Memory that the process has written, by what holds it; the sum is all of it.",
            .figures { $0.account.map { ("part=\"\($0.rawValue)\"", $1) } }),
        .shards(
            "parley_ledger_total_bytes", "Memory of the connections and text requests of a shard.",
            .ledgerBytes),
        MetricFamily(
            .histogram, "parley_session_memory_bytes",
            "Memory of each connection now, by its shard and the state of its session.", .ledgers),
        .shards(
            "parley_shard_compression_context_bytes",
            "Memory that compression contexts of a shard's connections may take.",
            .compressionContextBytes),
        .shards(
            "parley_shard_send_buffer_bytes", "Memory of a shard's send buffers.", .sendBufferBytes),
        .shards(
            "parley_shard_scratch_bytes", "Memory that a shard's connections share.", .scratchBytes),
        .figure(.gauge, "process_resident_memory_bytes", "Resident memory of the process.") {
            $0.memory.resident
        },
        .figure(
            .gauge, "parley_private_memory_bytes",
            "Resident memory that the process itself has written, without files."
        ) { $0.memory.private },
        .figure(
            .gauge, "parley_allocated_memory_bytes",
            "Memory in use on the heap, without freed memory that the allocator keeps."
        ) { _ in ProcessMemory.allocated },
        .counter(
            "parley_memory_returns_total", "Times that unused memory was given back to the system.",
            .memoryReturns),
    ]
}

extension RedisTrouble {
    /// Its gauge for the store's connection.
    var storeMetric: ShardMetric {
        switch self {
        case .unreachable: .storeUnreachable
        case .replica: .storeIsReplica
        case .memory: .storeMemoryFull
        case .disk: .storeDiskFailing
        case .replicas: .storeReplicasMissing
        case .loading: .storeLoading
        case .password: .storePasswordRefused
        case .permission: .storePermissionMissing
        case .cluster: .storeIsCluster
        case .refusal: .storeRefusing
        }
    }
}
