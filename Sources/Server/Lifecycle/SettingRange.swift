// What each numeric setting may be, under the name that people give it by. `ParleyServer` refuses
// to start outside of these ranges; the options of `parley serve` have the same (a test compares).
//
// Invariant: a server within all ranges and rules keeps every promise of its documentation.

import Session

/// The range of one whole-number setting.
package struct SettingRange: Sendable {
    /// The option's name, for example `max-header-bytes`.
    package let name: String
    /// What the server accepts, in the option's unit.
    package let allowed: ClosedRange<Int>
    /// The setting's value, in the option's unit.
    package let value: @Sendable (ServerConfiguration) -> Int

    private init(
        _ name: String, _ allowed: ClosedRange<Int>,
        _ value: @escaping @Sendable (ServerConfiguration) -> Int
    ) {
        self.name = name
        self.allowed = allowed
        self.value = value
    }

    /// A setting that is a duration and an option in milliseconds.
    private static func milliseconds(
        _ name: String, _ allowed: ClosedRange<Int>,
        _ value: @escaping @Sendable (ServerConfiguration) -> Duration
    ) -> SettingRange {
        SettingRange(name, allowed) { Int(clamping: value($0).wholeMilliseconds) }
    }

    /// Every range, in the order of the options.
    package static let all =
        listening + admission + credentials + tls + limits + timeLimits + fairness + sessions
        + codecs + mcp

    private static let mebibyte = 1 << 20
    private static let gibibyte = 1 << 30

    private static let listening = [
        SettingRange("port", 0...65_535) { $0.port },
        SettingRange("shards", 1...1_024) { $0.shards },
        SettingRange("listen-backlog", 1...65_535) { $0.listenBacklog },
        SettingRange("worker-threads", 1...1_024) { $0.workerThreads },
        SettingRange("max-queued-jobs", 1...1_000_000) { $0.maxQueuedJobs },
    ]

    private static let admission = [
        SettingRange("max-connections-per-address", 0...10_000_000) {
            $0.maxConnectionsPerAddress
        },
        SettingRange("handshakes-per-second-per-address", 0...1_000_000) {
            $0.handshakesPerSecondPerAddress
        },
        SettingRange("handshake-burst-per-address", 1...1_000_000) {
            $0.handshakeBurstPerAddress
        },
        SettingRange("handshakes-per-second", 0...1_000_000) { $0.handshakesPerSecond },
    ]

    private static let credentials = [
        SettingRange("jwt-leeway-seconds", 0...600) { $0.jwtLeewaySeconds },
        SettingRange("max-sessions-per-key", 0...10_000_000) { $0.maxSessionsPerKey },
        SettingRange("max-session-seconds", 0...604_800) { $0.maxSessionSeconds },
        SettingRange("max-client-secrets", 2...1_000_000) { $0.maxClientSecrets },
        SettingRange("auth-failures-per-minute-per-address", 0...1_000_000) {
            $0.authFailuresPerMinutePerAddress
        },
    ]

    private static let tls = [
        milliseconds("tls-ticket-period-ms", 1_000...604_800_000) { $0.tlsTicketPeriod },
        SettingRange("max-tls-handshakes-per-turn", 1...65_535) { $0.maxTLSHandshakesPerTurn },
    ]

    private static let limits = [
        SettingRange("max-connections", 1...10_000_000) { $0.maxConnections },
        SettingRange("max-sessions", 1...10_000_000) { $0.maxSessions },
        SettingRange("max-text-turns", 1...10_000_000) { $0.maxTextTurns },
        SettingRange("max-resumable-replies", 0...10_000) { $0.maxResumableReplies },
        SettingRange("max-unread-reply-bytes", 1_024...gibibyte) { $0.maxUnreadReplyBytes },
        SettingRange("max-connection-memory-bytes", 0...(4 * gibibyte - 1)) {
            $0.maxConnectionMemoryBytes
        },
        SettingRange("max-memory-bytes", 0...(65_536 * gibibyte)) { $0.maxMemoryBytes },
        SettingRange("max-start-line-bytes", 256...mebibyte) { $0.maxStartLineBytes },
        SettingRange("max-header-bytes", 1_024...mebibyte) { $0.maxHeaderBytes },
        SettingRange("max-header-fields", 8...10_000) { $0.maxHeaderFields },
        SettingRange("max-body-bytes", 0...gibibyte) { $0.maxBodyBytes },
        SettingRange("max-message-bytes", 1_024...gibibyte) { $0.maxMessageBytes },
        SettingRange("max-frames-per-message", 1...1_000_000) { $0.maxFramesPerMessage },
        SettingRange("compress-min-bytes", 1...gibibyte) { $0.compressMinBytes },
        SettingRange("context-compress-min-bytes", 1...gibibyte) { $0.contextCompressMinBytes },
        SettingRange("max-compression-context-bytes", 0...(64 * gibibyte)) {
            $0.maxCompressionContextBytes
        },
        SettingRange("max-inflation-ratio", 1...10_000) { $0.maxInflationRatio },
        SettingRange("free-inflation-bytes", 0...gibibyte) { $0.freeInflationBytes },
        SettingRange("max-queued-output-bytes", (64 << 10)...gibibyte) { $0.maxQueuedOutputBytes },
        SettingRange("soft-queued-output-bytes", 4_096...gibibyte) { $0.softQueuedOutputBytes },
        SettingRange("max-unsent-socket-bytes", 4_096...gibibyte) { $0.maxUnsentSocketBytes },
        SettingRange("max-nuisances-per-second", 1...1_000_000) { $0.maxNuisancesPerSecond },
        SettingRange("max-nuisance-burst", 1...1_000_000) { $0.maxNuisanceBurst },
        SettingRange("tiny-fragment-bytes", 0...65_536) { $0.tinyFragmentBytes },
    ]

    private static let timeLimits = [
        milliseconds("header-timeout-ms", 100...600_000) { $0.headerTimeout },
        milliseconds("request-grace-ms", 100...600_000) { $0.requestGrace },
        SettingRange("min-request-bytes-per-second", 1...gibibyte) {
            $0.minRequestBytesPerSecond
        },
        milliseconds("keep-alive-timeout-ms", 100...86_400_000) { $0.keepAliveTimeout },
        milliseconds("ping-interval-ms", 100...86_400_000) { $0.pingInterval },
        milliseconds("idle-timeout-ms", 100...86_400_000) { $0.idleTimeout },
        milliseconds("unacknowledged-timeout-ms", 0...86_400_000) { $0.unacknowledgedTimeout },
        milliseconds("message-grace-ms", 100...86_400_000) { $0.messageGrace },
        SettingRange("min-message-bytes-per-second", 1...gibibyte) {
            $0.minMessageBytesPerSecond
        },
        milliseconds("message-idle-timeout-ms", 0...86_400_000) { $0.messageIdleTimeout },
        milliseconds("slow-reader-timeout-ms", 100...86_400_000) { $0.slowReaderTimeout },
        milliseconds("resume-timeout-ms", 0...3_600_000) { $0.resumeTimeout },
        milliseconds("late-audio-tolerance-ms", 0...600_000) { $0.lateAudioTolerance },
        milliseconds("close-timeout-ms", 10...600_000) { $0.closeTimeout },
        milliseconds("drain-delay-ms", 0...3_600_000) { $0.drainDelay },
        milliseconds("drain-timeout-ms", 0...3_600_000) { $0.drainTimeout },
        milliseconds("drain-jitter-ms", 0...3_600_000) { $0.drainJitter },
        SettingRange("retry-after-seconds", 0...86_400) { $0.retryAfterSeconds },
    ]

    private static let fairness = [
        SettingRange("max-write-bytes-per-turn", 1_024...(64 << 20)) { $0.maxWriteBytesPerTurn },
        SettingRange("read-buffer-bytes", 4_096...(64 << 20)) { $0.readBufferBytes },
        SettingRange("max-messages-per-turn", 1...1_000_000) { $0.maxMessagesPerTurn },
        milliseconds("max-audio-per-turn-ms", 20...60_000) { $0.maxAudioPerTurn },
        SettingRange("max-accepts-per-turn", 1...65_535) { $0.maxAcceptsPerTurn },
        SettingRange("max-jobs-per-turn", 1...1_000_000) { $0.maxJobsPerTurn },
        milliseconds("accept-pause-ms", 1...60_000) { $0.acceptPause },
    ]

    private static let sessions = [
        SettingRange("max-buffered-audio-seconds", 1...3_600) {
            $0.session.maxBufferedAudioSeconds
        },
        SettingRange("max-awaited-transcripts", 1...1_000) { $0.session.maxAwaitedTranscripts },
        SettingRange("max-conversation-items", 2...1_000_000) { $0.session.maxConversationItems },
        SettingRange("max-conversation-bytes", 1_024...gibibyte) {
            $0.session.maxConversationBytes
        },
        SettingRange("max-conversation-image-bytes", 0...gibibyte) {
            $0.session.maxConversationImageBytes
        },
        SettingRange("model-context-tokens", 1_024...100_000_000) {
            $0.session.modelContextTokens
        },
        SettingRange("max-kept-audio-bytes", 0...gibibyte) { $0.session.maxKeptAudioBytes },
        SettingRange("max-response-bytes", 1_024...gibibyte) { $0.session.maxResponseBytes },
        SettingRange("max-response-items", 1...10_000) { $0.session.maxResponseItems },
        SettingRange("max-active-responses", 1...1_000) { $0.session.maxActiveResponses },
        SettingRange("max-queued-speech-seconds", 1...3_600) {
            $0.session.maxQueuedSpeechSeconds
        },
        SettingRange("max-heard-audio-seconds", 1...3_600) { $0.session.maxHeardAudioSeconds },
        SettingRange("playout-lead-ms", 100...60_000) { $0.session.playoutLeadMilliseconds },
        SettingRange("min-interruption-ms", 0...10_000) {
            $0.session.minInterruptionMilliseconds
        },
    ]

    private static let codecs = [
        SettingRange("opus-bitrate", 6_000...128_000) { $0.codecs.opusBitrate },
        SettingRange("opus-complexity", 0...10) { $0.codecs.opusComplexity },
        SettingRange("codec-idle-seconds", 1...3_600) { $0.codecs.codecIdleSeconds },
        SettingRange("max-pooled-codecs", 0...10_000) { $0.codecs.maxPooledCodecs },
        SettingRange("phrase-cache-bytes", 0...gibibyte) { $0.codecs.phraseCacheBytes },
    ]

    private static let mcp = [
        SettingRange("max-mcp-servers", 1...16) { $0.session.maxToolServers },
        SettingRange("max-mcp-tools", 1...1_024) { $0.session.maxToolsPerServer },
        SettingRange("max-mcp-calls", 1...1_000) { $0.session.maxToolCalls },
        SettingRange("max-mcp-result-bytes", 64...mebibyte) { $0.session.maxToolResultBytes },
        SettingRange("max-automatic-responses", 1...1_000) { $0.session.maxAutomaticResponses },
    ]
}

