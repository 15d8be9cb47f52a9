// What a claim is: what was published, who is compared, which figures tell, and how one sample of
// them is taken. How the samples of all are taken in turns is ClaimsRun's, how they are shown is
// ClaimsReport's. The claims themselves are in the files whose names end in Claim or Claims; their
// list is in ClaimsCommand.

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
    /// What sets it apart from the stack's other rows, as `300 turns`.
    var variant: String?
    /// The variant as a number.
    var size = 0

    /// The row's title.
    var title: String { variant.map { "\(stack.title), \($0)" } ?? stack.title }
}

/// A claim about stacks that people run, and how it is measured.
struct Claim {
    /// Figures by `Measure.word`.
    typealias Sample = [String: Double]

    /// Its word on the command line.
    let name: String
    /// The heading of its table.
    let title: String
    /// What comparisons of these stacks publish.
    let published: String
    /// The first is the one that the summary shows.
    let measures: [Measure]
    /// The rows.
    let contenders: [Contender]
    /// Samples of each contender, taken in turns.
    let rounds: Int
    /// What the table must say of itself: the load, and what is not the same for all.
    let remarks: String
    /// Takes one sample of one contender.
    let sample: (ClaimBench, Contender) throws(LoadFailure) -> Sample
}

/// What a claim's run found.
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
    /// What went wrong, by contender's title: never left out, never replaced by a number.
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
