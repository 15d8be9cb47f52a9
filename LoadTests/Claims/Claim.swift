// A published claim about servers: its source, the contenders that are compared, the figures, and
// how one sample is taken. ClaimsRun takes the samples of all contenders, ClaimsReport shows them.
// The claims themselves are in the files whose names end in Claim or Claims; ClaimsCommand lists
// them.

/// A figure that is measured for each contender of a claim.
struct Measure: Codable, Hashable, Sendable {
    /// Its name in samples and in JSON.
    let word: String
    /// Its column's title.
    let title: String
    /// `ms`, `MiB`, `/s`; empty for plain counts.
    let unit: String
    /// Digits behind the point.
    var places = 1
    /// Whether more is better; most figures are costs.
    var isGain = false
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
}

/// A published claim about stacks, and how it is measured.
struct Claim {
    /// Figures by `Measure.word`.
    typealias Sample = [String: Double]

    /// Its name on the command line.
    let name: String
    /// The heading of its table.
    let title: String
    /// The figures that comparisons of these stacks publish.
    let published: String
    /// The columns; the summary shows the first.
    let measures: [Measure]
    /// The rows.
    let contenders: [Contender]
    /// Samples of each contender.
    let rounds: Int
    /// The text beside the table: the load, and what differs between the contenders.
    let remarks: String
    /// Takes one sample of one contender.
    let sample: (ClaimBench, Contender) throws(LoadFailure) -> Sample
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
    let published: String
    let remarks: String
    let command: String
    var cells: [Cell] = []
    /// The failures, by contender's title. The report shows them in place of figures.
    var failures: [String: [String]] = [:]

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
