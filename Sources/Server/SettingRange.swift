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
    package static let all = listening + limits + timeLimits + fairness + sessions

    private static let mebibyte = 1 << 20
    private static let gibibyte = 1 << 30

    private static let listening = [
        SettingRange("port", 0...65_535) { $0.port },
        SettingRange("shards", 1...1_024) { $0.shards },
        SettingRange("listen-backlog", 1...65_535) { $0.listenBacklog },
        SettingRange("worker-threads", 1...1_024) { $0.workerThreads },
        SettingRange("max-queued-jobs", 1...1_000_000) { $0.maxQueuedJobs },
    ]

    private static let limits = [
        SettingRange("max-connections", 1...10_000_000) { $0.maxConnections },
        SettingRange("max-sessions", 1...10_000_000) { $0.maxSessions },
        SettingRange("max-start-line-bytes", 256...mebibyte) { $0.maxStartLineBytes },
        SettingRange("max-header-bytes", 1_024...mebibyte) { $0.maxHeaderBytes },
        SettingRange("max-header-fields", 8...10_000) { $0.maxHeaderFields },
        SettingRange("max-body-bytes", 0...gibibyte) { $0.maxBodyBytes },
        SettingRange("max-message-bytes", 1_024...gibibyte) { $0.maxMessageBytes },
        SettingRange("max-frames-per-message", 1...1_000_000) { $0.maxFramesPerMessage },
        SettingRange("max-queued-output-bytes", (64 << 10)...gibibyte) { $0.maxQueuedOutputBytes },
        SettingRange("soft-queued-output-bytes", 4_096...gibibyte) { $0.softQueuedOutputBytes },
    ]

    private static let timeLimits = [
        milliseconds("header-timeout-ms", 100...600_000) { $0.headerTimeout },
        milliseconds("keep-alive-timeout-ms", 100...86_400_000) { $0.keepAliveTimeout },
        milliseconds("ping-interval-ms", 100...86_400_000) { $0.pingInterval },
        milliseconds("idle-timeout-ms", 100...86_400_000) { $0.idleTimeout },
        milliseconds("close-timeout-ms", 10...600_000) { $0.closeTimeout },
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
        SettingRange("max-response-bytes", 1_024...gibibyte) { $0.session.maxResponseBytes },
        SettingRange("max-response-items", 1...10_000) { $0.session.maxResponseItems },
        SettingRange("max-active-responses", 1...1_000) { $0.session.maxActiveResponses },
        SettingRange("max-queued-speech-seconds", 1...3_600) {
            $0.session.maxQueuedSpeechSeconds
        },
        SettingRange("playout-lead-ms", 100...60_000) { $0.session.playoutLeadMilliseconds },
    ]
}

extension ServerConfiguration {
    /// What is wrong with the settings, as one line that names the option, or nil.
    package var objection: String? {
        for range in SettingRange.all where !range.allowed.contains(range.value(self)) {
            return "\(range.name) must be from \(range.allowed.lowerBound) to "
                + "\(range.allowed.upperBound), not \(range.value(self))"
        }
        // A turn's answers, and the last of them, must fit a queue that was within its share.
        if maxQueuedOutputBytes < 2 * maxWriteBytesPerTurn {
            return "max-queued-output-bytes must be at least twice max-write-bytes-per-turn"
        }
        if softQueuedOutputBytes > maxQueuedOutputBytes {
            return "soft-queued-output-bytes must not be more than max-queued-output-bytes"
        }
        return nil
    }
}
