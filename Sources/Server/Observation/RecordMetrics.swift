// The metrics of records and recordings. They exist even where nothing is kept.

import Session

extension MetricFamily {
    static let records: [MetricFamily] = [
        kept(
            .counter, "parley_record_changes_total",
            "Changes of sessions that were written to the file of records.", \.written),
        kept(
            .counter, "parley_record_changes_refused_total",
            "Changes of sessions that were lost, because too much waited.", \.refused),
        kept(
            .counter, "parley_record_failures_total",
            "Attempts to write the file of records that failed.", \.failures),
        kept(
            .gauge, "parley_record_queue_bytes", "Changes that wait in memory for the file.",
            \.queuedBytes),
        kept(
            .gauge, "parley_record_spool_bytes", "Bytes in use in the file of records.",
            \.spoolBytes),
        kept(
            .gauge, "parley_record_spooled_sessions",
            "Records of ended sessions that wait in the file for their database.",
            \.spooledSessions),
        kept(
            .counter, "parley_record_delivered_sessions_total",
            "Records that their database has taken.", \.deliveredSessions),
        kept(
            .gauge, "parley_webhooks_waiting", "Events that wait for the receiver of webhooks.",
            \.waitingWebhooks),
        kept(
            .counter, "parley_webhooks_delivered_total",
            "Events that the receiver of webhooks has taken.", \.deliveredWebhooks),
        kept(
            .counter, "parley_webhook_failures_total",
            "Attempts that the receiver of webhooks has refused or not answered.",
            \.failedWebhooks),
        kept(
            .counter, "parley_webhooks_lost_total",
            "Events that were dropped after the last attempt, or because too many waited.",
            \.lostWebhooks),
    ]

    private static func kept(
        _ kind: Kind, _ name: String, _ help: String,
        _ count: any KeyPath<RecordCounts, Int> & Sendable
    ) -> MetricFamily {
        figure(kind, name, help) { $0.records?[keyPath: count] ?? 0 }
    }
}
