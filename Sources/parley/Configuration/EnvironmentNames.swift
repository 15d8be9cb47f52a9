// Which environment variables with the prefix `PARLEY_` are known, and the warning about others:
// without it, a misspelt variable would silently leave a setting at its default.

import Codec

/// The names that begin with `PARLEY_` and mean something.
struct EnvironmentNames {
    /// The beginning of every name.
    static let prefix = "PARLEY_"
    /// Names that other programs use: the client commands (`PARLEY_KEY`), the build
    /// (`PARLEY_STRICT`) and the tests. They may be set where a developer starts a server.
    static let ofOtherPrograms: Set = [
        "PARLEY_KEY", "PARLEY_STRICT", "PARLEY_BINARY", "PARLEY_TEST_BINARY", "PARLEY_MODELS",
        "PARLEY_RECORD", "PARLEY_FUZZ", "PARLEY_FUZZ_TARGET", "PARLEY_FUZZ_SEEDS",
        "PARLEY_VAD_REFERENCE",
    ]
    /// Unknown names that one warning has at most; the others are counted.
    private static let maxNamed = 20

    private let ofServe: Set<String>

    /// Collects the variables of all options, and those that the providers of models name.
    init(settings: ServeSettings) {
        ofServe = Set(
            ServeSettings.options.map(\.variable) + FormerNames.variables.map(\.variable)
                + [ServeConfigurationLoader.configVariable]
                + settings.language.providers.compactMap(\.keyVariable))
    }

    /// One line that names every unknown variable, and the known one with the most similar name;
    /// nil where all are known.
    ///
    /// Not an error by itself: Kubernetes sets PARLEY_SERVICE_HOST and similar variables beside a
    /// service named parley, and a server must start there.
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

/// The known name that a misspelt one probably stands for: at most two letters differ.
func nearestName(to name: String, among names: some Collection<String>) -> String? {
    let maxDistance = 2
    // Lengths first: the distance of two long texts costs the product of their lengths.
    return names.filter { abs($0.utf8.count - name.utf8.count) <= maxDistance }
        .map { (name: $0, distance: editDistance($0, name)) }
        .filter { $0.distance <= maxDistance }
        .min { ($0.distance, $0.name) < ($1.distance, $1.name) }?.name
}

/// Levenshtein's distance: the insertions, deletions and replacements that turn one word into the
/// other.
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

/// A text as a refusal shows it: on one line, and cut where it is too long.
func shortened(_ text: String, quoted: Bool = true) -> String {
    let maxCharacters = 200
    let start = text.prefix(maxCharacters)
    let shown = quoted ? jsonString(String(start)) : start.visible()
    return start.endIndex == text.endIndex ? shown : shown + "…"
}
