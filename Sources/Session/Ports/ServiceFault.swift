// A failure of a service that the operator has configured (a model, a speech service, an MCP
// server), for the operator. It says where the request went, what came back, and what to do. Agents
// report it to their host; the server writes a line of its log and counts it
// (Server/Observation/ServiceFaultLog).
//
// Not here: the client's error (AgentError), which names no address and repeats no words of the
// service.

/// One failure of a configured service.
public struct ServiceFault: Equatable, Sendable {
    /// The operator's name for the service: a provider's name, `llm`, `stt`, `tts`, `mcp/LABEL`.
    public var service: String
    /// Where the request went, without credentials and without its query.
    public var url: String
    /// The fault, in the words of the service where it has some.
    public var reason: String
    /// The status of the answer. 0 means that none came.
    public var status = 0
    /// The media type of the answer. Nil means that none was named.
    public var contentType: String?
    /// The beginning of the answer's body; empty where it says no more than the reason.
    public var beginning = ""
    /// The remedy that the operator has.
    public var advice = ""
    /// Whether the request was answered nonetheless: there is something to mend, and no failure.
    public var isTolerated = false

    /// Creates a fault.
    public init(service: String, url: String, reason: String) {
        self.service = service
        self.url = url
        self.reason = reason
    }

    /// The fault as one sentence for an operator: the service and its URL, what came back, and what
    /// to do.
    public var summary: String {
        var text = "The service \(service) (\(url)): \(reason)"
        if !beginning.isEmpty { text += "; its answer begins \(beginning)" }
        if !advice.isEmpty { text += "; \(advice)" }
        return text + "."
    }
}
