// One page of the session list, put together from the answers of the shards. Pure.
//
// Invariant: a page has at most as many rows as its query asked for, in the order of the query.

/// A page of the sessions of all shards.
struct SessionPage {
    let rows: [SessionRow]
    /// Sessions that fit the query.
    let matching: Int
    /// How many of them come before the first row.
    let position: Int

    /// Puts the answers of shards together.
    init(_ reports: [SurveyReport], to query: SessionQuery) {
        let all = reports.flatMap(\.rows).sorted { $0.rank < $1.rank }
        rows = Array(query.keepsLast ? all.suffix(query.limit) : all.prefix(query.limit))
        matching = reports.reduce(0) { $0 + $1.matching }
        let preceding = reports.reduce(0) { $0 + $1.preceding }
        position =
            switch query.start {
            case .first: 0
            case .after: preceding
            case .before: max(0, preceding - rows.count)
            case .last: max(0, matching - rows.count)
            }
    }
}
