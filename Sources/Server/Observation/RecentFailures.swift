// The newest failures of the server, for its operator's page: of configured services, of responses, and of
// recognitions. The log has a line for each (ServiceFaultLog, SessionLog); here they are values, and few.
//
// Invariant: at most `maxKept` are kept, the newest last. A failure that equals one of them counts there, so
// that a service that is down does not push everything else out.

import Logging
import Session
import Synchronization

/// The newest failures, shared by all shards.
final class RecentFailures: Sendable {
    /// Failures that are kept. 50: some 20 kB.
    static let maxKept = 50
    /// Characters of a reason. 300: the words of a service may be a whole page.
    private static let maxReason = 300

    /// The activity that has failed.
    enum Kind: String, CaseIterable, Sendable {
        /// A configured service.
        case service
        /// A response of a session.
        case response
        /// The recognition of what a user said.
        case transcription
    }

    /// Equal failures.
    struct Failure: Equatable, Sendable {
        let kind: Kind
        /// The service's name, or the session's id where a session alone is concerned.
        let source: String
        /// A stable word, or the status of the service's answer; empty: neither is known.
        let code: String
        /// The failure in words.
        let reason: String
        /// The remedy in words. Empty means that none is known.
        var advice = ""
        /// When it happened last, in seconds since 1970.
        var seconds: Int
        /// How often it has happened.
        var count = 1

        fileprivate func equals(_ other: Failure) -> Bool {
            kind == other.kind && source == other.source && code == other.code
                && reason == other.reason
        }
    }

    private let kept = Mutex<(failures: [Failure], revision: Int)>(([], 0))

    /// All that are kept, the newest last, and a number that is another one after each change.
    var all: (failures: [Failure], revision: Int) { kept.withLock { $0 } }

    /// The number of the last change.
    var revision: Int { kept.withLock { $0.revision } }

    /// Takes note of a failure of a service. A request that is answered nonetheless has not failed.
    func note(_ fault: ServiceFault) {
        guard !fault.isTolerated else { return }
        note(
            Failure(
                kind: .service, source: fault.service,
                code: fault.status > 0 ? "\(fault.status)" : "",
                reason: String(fault.reason.prefix(Self.maxReason)),
                advice: String(fault.advice.prefix(Self.maxReason)),
                seconds: WallClock.seconds))
    }

    /// Takes note of a failure in a session.
    func note(_ kind: Kind, of sessionID: String, code: String, reason: String) {
        note(
            Failure(
                kind: kind, source: sessionID, code: code,
                reason: String(reason.prefix(Self.maxReason)), seconds: WallClock.seconds))
    }

    private func note(_ failure: Failure) {
        kept.withLock { kept in
            var failure = failure
            if let index = kept.failures.firstIndex(where: failure.equals) {
                failure.count += kept.failures.remove(at: index).count
            } else if kept.failures.count >= Self.maxKept {
                kept.failures.removeFirst()
            }
            kept.failures.append(failure)
            kept.revision += 1
        }
    }
}

extension ServerMetrics {
    /// A configured service has failed: it is counted, logged where a line is due, and shown to operators.
    func note(_ fault: ServiceFault, at now: Instant, logger: Logger) {
        serviceFaults.note(fault, at: now, logger: logger)
        recentFailures.note(fault)
    }
}
