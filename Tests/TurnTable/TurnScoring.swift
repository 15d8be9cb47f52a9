// The scores of `turn-table --pauses`: a logistic regression of an end against a pause, fitted to the
// events of all sources but the one that it judges.

import Foundation
import Session

/// What a score is made of.
struct TurnScoring: Hashable, Sendable {
    var hasWords = false
    var hasProsody = false
    var hasModel = false

    /// Its name in the tables.
    var name: String {
        let parts = [
            hasWords ? "words" : nil, hasProsody ? "prosody" : nil, hasModel ? "Smart Turn" : nil,
        ]
        let named = parts.compactMap(\.self).joined(separator: " + ")
        return named.isEmpty ? "silence alone" : named
    }

    /// The numbers of evidence that are weighed; the last is the constant.
    func features(_ evidence: TurnEndEstimator.Evidence) -> [Double] {
        var features: [Double] = []
        if hasWords {
            let ending = evidence.ending
            features += [.question, .sentence, .number, nil].map { ending == $0 ? 1 : 0 }
        }
        if hasProsody { features.append(Double(TurnEndEstimator.sound(of: evidence))) }
        if hasModel { features.append(Double(TurnEndEstimator.judgement(of: evidence))) }
        return features + [1]
    }

    /// The score of evidence. Words that want another wait for the timeout, as in a session.
    func score(_ evidence: TurnEndEstimator.Evidence, _ weights: [Double]) -> Float {
        guard !hasWords || evidence.ending != .unfinished else { return -.infinity }
        return Float(zip(features(evidence), weights).reduce(0) { $0 + $1.0 * $1.1 })
    }

    /// Weights that tell ends from pauses, both with the same total weight.
    func fit(_ events: [TurnEvent]) -> [Double] {
        let rows = events.filter { !hasWords || $0.evidence.ending != .unfinished }.flatMap {
            event in
            // The model judges a silence up to three times.
            (hasModel ? event.judgements.map(\.silence) : [200]).map { silence in
                var evidence = event.evidence
                evidence.model = event.judgements.last { $0.silence <= silence }?.odds
                return (features(evidence), event.isEnd ? 1.0 : 0.0)
            }
        }
        let ends = rows.reduce(0) { $0 + $1.1 }
        let pauses = Double(rows.count) - ends
        return LogisticFit.weights(
            rows.map { ($0.0, $0.1, Double(rows.count) / 2 / ($0.1 == 1 ? ends : pauses)) })
    }
}

/// Newton's method, with a small penalty on large weights.
enum LogisticFit {
    /// The penalty on a weight's square, against rows that weigh about 1 each.
    private static let penalty = 1.0

    /// - Parameter rows: features of which the last is 1, the outcome 0 or 1, and the row's weight.
    static func weights(
        _ rows: [(features: [Double], outcome: Double, weight: Double)]
    ) -> [Double] {
        let count = rows[0].features.count
        var weights = [Double](repeating: 0, count: count)
        for _ in 0..<30 {
            var slope = weights.map { penalty * $0 }
            slope[count - 1] = 0
            var curve = (0..<count).map { row in
                (0..<count).map { $0 == row ? (row == count - 1 ? 1e-6 : penalty) : 0 }
            }
            for (features, outcome, weight) in rows {
                let sum = zip(features, weights).reduce(0) { $0 + $1.0 * $1.1 }
                let expected = 1 / (1 + exp(-sum))
                for row in 0..<count {
                    slope[row] += weight * (expected - outcome) * features[row]
                    let share = weight * expected * (1 - expected) * features[row]
                    for column in 0..<count { curve[row][column] += share * features[column] }
                }
            }
            let step = solve(curve, slope)
            for index in 0..<count { weights[index] -= step[index] }
        }
        return weights
    }

    /// Gauss's elimination, for a matrix that the penalty keeps regular.
    private static func solve(_ matrix: [[Double]], _ values: [Double]) -> [Double] {
        var rows = zip(matrix, values).map { $0 + [$1] }
        for pivot in rows.indices {
            let best = (pivot..<rows.count).max { abs(rows[$0][pivot]) < abs(rows[$1][pivot]) }!
            rows.swapAt(pivot, best)
            for row in rows.indices where row != pivot {
                let factor = rows[row][pivot] / rows[pivot][pivot]
                for column in pivot...rows.count {
                    rows[row][column] -= factor * rows[pivot][column]
                }
            }
        }
        return rows.indices.map { rows[$0][rows.count] / rows[$0][$0] }
    }
}
