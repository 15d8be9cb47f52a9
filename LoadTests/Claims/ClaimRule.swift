// The rules by which a published claim is judged: conditions on figures, as values. A verdict is
// computed from them and from the spread of the rounds, so that the same figures always give the
// same verdict, and no verdict is written by hand.

/// A claim as it was published, with its source and what must be seen for it to be reproduced.
struct PublishedClaim: Codable, Hashable, Sendable {
    /// The wording.
    let text: String
    let source: ClaimSource
    /// All must hold.
    let conditions: [ClaimCondition]
}

/// Where a claim comes from.
enum ClaimSource: String, CaseIterable, Codable, Sendable {
    case tables, documentation, aim

    /// The source in full.
    var text: String {
        switch self {
        case .tables:
            "comparison tables of Node.js (Fastify) and Python (FastAPI) as back ends of agents, "
                + "from the time when the project began. The addresses of their pages and their "
                + "machines are not on record"
        case .documentation:
            "what the documentation of Node (worker_threads) and of FastAPI (endpoints in a "
                + "thread pool) recommends"
        case .aim: "an aim of this project, or an earlier measurement of it"
        }
    }
}

/// The ends of a range; nil: it has none on that side.
struct ClaimBounds: Codable, Hashable, Sendable {
    var least: Double?
    var most: Double?

    /// A ratio of two figures that were published: from three quarters of it to four thirds.
    /// Another machine moves both figures, but their ratio much less.
    static func about(_ ratio: Double) -> ClaimBounds {
        ClaimBounds(least: ratio * 3 / 4, most: ratio * 4 / 3)
    }

    fileprivate func verdict(from low: Double, to high: Double) -> ClaimVerdict {
        let isInside = low >= least ?? low && high <= most ?? high
        let isOutside = high < least ?? high || low > most ?? low
        return isInside ? .reproduced : isOutside ? .notReproduced : .cannotBeShown
    }

    /// As `2.00 … 3.00`, `at least 2.00`.
    fileprivate func text(_ places: Int) -> String {
        switch (least, most) {
        case (let least?, let most?): "\(thousands(least, places)) … \(thousands(most, places))"
        case (let least?, nil): "at least \(thousands(least, places))"
        case (nil, let most?): "at most \(thousands(most, places))"
        case (nil, nil): "any"
        }
    }
}

/// One thing that must be seen in a claim's figures. A measure is named by its word.
enum ClaimCondition: Codable, Hashable, Sendable {
    /// A figure is in a range in every round. Where there is a ceiling, the harness cannot show more
    /// than that: a figure at it neither holds nor fails.
    case figure(Contender, measure: String, in: ClaimBounds, ceiling: Double? = nil)
    /// The first row's figure by the second's is in a range, for all pairs of rounds.
    case ratio(Contender, to: Contender, measure: String, in: ClaimBounds)
    /// A row's figure is better than that of every other stack under the same load.
    case leads(Contender, measure: String)
}

/// Whether a claim was seen here.
enum ClaimVerdict: String, Codable, Sendable {
    case reproduced
    case notReproduced = "not reproduced"
    case cannotBeShown = "cannot be shown here"
}

/// A verdict and the figures that led to it.
struct ClaimFinding: Codable, Equatable, Sendable {
    var verdict: ClaimVerdict
    var detail: String

    /// Rounds that a verdict takes: fewer say nothing about the spread.
    static let minRounds = 3
}

extension ClaimOutcome {
    /// The verdict on a claim: a condition that fails decides; else one that is open; else it is
    /// reproduced.
    func finding(on claim: PublishedClaim) -> ClaimFinding {
        let findings = claim.conditions.map(finding)
        let verdicts = findings.map(\.verdict)
        let verdict: ClaimVerdict =
            verdicts.contains(.notReproduced)
            ? .notReproduced
            : verdicts.contains(.cannotBeShown) || verdicts.isEmpty ? .cannotBeShown : .reproduced
        return ClaimFinding(
            verdict: verdict, detail: findings.map(\.detail).joined(separator: "; "))
    }

    private func finding(_ condition: ClaimCondition) -> ClaimFinding {
        switch condition {
        case .figure(let row, let word, let bounds, let ceiling):
            figureFinding(row, word, bounds, ceiling)
        case .ratio(let first, let second, let word, let bounds):
            ratioFinding(first, second, word, bounds)
        case .leads(let row, let word): leadFinding(row, word)
        }
    }

    private func figureFinding(
        _ row: Contender, _ word: String, _ bounds: ClaimBounds, _ ceiling: Double?
    ) -> ClaimFinding {
        guard let measure = measure(word), let spread = spread(row, measure) else {
            return noFigure(row)
        }
        let name = "\(row.plainTitle): \(measure.figure(spread))"
        let claimed = "claimed: \(bounds.text(measure.places))"
        if let objection = objection(row) {
            return ClaimFinding(verdict: .cannotBeShown, detail: "\(name); \(objection)")
        }
        if let ceiling, spread.least >= ceiling, let least = bounds.least, ceiling < least {
            return ClaimFinding(
                verdict: .cannotBeShown,
                detail: "\(name), which is all that this machine can load; \(claimed)")
        }
        let verdict = bounds.verdict(from: spread.least, to: spread.greatest)
        let doubt = verdict == .cannotBeShown ? "; the rounds disagree" : ""
        return ClaimFinding(verdict: verdict, detail: "\(name), \(claimed)\(doubt)")
    }

