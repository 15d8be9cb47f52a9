// The straight line that fits some points, and their distance from it. It shows whether cost grows
// in proportion to the number of sessions.

/// A line by least squares.
struct LinearFit: Equatable {
    let slope: Double
    let intercept: Double
    /// The greatest distance of a point from the line, as a share of the greatest value.
    let greatestDeviation: Double

    /// - Returns: nil for fewer than two different x values.
    init?(_ points: [(x: Double, y: Double)]) {
        let count = Double(points.count)
        let xMean = points.reduce(0) { $0 + $1.x } / max(1, count)
        let yMean = points.reduce(0) { $0 + $1.y } / max(1, count)
        let spread = points.reduce(0) { $0 + ($1.x - xMean) * ($1.x - xMean) }
        guard spread > 0 else { return nil }
        let slope = points.reduce(0) { $0 + ($1.x - xMean) * ($1.y - yMean) } / spread
        let intercept = yMean - slope * xMean
        let greatest = points.map(\.y.magnitude).max() ?? 0
        let distance = points.map { ($0.y - slope * $0.x - intercept).magnitude }.max() ?? 0
        self.slope = slope
        self.intercept = intercept
        greatestDeviation = greatest > 0 ? distance / greatest : 0
    }
}
