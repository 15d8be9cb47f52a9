// The files of a run: results.json (complete, for programs), results.md, and plots. They replace an
// earlier run's files of the same names; other files in the folder stay. MarkdownReport and
// ResultPlots make their content.

import Foundation

/// A folder of results.
struct ReportFolder {
    private let path: String

    /// Makes the folder unless it exists.
    init(_ path: String) throws(LoadFailure) {
        self.path = path
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true)
        } catch {
            throw LoadFailure("cannot make \(path): \(error.localizedDescription)")
        }
    }

    /// Writes results.
    /// - Parameter extra: further Markdown, before the tables, and further plots by name.
    func write(
        _ results: [ScenarioResult], heading: String? = nil, plots: [String: String] = [:]
    ) throws(LoadFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        guard let json = try? encoder.encode(results) else {
            throw LoadFailure("the results cannot be written as JSON")
        }
        try put("results.json", String(decoding: json, as: UTF8.self))
        let text = MarkdownReport(results: results).text
        try put("results.md", (heading.map { $0 + "\n\n" } ?? "") + text + "\n")
        for (name, plot) in plots { try put(name, plot) }
        for result in results {
            for (name, plot) in ResultPlots.all(of: result) { try put(name, plot) }
        }
        printError("results are in \(path)\n")
    }

    private func put(_ name: String, _ text: String) throws(LoadFailure) {
        do {
            try text.write(toFile: "\(path)/\(name)", atomically: true, encoding: .utf8)
        } catch {
            throw LoadFailure("cannot write \(path)/\(name): \(error.localizedDescription)")
        }
    }
}
