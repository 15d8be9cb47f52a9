// A quota: how much of something may be used in a minute or a day. Settings, the file of keys and
// tokens write it in the same words, `turns=20/minute`. Server counts what is used.

/// The unit that a quota counts.
public enum QuotaUnit: String, CaseIterable, Sendable {
    /// Sessions that are opened over WebSocket.
    case connections
    /// Client events, those with audio aside.
    case events
    /// Seconds of the user's audio.
    case audioSeconds = "audio-seconds"
    /// Replies that a model is asked for, also those that it begins before the turn has ended.
    case turns
    /// Tokens that replies took, of the request and of the answer.
    case tokens
}

/// The time to which a quota applies.
public enum QuotaPeriod: String, CaseIterable, Sendable {
    case minute
    case day

    /// Seconds of it.
    public var seconds: Int {
        switch self {
        case .minute: 60
        case .day: 86_400
        }
    }
}

/// How much of something may be used in a period.
///
/// It fills up continuously: a quota of 60 a minute allows 60 at once, and then one each second.
public struct Quota: Equatable, Sendable {
    /// Allowed amounts. A thousand million a day are 12,000 a second.
    public static let amounts = 1...1_000_000_000

    /// The unit that is counted.
    public var unit: QuotaUnit
    /// How much may be used, in `amounts`.
    public var amount: Int
    /// In what time.
    public var period: QuotaPeriod

    /// Creates a quota.
    public init(_ unit: QuotaUnit, _ amount: Int, per period: QuotaPeriod) {
        self.unit = unit
        self.amount = amount
        self.period = period
    }
}

extension Quota: LosslessStringConvertible {
    /// The form of a quota, for the messages of settings.
    public static let form =
        "quotas like turns=20/minute or tokens=100000/day, of "
        + QuotaUnit.allCases.map(\.rawValue).joined(separator: ", ")

    /// Reads `UNIT=AMOUNT/PERIOD`; nil for any other text.
    public init?(_ description: String) {
        let halves = description.split(separator: "=", omittingEmptySubsequences: false)
        guard halves.count == 2, let unit = QuotaUnit(rawValue: String(halves[0])) else {
            return nil
        }
        let rate = halves[1].split(separator: "/", omittingEmptySubsequences: false)
        guard rate.count == 2, let amount = Int(rate[0]), Self.amounts.contains(amount),
            let period = QuotaPeriod(rawValue: String(rate[1]))
        else { return nil }
        self.init(unit, amount, per: period)
    }

    /// `turns=20/minute`
    public var description: String { "\(unit.rawValue)=\(amount)/\(period.rawValue)" }
}

extension [Quota] {
    /// Reads quotas, or returns nil where a text is no quota, or two are for the same unit and
    /// period.
    public init?(texts: [String]) {
        self = texts.compactMap(Quota.init)
        guard count == texts.count, !hasRepeats else { return nil }
    }

    /// Whether two of them are for the same unit and period.
    public var hasRepeats: Bool {
        indices.contains { index in self[..<index].contains { $0.isAlike(self[index]) } }
    }

    /// These quotas, and those of `others` whose unit and period have no quota here.
    public func completed(by others: [Quota]) -> [Quota] {
        self + others.filter { other in !contains { $0.isAlike(other) } }
    }
}

extension Quota {
    /// Whether another quota is for the same unit and period.
    fileprivate func isAlike(_ other: Quota) -> Bool {
        unit == other.unit && period == other.period
    }
}
