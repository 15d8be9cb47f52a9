// The routes and refusals of calls and sidebands, and the parameters of a sideband's URL. Access is
// decided by the gate and by ShardCalls.

import Codec

/// The query of a sideband: `?call_id=sess_…&tools=lookup_order,refund`.
enum SidebandQuery {
    /// Functions of one sideband. 32: an application's private tools, and few.
    static let maxTools = 32
    /// Bytes of a function's name, as in the protocol.
    static let maxNameBytes = 64

    /// The session that a request wants to join, or nil where it wants one of its own.
    static func sessionID(of request: HTTPRequest) -> String? { request.queryValue("call_id") }

    /// The functions that a sideband takes calls of; empty where it names none.
    /// - Throws: where they are too many, or one is no function's name, as status 400.
    static func tools(of request: HTTPRequest) throws(ClientEventError) -> [String] {
        guard let text = request.queryValue("tools") else { return [] }
        // The number first: each name is compared with those before it.
        let parts = text.split(separator: ",", maxSplits: maxTools).map(String.init)
        guard parts.count <= maxTools, parts.allSatisfy(isName) else {
            throw ClientEventError(
                code: "invalid_value",
                message: "'tools' is a list of at most \(maxTools) names of functions, with commas "
                    + "between them.", param: "tools")
        }
        var names: [String] = []
        for name in parts where !names.contains(name) { names.append(name) }
        return names
    }

    private static func isName(_ name: String) -> Bool {
        (1...maxNameBytes).contains(name.utf8.count)
            && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
    }

    /// The parameters, for the documents.
    static var fields: [FieldEntry] {
        [
            .optional(
                "call_id", .text(),
                "A running session to join, in place of one of its own; needs a key."),
            .optional(
                "tools", .text(),
                "With call_id: functions, with commas between, whose calls come here alone."),
        ]
    }
}

extension RouteFailure {
    static let tooManyCalls = unavailable(
        "too_many_calls", "Too many requests for sessions are under way.", retryAfterSeconds: 1)
    static let tooManySidebands = RouteFailure(
        status: 429, code: "too_many_sidebands",
        message: "The session has as many sidebands, or private functions, as it may have.")
    static let sidebandToolsTaken = RouteFailure(
        status: 409, code: "tools_taken",
        message: "Another sideband of the session takes the calls of one of these functions.")
}

extension Route {
    /// Routes for sessions that are under way.
    static let calls = [
        Route(
            path: "/v1/realtime/calls/{call_id}/hangup", methods: [.post], access: .key,
            pages: .sameOrigin, summary: "Ends a session of the caller's, by its id.",
            service: .hangUp, content: { .hangup })
    ]
}

extension RouteContent {
    /// `POST /v1/realtime/calls/{call_id}/hangup`
    fileprivate static var hangup: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(status: 200, "The session has ended. The body is empty."),
                RouteAnswer(status: 404, "The caller has no session with this id.", .failure),
            ])
    }
}
