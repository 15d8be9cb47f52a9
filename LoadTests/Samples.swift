// Measured values and their exact quantiles. All values are kept, so this is for thousands of them;
// LatencyHistogram is for millions.

/// Values in the order of their measurement.
struct Samples {
    private var values: [Int64] = []

    /// How many there are.
    var count: Int { values.count }

    /// Adds a value.
    mutating func append(_ value: Int64) { values.append(value) }

    /// The value that a share of the values does not exceed (nearest rank); nil without values.
    /// - Precondition: `share` is 0…1.
    func quantile(_ share: Double) -> Int64? {
        precondition((0...1).contains(share))
        guard !values.isEmpty else { return nil }
        let rank = Int((share * Double(values.count)).rounded(.up))
        return values.sorted()[max(rank, 1) - 1]
    }
}

/// Nanoseconds as milliseconds with one decimal, or a dash.
func milliseconds(_ nanoseconds: Int64?) -> String {
    guard let nanoseconds else { return "–" }
    return decimal(Double(nanoseconds) / 1e6) + " ms"
}

/// A number with one decimal.
func decimal(_ value: Double) -> String {
    let tenths = Int((abs(value) * 10).rounded())
    return (value < 0 && tenths > 0 ? "-" : "") + "\(tenths / 10).\(tenths % 10)"
}
