// The guide's tools: facts about the session and its server. They are tools of a tool server like
// any other, which runs inside of this process under the label `parley`. The session lists and
// calls them, and the client sees every call and its result.

import Codec
import Session

/// A tool of the guide.
enum GuideTool: String, CaseIterable {
    case countSessions = "count_sessions"
    case readMemory = "read_memory"
    case readLatency = "read_latency"

    /// Its name in a model's request.
    var functionName: String { "\(GuideToolServers.label)__\(rawValue)" }

    /// The tool that a model's request has under a name, or nil where that is no tool of the guide.
    init?(functionName: String) {
        guard let tool = Self.allCases.first(where: { $0.functionName == functionName }) else {
            return nil
        }
        self = tool
    }

    fileprivate var description: MCPToolDescription {
        let purpose =
            switch self {
            case .countSessions: "How many sessions the server has open."
            case .readMemory: "Bytes that this session takes of the server's memory."
            case .readLatency:
                "How long the last answered turn took, in milliseconds from its end: until its "
                    + "transcript, the first token and the first audio of the reply."
            }
        return MCPToolDescription(
            name: rawValue, description: purpose,
            inputSchema: RawJSON(#"{"type":"object","properties":{}}"#),
            annotations: RawJSON(#"{"readOnlyHint":true}"#), isReadOnly: true)
    }

    /// The result as JSON.
    fileprivate func result(of facts: SessionFacts) -> String {
        let bytes = encodedObject { json in
            switch self {
            case .countSessions: json.member("sessions_open", facts.openSessions)
            case .readMemory: json.member("session_bytes", facts.bytes)
            case .readLatency:
                json.member("transcript_ms", facts.answeredTurn?.transcript)
                json.member("first_token_ms", facts.answeredTurn?.firstToken)
                json.member("first_audio_ms", facts.answeredTurn?.firstAudio)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The tool servers of a server whose agent is the guide: those of the operator, and the guide's.
public struct GuideToolServers: ToolServers {
    /// The label of the guide's tools.
    public static let label = "parley"
    private let others: any ToolServers
    /// Whether the label is the guide's: the operator may have a server of the same name.
    private let isOwn: Bool

    /// - Parameter others: the operator's servers, and those that clients name by URL.
    public init(beside others: any ToolServers) {
        self.others = others
        isOwn = !others.policy.configuredLabels.contains(Self.label)
    }

    /// The policy of the others, with the guide's label.
    public var policy: ToolServerPolicy {
        var policy = others.policy
        policy.configuredLabels.insert(Self.label)
        return policy
    }

    /// A connection to the guide's tools, or to another server.
    public func connection(to server: MCPTool) -> any ToolServerConnection {
        let isGuide = isOwn && server.serverURL == nil && server.serverLabel == Self.label
        return isGuide ? GuideToolConnection() : others.connection(to: server)
    }

    /// Ends the others; the guide's tools have nothing to end.
    public func shutdown() { others.shutdown() }
}

/// A session's connection to the guide's tools. It has no state.
private struct GuideToolConnection: ToolServerConnection {
    func listTools(on host: any AgentHost) async throws -> [MCPToolDescription] {
        GuideTool.allCases.map(\.description)
    }

    func call(
        _ name: String, arguments: String, id: String, on host: any AgentHost
    ) async throws -> String {
        guard let tool = GuideTool(rawValue: name) else {
            throw MCPCallError.execution(message: "There is no such tool.")
        }
        guard let facts = await host.sessionFacts() else {
            throw MCPCallError.execution(message: "Nothing is known of this session.")
        }
        return tool.result(of: facts)
    }

    func cancelCall(id: String, on host: any AgentHost) async {}

    func close(on host: any AgentHost) async {}
}
