// A published claim about servers: its wording and source, the contenders that are compared, the
// figures, and how one sample is taken. ClaimsRun takes the samples of all contenders, ClaimRule
// judges them, ClaimsReport shows them. The claims themselves are in the folder Published;
// ClaimsCommand lists them.

/// A figure that is measured for each contender of a claim.
struct Measure: Codable, Hashable, Sendable {
    /// Its name in samples and in JSON.
    let word: String
    /// Its column's title.
    let title: String
    /// `ms`, `MB`, `/s`; empty for plain counts.
    let unit: String
    /// Digits behind the point.
    var places = 1
    /// Whether more is better; most figures are costs.
    var isGain = false

    /// A value with its unit.
    func figure(_ value: Double) -> String {
        let number = thousands(value, places)
        return unit.isEmpty || unit.hasPrefix("/") ? number + unit : "\(number) \(unit)"
    }

    /// The median, and the least and the greatest where they differ.
    func spread(_ spread: Spread) -> String {
        let median = thousands(spread.median, places)
        guard spread.least < spread.greatest else { return median }
        let least = thousands(spread.least, places)
        return "\(median) (\(least) … \(thousands(spread.greatest, places)))"
    }

    /// A spread with its unit.
    func figure(_ spread: Spread) -> String {
        let text = self.spread(spread)
        return unit.isEmpty || unit.hasPrefix("/") ? text + unit : "\(text) \(unit)"
    }
}

/// A row of a claim's table: a stack, under one size of the load where there are several.
struct Contender: Codable, Hashable, Sendable {
    let stack: Stack
    /// Distinguishes it from the stack's other rows, as in `300 turns`.
    var variant: String?
    /// The variant as a number.
    var size = 0

    /// The row's title.
    var title: String { variant.map { "\(stack.title), \($0)" } ?? stack.title }

    /// The title without emphasis.
    var plainTitle: String { title.replacing("**", with: "") }
}

/// A published claim about stacks, and how it is measured.
struct Claim {
    /// Figures by `Measure.word`.
    typealias Sample = [String: Double]

    /// Its name on the command line.
    let name: String
    /// The heading of its table.
    let title: String
    /// The claims that comparisons of these stacks publish, each with its rule.
    let published: [PublishedClaim]
    /// The columns; the summary shows the first.
    let measures: [Measure]
    /// The rows.
    var contenders: [Contender]
    /// Samples of each contender.
    var rounds: Int
    /// The planned time of a sample in seconds, with the start and the end of its processes.
    let seconds: Double
    /// The text beside the table: the load, and what differs between the contenders.
    let remarks: String
    /// Takes one sample of one contender.
    let sample: (ClaimBench, Contender) throws(LoadFailure) -> Sample

    /// The planned time of all samples, in seconds.
    var plannedSeconds: Double { seconds * Double(contenders.count * rounds) }
}

/// The result of measuring a claim.
struct ClaimOutcome: Codable {
    /// One figure of one contender.
    struct Cell: Codable {
        let contender: Contender
        let measure: Measure
        /// A value per round, in the rounds' order.
        var values: [Double] = []
    }

    let name: String
    let title: String
    let published: [PublishedClaim]
    let remarks: String
    let command: String
    var cells: [Cell] = []
    /// The failures, by contender's title. The report shows them in place of figures.
    var failures: [String: [String]] = [:]
    /// Observations beside the figures, by contender's title.
    var notes: [String: [String]] = [:]
    /// Samples that were taken or failed, and the planned and the needed time of all, in seconds.
    var samples = 0
    var plannedSeconds = 0.0
    var neededSeconds = 0.0

    /// The contenders, in the table's order.
    var contenders: [Contender] { unique(cells.map(\.contender)) }
    /// The columns.
    var measures: [Measure] { unique(cells.map(\.measure)) }

    /// The figures of one contender; nil when it gave none.
    func spread(_ contender: Contender, _ measure: Measure) -> Spread? {
        let cell = cells.first { $0.contender == contender && $0.measure == measure }
        guard let values = cell?.values, !values.isEmpty else { return nil }
        return Spread(values)
    }

    private func unique<Value: Hashable>(_ values: [Value]) -> [Value] {
        var seen: Set<Value> = []
        return values.filter { seen.insert($0).inserted }
    }
}
