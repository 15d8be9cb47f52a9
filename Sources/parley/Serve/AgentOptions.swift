// Agents by their names: where they are described, and the agent of sessions that name none.

import Logging
import Server
import Session

/// The operator's agents.
struct AgentOptions: Sendable {
    /// The file of the agents, and where in it they are (AgentFile). Nil where there are none.
    var source: String?
    /// The agent of sessions that name none. Where nil, they have none.
    var standard: String?

    /// The settings that change these.
    static let settings = SettingGroup<Self>(.agents, all)

    private static let all: [Setting<Self>] = [
        .document(
            "agents", \.source,
            """
            YAML file of agents by their names, with instructions, greeting, model, voice, tools and \
            what else docs/agent-files.md lists; the configuration file may have them itself. A session \
            names one in its path or its query, or has that of its key, its token or the number that \
            was called. SIGHUP reads it again, for new sessions.
            """),
        .optionalText(
            "default-agent", \.standard, "the name of one of the agents",
            """
            The agent of sessions and calls that have no other.
            """),
    ]

    /// The agents as they are described now.
    /// - Parameter tools: which MCP servers sessions may name.
    /// - Throws: a `CommandFailure` where one cannot be used.
    func profiles(_ tools: ToolServerPolicy?) throws(CommandFailure) -> AgentProfiles {
        guard let source else {
            guard let standard else { return AgentProfiles() }
            throw .usage(
                "default-agent: there are no agents, so there is no \(shortened(standard))")
        }
        let all = try AgentFile(source: source).profiles()
        for profile in all {
            for update in profile.updates {
                guard case .value(let named) = update.mcpTools else { continue }
                for tool in named {
                    guard let refusal = tools?.refusal(of: tool, path: "tools") else { continue }
                    throw .usage("agents: \(profile.name): \(refusal.message)")
                }
            }
        }
        if let standard, !all.contains(where: { $0.name == standard }) {
            throw .usage("default-agent: there is no agent \(shortened(standard))")
        }
        return AgentProfiles(all, standard: standard)
    }
}
