// The file of agents (`agents`): one mapping for each, in YAML. The members of the protocol's session
// become a `session.update`, which is checked as a client's is. The rest becomes SessionAgent's settings.
//
//   - name: receptionist
//     instructions: You answer the telephone of Smith's bakery …
//     greeting: Smith's bakery, good morning!
//     tools: [calendar]
//
// Every fault is one line with the file and the agent's name. Only this file and the files of
// instructions that it names are read.

import Codec
import Server
import Session
import YAML

/// Reads the agents of one file.
struct AgentFile {
    /// The file, and the member of it that has the agents: `agents.yaml`, or `parley.yaml#agents`.
    let source: String
    /// Reads a whole file as text.
    var readFile: @Sendable (_ path: String) throws(WholeFileError) -> String = {
        path throws(WholeFileError) in try WholeFile.readText(path)
    }

    /// The agents in the file's order.
    /// - Throws: a `CommandFailure` with status 64.
    func profiles() throws(CommandFailure) -> [AgentProfile] {
        let parts = source.split(separator: "#", maxSplits: 1).map(String.init)
        let path = parts.first ?? ""
        let text = try read(path)
        let root: YAMLValue?
        do throws(YAMLError) { root = try YAMLValue.document(in: text) } catch {
            throw .usage("agents: \(path)\(error.line.map { ":\($0)" } ?? ""): \(error.problem)")
        }
        let list = parts.count > 1 ? root?[key: parts[1]] : root?[key: "agents"] ?? root
        guard let list, !list.isNull else { return [] }
        guard let items = list.items else {
            throw .usage("agents: \(path): must be a list of agents, each with a name")
        }
        guard items.count <= AgentProfiles.maxProfiles else {
            throw .usage("agents: \(path): more than \(AgentProfiles.maxProfiles) agents")
        }
        var profiles: [AgentProfile] = []
        for (index, item) in items.enumerated() {
            let entry = AgentEntry(item, number: index + 1, in: path, readFile)
            let profile = try entry.profile()
            guard !profiles.contains(where: { $0.name == profile.name }) else {
                throw .usage("agents: \(path): the name \(profile.name) is given twice")
            }
            profiles.append(profile)
        }
        return profiles
    }

    private func read(_ path: String) throws(CommandFailure) -> String {
        do throws(WholeFileError) { return try readFile(path) } catch {
            throw .usage("agents: \(error.problem(of: jsonString(path)))")
        }
    }
}

extension YAMLValue {
    fileprivate subscript(key key: String) -> YAMLValue? {
        if case .map = self { self[key] } else { nil }
    }
}
