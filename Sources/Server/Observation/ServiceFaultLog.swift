// Failures of the services that the operator has configured: lines of the log, bounded in number,
// and a count of all of them. A service that is down fails with every turn.
//
// The first of equal failures is logged at once; of those in the next minute the number is.
// Failures that differ, as by the id of a request in their words, have a budget of lines for each
// service.

import Logging
import Session
import Synchronization

/// The failures of services, shared by all shards. Failures of receivers have a log of their own.
public final class ServiceFaultLog: Sendable {
    /// Time between two lines about equal failures. 60 s: an alarm is raised by the first.
    static let interval = Duration.seconds(60)
    /// Lines of a service at once, where its failures differ.
    static let burst = 10
    /// Time after which a service may have one more. 10 s.
    static let refill = Duration.seconds(10)
    /// Different failures of a service that are remembered. 32; beyond it all begin anew.
    private static let maxKinds = 32

    private struct Kind: Hashable {
        let status: Int
        let reason: String
        let beginning: String
    }

    private struct Service {
        /// Failures since the start.
        var total = 0
        /// Lines that it may have, and since when.
        var lines = ServiceFaultLog.burst
        var refilled: Instant
        /// Failures without a line since the last one, beside equal ones.
        var others = 0
        /// When the last line of equal failures was written, and how many there were since then.
        var kinds: [Kind: (last: Instant, unsaid: Int)] = [:]
    }

    private let services = Mutex<[String: Service]>([:])

    /// Creates a log without failures.
    public init() {}

    /// Failures since the start, by service, in the order of their names.
    var totals: [(service: String, count: Int)] {
        services.withLock { services in
            services.map { ($0.key, $0.value.total) }.sorted { $0.0 < $1.0 }
        }
    }

    /// Counts a failure, and writes a line if one is due.
    public func note(_ fault: ServiceFault, at now: Instant, logger: Logger) {
        guard let (equal, others) = take(fault, at: now) else { return }
        var metadata: Logger.Metadata = [
            "service": "\(fault.service)", "url": "\(fault.url)", "reason": "\(fault.reason)",
        ]
        if fault.status > 0 { metadata["status"] = "\(fault.status)" }
        if let type = fault.contentType { metadata["type"] = "\(type)" }
        if !fault.beginning.isEmpty { metadata["begins"] = "\(fault.beginning)" }
        if !fault.advice.isEmpty { metadata["advice"] = "\(fault.advice)" }
        if equal > 1 { metadata["count"] = "\(equal)" }
        if others > 0 { metadata["others"] = "\(others)" }
        if fault.isTolerated {
            logger.notice("service works, with a fault", metadata: metadata)
        } else {
            logger.warning("service failed", metadata: metadata)
        }
    }

    /// - Returns: how many equal failures the line stands for, and how many others had none. Nil
    ///   where no line is due.
    private func take(_ fault: ServiceFault, at now: Instant) -> (equal: Int, others: Int)? {
        let kind = Kind(status: fault.status, reason: fault.reason, beginning: fault.beginning)
        return services.withLock { services in
            var service = services[fault.service] ?? Service(refilled: now)
            defer { services[fault.service] = service }
            if !fault.isTolerated { service.total += 1 }
            let known = service.kinds[kind]
            let equal = (known?.unsaid ?? 0) + 1
            if let known, now - known.last < Self.interval {
                service.kinds[kind] = (known.last, equal)
                return nil
            }
            while service.lines < Self.burst, now - service.refilled >= Self.refill {
                service.lines += 1
                service.refilled = service.refilled + Self.refill
            }
            guard service.lines > 0 else {
                service.others += 1
                return nil
            }
            if service.lines == Self.burst { service.refilled = now }
            service.lines -= 1
            if service.kinds.count >= Self.maxKinds { service.kinds = [:] }
            service.kinds[kind] = (now, 0)
            defer { service.others = 0 }
            return (equal, service.others)
        }
    }
}