extension ServerConfiguration {
    private var objectionToTokens: String? {
        let hasKeys = jwtKeysFile != nil || jwtSecret != nil
        if !hasKeys, jwtAudience != nil || jwtIssuer != nil {
            return "jwt-audience and jwt-issuer need jwt-keys-file or jwt-secret"
        }
        return nil
    }

    private var objectionToTLS: String? {
        if (tlsCertificate == nil) != (tlsKey == nil) {
            return tlsKey == nil
                ? "tls-cert needs tls-key: the file of the certificate's private key"
                : "tls-key needs tls-cert: the file of the key's certificate"
        }
        if tlsCertificate == nil, tlsClientCA != nil {
            return "tls-client-ca needs tls-cert and tls-key"
        }
        if tlsCertificate == nil, tlsOCSP != nil { return "tls-ocsp needs tls-cert and tls-key" }
        return nil
    }

    /// What is wrong with the settings, as one line that names the option, or nil.
    package var objection: String? {
        for range in SettingRange.all where !range.allowed.contains(range.value(self)) {
            return "\(range.name) must be from \(range.allowed.lowerBound) to "
                + "\(range.allowed.upperBound), not \(range.value(self))"
        }
        if let objection = objectionToTLS ?? objectionToTokens { return objection }
        // A turn's answers, and the last of them, must fit a queue that was within its share.
        if maxQueuedOutputBytes < 2 * maxWriteBytesPerTurn {
            return "max-queued-output-bytes must be at least twice max-write-bytes-per-turn"
        }
        if softQueuedOutputBytes > maxQueuedOutputBytes {
            return "soft-queued-output-bytes must not be more than max-queued-output-bytes"
        }
        if proxyProtocol == .required && trustedProxies.isEmpty {
            return "proxy-protocol needs trusted-proxies: nobody else's header is believed"
        }
        return nil
    }
}
