// Which environment variables of our prefix are known, and the warning about those that are not: a
// misspelt variable would otherwise be a setting that silently has its default.

import Codec

/// The names that begin with `PARLEY_` and mean something.
struct EnvironmentNames {
    /// What all of them begin with.
    static let prefix = "PARLEY_"
    /// Names that are not of `parley serve` and may stand in the environment of a developer: of the
    /// client commands (`PARLEY_KEY`), of the build (`PARLEY_STRICT`) and of the tests.
    static let ofOtherPrograms: Set = [
        "PARLEY_KEY", "PARLEY_STRICT", "PARLEY_BINARY", "PARLEY_TEST_BINARY", "PARLEY_MODELS",
        "PARLEY_RECORD", "PARLEY_FUZZ", "PARLEY_FUZZ_TARGET", "PARLEY_FUZZ_SEEDS",
        "PARLEY_VAD_REFERENCE",
    ]
    /// Unknown names that one warning has at most; the others are counted.
    private static let maxNamed = 20

    private let ofServe: Set<String>

    /// The variables of all options, and those that the providers of models name.
    init(settings: ServeSettings) {
        ofServe = Set(
            ServeSettings.options.map(\.variable) + [ServeConfigurationLoader.configVariable]
                + settings.language.providers.compactMap(\.keyVariable))
    }

    /// One line that names every unknown variable, with the known one that it may be meant for; nil
    /// where all are known.
    ///
    /// Not an error by itself: Kubernetes puts PARLEY_SERVICE_HOST and its like beside a service
    /// named parley, and a server must start there.
    func warning(for environment: [String: String]) -> String? {
        let unknown = environment.keys.filter {
            $0.hasPrefix(Self.prefix) && !ofServe.contains($0)
                && !Self.ofOtherPrograms.contains($0)
        }.sorted()
        guard !unknown.isEmpty else { return nil }
        let named = unknown.prefix(Self.maxNamed).map { name in
            let near = nearestName(to: name, among: ofServe)
            return shortened(name, quoted: false) + (near.map { " (did you mean \($0)?)" } ?? "")
        }
        let rest = unknown.count - named.count
        return "no option has the environment variables " + named.joined(separator: ", ")
            + (rest > 0 ? " and \(rest) more" : "")
    }
}

/// The name that a misspelt one is probably meant for: at most two letters away.
func nearestName(to name: String, among names: some Collection<String>) -> String? {
    let maxDistance = 2
    // Lengths first: the distance of two long texts costs the product of their lengths.
    return names.filter { abs($0.utf8.count - name.utf8.count) <= maxDistance }
        .map { (name: $0, distance: editDistance($0, name)) }
        .filter { $0.distance <= maxDistance }
        .min { ($0.distance, $0.name) < ($1.distance, $1.name) }?.name
}

/// Levenshtein's distance: insertions, deletions and replacements from one word to another.
private func editDistance(_ left: String, _ right: String) -> Int {
    let right = Array(right.utf8)
    var row = Array(0...right.count)
    for (index, letter) in left.utf8.enumerated() {
        var diagonal = row[0]
        row[0] = index + 1
        for column in right.indices {
            let replaced = diagonal + (letter == right[column] ? 0 : 1)
            diagonal = row[column + 1]
            row[column + 1] = min(replaced, row[column] + 1, row[column + 1] + 1)
        }
    }
    return row[right.count]
}

/// A text as a refusal shows it: on one line, and cut where it is too long for one.
func shortened(_ text: String, quoted: Bool = true) -> String {
    let maxCharacters = 200
    let start = text.prefix(maxCharacters)
    let shown = quoted ? jsonString(String(start)) : start.visible()
    return start.endIndex == text.endIndex ? shown : shown + "…"
}