    private func ratioFinding(
        _ first: Contender, _ second: Contender, _ word: String, _ bounds: ClaimBounds
    ) -> ClaimFinding {
        guard let measure = measure(word), let one = spread(first, measure) else {
            return noFigure(first)
        }
        guard let other = spread(second, measure), other.least > 0 else { return noFigure(second) }
        let (low, high) = (one.least / other.greatest, one.greatest / other.least)
        let middle = decimal(one.median / other.median, 2)
        let detail =
            "\(first.plainTitle) ÷ \(second.plainTitle): \(middle) (\(decimal(low, 2)) … "
            + "\(decimal(high, 2))), claimed: \(bounds.text(2))"
        if let objection = objection(first) ?? objection(second) {
            return ClaimFinding(verdict: .cannotBeShown, detail: "\(detail); \(objection)")
        }
        let verdict = bounds.verdict(from: low, to: high)
        let doubt = verdict == .cannotBeShown ? "; the spread crosses the limit" : ""
        return ClaimFinding(verdict: verdict, detail: detail + doubt)
    }

    private func leadFinding(_ row: Contender, _ word: String) -> ClaimFinding {
        guard let measure = measure(word), let own = standing(of: row, measure) else {
            return noFigure(row)
        }
        guard let peer = own.peer else {
            return ClaimFinding(verdict: .cannotBeShown, detail: "no peer gave a figure")
        }
        let objections = [row, peer].compactMap { row in
            objection(row).map { "\(row.plainTitle): \($0)" }
        }
        guard objections.isEmpty else {
            return ClaimFinding(
                verdict: .cannotBeShown, detail: objections.joined(separator: "; "))
        }
        let verdict: ClaimVerdict =
            switch own.place {
            case .ahead: .reproduced
            case .behind: .notReproduced
            case .level: .cannotBeShown
            }
        return ClaimFinding(
            verdict: verdict, detail: "\(row.plainTitle) is \(own.text(beside: peer))")
    }

    /// The finding where a row gave no figure.
    private func noFigure(_ row: Contender) -> ClaimFinding {
        let reason = failures[row.title]?.first ?? "it did not take part"
        return ClaimFinding(
            verdict: .cannotBeShown, detail: "\(row.plainTitle) has no figure: \(reason)")
    }

    /// Why the figures of a row do not suffice for a verdict, or nil.
    func objection(_ row: Contender) -> String? {
        let count = cells.first { $0.contender == row && !$0.values.isEmpty }?.values.count ?? 0
        if let failed = failures[row.title] {
            return "\(failed.count) of \(failed.count + count) rounds failed"
        }
        guard count < ClaimFinding.minRounds else { return nil }
        return "a verdict takes \(ClaimFinding.minRounds) rounds, and this is \(count)"
    }

    private func measure(_ word: String) -> Measure? { measures.first { $0.word == word } }
}

/// A row beside the best of the other stacks.
struct ClaimStanding: Equatable {
    /// Ahead or behind: the spreads do not overlap. Otherwise neither can be called better.
    enum Place: Equatable { case ahead, level, behind }

    var place: Place
    /// The other stack's row with the best median; nil where none has a figure.
    var peer: Contender?
    /// The row's median by the peer's.
    var ratio: Double

    /// As `ahead of Bun (1.93 times its figure)`.
    fileprivate func text(beside peer: Contender) -> String {
        let times = "(\(decimal(ratio, 2)) times its figure)"
        return switch place {
        case .ahead: "ahead of all, the best of which is \(peer.plainTitle) \(times)"
        case .behind: "behind \(peer.plainTitle) \(times)"
        case .level: "level with \(peer.plainTitle) \(times): the spreads overlap"
        }
    }
}

extension ClaimOutcome {
    /// A row's place among the other stacks under the same load; nil when it has no figure.
    func standing(of row: Contender, _ measure: Measure) -> ClaimStanding? {
        guard let own = spread(row, measure) else { return nil }
        let peers = contenders.filter { $0.stack != row.stack && $0.size == row.size }
            .compactMap { peer in spread(peer, measure).map { (row: peer, spread: $0) } }
        func isBetter(_ one: Double, than other: Double) -> Bool {
            measure.isGain ? one > other : one < other
        }
        let best = peers.max { isBetter($1.spread.median, than: $0.spread.median) }
        guard let best else { return ClaimStanding(place: .level, peer: nil, ratio: 1) }
        let ownWorst = measure.isGain ? own.least : own.greatest
        let ownBest = measure.isGain ? own.greatest : own.least
        let isAhead = peers.allSatisfy {
            isBetter(ownWorst, than: measure.isGain ? $0.spread.greatest : $0.spread.least)
        }
        let isBehind = peers.contains {
            isBetter(measure.isGain ? $0.spread.least : $0.spread.greatest, than: ownBest)
        }
        return ClaimStanding(
            place: isAhead ? .ahead : isBehind ? .behind : .level, peer: best.row,
            ratio: best.spread.median == 0 ? 1 : own.median / best.spread.median)
    }
}
