// The revisions of the Model Context Protocol that we speak, and what distinguishes them. A
// stateless revision has no handshake: every request carries its version and the client's
// capabilities in `params._meta`, and `server/discover` finds out whether a server speaks it. An
// earlier revision begins with `initialize`. The transports decide which one a server gets.
//
// Source: MCP 2026-07-28, "Base protocol", "Discovery"; MCP 2025-06-18, "Lifecycle".

import Codec
import Session

/// The known revisions, and the messages with which a conversation in them begins.
enum MCPVersion {
    /// The stateless revisions, the newest first.
    private static let stateless = ["2026-07-28"]
    /// The newest stateless revision.
    static var newest: String { stateless[0] }
    /// The revision that the handshake asks for.
    static let asked = "2025-06-18"
    private static let withHandshake: Set<String> = [
        asked, "2025-11-25", "2025-03-26", "2024-11-05",
    ]

    // MARK: Stateless revisions

    /// Asks a server for the revisions that it speaks.
    static func discover(id: String) -> JSONRPCRequest {
        JSONRPCRequest(id: id, method: "server/discover")
    }

    /// The members of `params._meta` in each request of a stateless revision. The one capability is
    /// to answer questions that are forms: MCPQuestions lets the model answer them.
    static func envelope(of version: String) -> RawJSON {
        .object { json in
            json.member("io.modelcontextprotocol/protocolVersion", version)
            json.object("io.modelcontextprotocol/clientCapabilities") { json in
                json.object("elicitation") { json in json.object("form") { _ in } }
            }
            json.object("io.modelcontextprotocol/clientInfo", ourselves)
        }
    }

    /// The stateless revision to use with a server that has answered `server/discover`, or nil
    /// where it requires a handshake.
    static func stateless(discovered result: RawJSON) -> String? {
        guard let root = try? JSONParser(limits: .ofAnAnswer).parse(result.text),
            let versions = root["supportedVersions"]?.elements
        else { return nil }
        return stateless(in: versions.compactMap(\.string))
    }

    /// The newest stateless revision among those that a server names.
    /// - Parameter refused: one that the server has just refused.
    static func stateless(in versions: [String], besides refused: String? = nil) -> String? {
        stateless.first { $0 != refused && versions.contains($0) }
    }

    /// Whether a server that has refused a stateless revision may take a handshake. A server that
    /// names no version at all may.
    static func mayShakeHands(_ versions: [String]) -> Bool {
        versions.isEmpty || versions.contains(where: withHandshake.contains)
    }

    // MARK: The handshake

    /// The first message of a handshake.
    static func initialize(id: String) -> JSONRPCRequest {
        JSONRPCRequest(
            id: id, method: "initialize",
            parameters: [
                .init("protocolVersion", asked), .init("capabilities", RawJSON("{}")),
                .init("clientInfo", .object(ourselves)),
            ])
    }

    /// The notification that completes the handshake.
    static let initialized = JSONRPCRequest(method: "notifications/initialized")

    /// The version that a server has chosen in its answer to `initialize`.
    static func chosen(in result: RawJSON) throws -> String {
        let root = try? JSONParser(limits: .ofAnAnswer).parse(result.text)
        let version = root?["protocolVersion"]?.string
        guard let version, withHandshake.contains(version) else {
            throw JSONRPCMessage.malformed("protocol version \(version?.prefix(64) ?? "missing")")
        }
        return version
    }

    private static func ourselves(_ json: inout JSONWriter) {
        json.member("name", "parley")
        json.member("version", "1")
    }
}
