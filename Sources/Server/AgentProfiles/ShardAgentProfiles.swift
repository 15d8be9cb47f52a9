// Which agent a session has. The first of these decides:
//
//   the path /v1/agents/NAME/realtime, or ?agent=NAME; of a call, its parameter `agent`
//   the client secret
//   of a call, the number that was called
//   the caller's key or token: the first of its agents
//   default-agent
//
// A caller whose key or token names agents may use no others, and a client secret only its own.

import Codec
import Session

extension Shard {
    /// The agent that a request names, or that its caller has, if there is one.
    /// - Throws: `.agent` where the caller may not have it, `.unknownAgent` where there is none.
    func profile(
        namedBy request: HTTPRequest, for caller: Caller
    ) throws(RefusalReason) -> AgentProfile? {
        let asked = fixtures.routes.route(at: request.path)?.agentName(in: request.path)
        let named = asked ?? request.queryValue("agent")
        return try profile(named: named?.isEmpty == true ? nil : named, for: caller)
    }

    /// The agent of a name that was given, or that a caller has where none was.
    func profile(
        named asked: String?, orOfNumber number: String? = nil, for caller: Caller
    ) throws(RefusalReason) -> AgentProfile? {
        let profiles = services.profiles.current
        let own = caller.allowance.agents
        // A client secret is bound to its agent, or to none.
        if caller.secret != nil, let asked, asked != caller.agent { throw .agent }
        if caller.secret != nil, caller.agent == nil { return nil }
        let ofNumber = number.flatMap { profiles.name(answering: $0) }
        guard
            let name = asked ?? caller.agent ?? ofNumber ?? own?.first ?? profiles.standard
        else { return nil }
        if caller.agent == nil, let own, !own.contains(name) { throw .agent }
        guard let profile = profiles[name] else { throw .unknownAgent }
        return profile
    }

    /// A session as its agent has it, before its client changes it.
    func parameters(
        _ asked: SessionParameters, of profile: AgentProfile?
    ) throws(RefusalReason) -> SessionParameters {
        guard let profile, asked.kind == .realtime else { return asked }
        var parameters = asked
        parameters.model = profile.model ?? parameters.model
        do throws(ClientEventError) {
            for update in profile.updates {
                parameters = try sessionContext.parameters(parameters, changedBy: update)
            }
            return parameters
        } catch {
            logger.error(
                "an agent cannot be used: mend it in the file of agents",
                metadata: [
                    "agent": "\(profile.name)", "param": "\(error.param ?? "")",
                    "reason": "\(error.message)",
                ])
            throw .unknownAgent
        }
    }
}

extension Caller {
    /// The caller with the limits of an agent's sessions.
    func limited(by profile: AgentProfile?) -> Caller {
        guard let profile else { return self }
        var caller = self
        if let most = profile.maxSessionSeconds {
            caller.allowance.maxSessionSeconds =
                caller.allowance.maxSessionSeconds.map { min($0, most) } ?? most
        }
        caller.allowance.recording = caller.allowance.recording ?? profile.recording
        caller.agentPlaces = profile.maxSessions.map { (profile.placesID, $0) }
        return caller
    }
}

extension AgentProfile {
    /// The agent's principal in the table of places, which several servers may share. No key's
    /// principal begins with NUL, and no token holder's with two.
    fileprivate var placesID: SHA256Digest { SHA256Digest(of: "\0\0" + name) }
}

extension Route {
    /// A session of an agent, for clients whose only setting is the server's address.
    static let agentSession = Route(
        path: "/v1/agents/{name}/realtime", methods: [.get], access: .session,
        pages: .allowedOrigins,
        summary: "A voice session of one of the server's agents.",
        service: .webSocket(.session), content: { .realtime })

    /// A reply of an agent, at the same base URL.
    static let agentCompletions = Route(
        path: "/v1/agents/{name}/chat/completions", methods: [.post], access: .session,
        pages: .allowedOrigins,
        summary: "A reply of one of the server's agents, as OpenAI's API has it.",
        service: .text(.chatCompletions), content: { .chatCompletions })

    /// The agent that its path names, if it names one.
    func agentName(in path: String) -> String? {
        self.path.hasPrefix("/v1/agents/") ? parameter(of: path) : nil
    }
}
