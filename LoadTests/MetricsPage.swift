// Reads the server's /metrics: sums of samples, and the quantiles of a histogram's values between
// two fetches.

import Codec

/// One fetch of /metrics (Prometheus text format 0.0.4).
struct MetricsPage {
    private var values: [String: Double] = [:]
    private var series: [String: Double] = [:]
    private var buckets: [String: [(bound: Double, count: Double)]] = [:]

    /// Fetches the page.
    /// - Throws: `LoadFailure` when it cannot be fetched.
    init(of server: ServerAddress) throws(LoadFailure) {
        self.init(parsing: try server.get("/metrics"))
    }

    /// Reads a page; lines that are not samples are skipped.
    init(parsing text: String) {
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "),
                let value = Double(line[line.index(after: space)...])
            else { continue }
            let series = line[..<space]
            self.series[String(series)] = value
            let name = String(series.prefix { $0 != "{" })
            values[name, default: 0] += value
            guard name.hasSuffix("_bucket"), let start = series.firstRange(of: "le=\"")?.upperBound
            else {
                continue
            }
            let bound = series[start...].prefix { $0 != "\"" }
            let family = String(name.dropLast("_bucket".count))
            let limit = bound == "+Inf" ? Double.infinity : Double(bound) ?? .infinity
            buckets[family, default: []].append((limit, value))
        }
    }

    /// The sum of all samples of a name; 0 when there are none.
    func sum(of name: String) -> Double { values[name] ?? 0 }

    /// Whether there is a sample of a name.
    func has(_ name: String) -> Bool { values[name] != nil }

    /// The sample of a name whose only label is the given one; 0 when there is none.
    func sum(of name: String, labelled label: String) -> Double {
        series["\(name){\(label)}"] ?? 0
    }

    /// The samples of a name by the value of their only label.
    func samples(of name: String, by label: String) -> [String: Double] {
        var samples: [String: Double] = [:]
        let head = "\(name){\(label)=\""
        for (series, value) in series where series.hasPrefix(head) {
            samples[String(series.dropFirst(head.count).prefix { $0 != "\"" })] = value
        }
        return samples
    }

    /// A quantile of the values that the histogram counted since `earlier`: the upper bound of its
    /// bucket, in the histogram's unit. Nil when nothing was counted.
    func quantile(_ share: Double, of histogram: String, since earlier: MetricsPage) -> Double? {
        let counts = counts(of: histogram, since: earlier)
        guard let total = counts.last?.count, total > 0 else { return nil }
        return counts.first { $0.count >= total * share }?.bound
    }

    /// The same within its bucket, whose values are taken as spread evenly.
    func estimate(_ share: Double, of histogram: String, since earlier: MetricsPage) -> Double? {
        let counts = counts(of: histogram, since: earlier)
        guard let total = counts.last?.count, total > 0,
            let index = counts.firstIndex(where: { $0.count >= total * share })
        else { return nil }
        let (bound, count) = counts[index]
        let lower = index > 0 ? counts[index - 1] : (bound: 0, count: 0)
        guard bound.isFinite else { return lower.bound }
        let part = (total * share - lower.count) / (count - lower.count)
        return lower.bound + part * (bound - lower.bound)
    }

    /// The cumulative counts of a histogram's buckets since `earlier`, by bound.
    private func counts(
        of histogram: String, since earlier: MetricsPage
    ) -> [(bound: Double, count: Double)] {
        var counts: [(bound: Double, count: Double)] = []
        for (bound, count) in buckets[histogram] ?? [] {
            let before = earlier.buckets[histogram]?.filter { $0.bound == bound }
                .reduce(0) { $0 + $1.count }
            if let index = counts.firstIndex(where: { $0.bound == bound }) {
                counts[index].count += count
            } else {
                counts.append((bound, count - (before ?? 0)))
            }
        }
        return counts.sorted { $0.bound < $1.bound }
    }
}
