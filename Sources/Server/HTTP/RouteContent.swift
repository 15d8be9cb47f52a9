// The content of a route's requests and answers, for the documents: query, bodies, statuses. Routes
// has the routes themselves, OpenAPIDocument writes the document.

import Codec

/// The content of a route's requests and answers.
struct RouteContent: Sendable {
    /// Parameters of the query.
    var query: [FieldEntry] = []
    /// The body of a request, where the route takes one.
    var request: RouteBody?
    /// Its answers without an error, and its own error statuses. Every route may also refuse with
    /// an error object.
    var answers: [RouteAnswer] = []

    /// A value in one media type.
    static func value(
        _ meaning: StaticString, _ mediaType: String, _ schema: ValueSchema = .text()
    ) -> RouteContent {
        RouteContent(
            answers: [RouteAnswer(status: 200, meaning, RouteBody(mediaType, schema))])
    }
}

/// The body of a request or an answer.
struct RouteBody: Sendable {
    let mediaType: String
    let schema: ValueSchema

    init(_ mediaType: String, _ schema: ValueSchema) {
        self.mediaType = mediaType
        self.schema = schema
    }

    /// A body in JSON.
    static func json(_ schema: ValueSchema) -> RouteBody { RouteBody("application/json", schema) }
    /// The body of every refusal (RouteFailure).
    static var failure: RouteBody { .json(.object(RouteContent.failure)) }
    /// Server-sent events.
    static var events: RouteBody { RouteBody("text/event-stream", .text()) }
}

/// One answer of a route.
struct RouteAnswer: Sendable {
    let status: Int
    let meaning: StaticString
    /// Several where the answer depends on the request.
    let bodies: [RouteBody]

    init(status: Int, _ meaning: StaticString, _ bodies: RouteBody...) {
        self.status = status
        self.meaning = meaning
        self.bodies = bodies
    }
}

extension RouteContent {
    /// The body of every refusal (RouteFailure).
    static var failure: ObjectTable {
        ObjectTable(
            "Failure", "Why a request is refused.",
            [
                FieldEntry(
                    "error",
                    .object(
                        ObjectTable(
                            "FailureDescription", "What is wrong.",
                            [
                                FieldEntry("message", .text(), "A sentence for a person."),
                                FieldEntry(
                                    "type",
                                    .choice(["invalid_request_error", "server_error"]),
                                    "Whose fault it is."),
                                FieldEntry("code", .text(), "A stable word for programs."),
                                FieldEntry(
                                    "param", .nullable(.text()), "The field that is wrong."),
                            ])), "What is wrong.")
            ])
    }

    /// `POST /v1/realtime/client_secrets`
    static var clientSecret: RouteContent {
        RouteContent(
            request: .json(ClientSecretTables.request),
            answers: [
                RouteAnswer(status: 200, "The secret.", .json(ClientSecretTables.answer))
            ])
    }

    /// `POST /v1/realtime/sessions`
    static var betaSecret: RouteContent {
        RouteContent(
            request: .json(BetaSecretTables.request),
            answers: [RouteAnswer(status: 200, "The secret.", .json(BetaSecretTables.answer))])
    }

    /// `POST /v1/realtime/transcription_sessions`
    static var betaTranscriptionSecret: RouteContent {
        RouteContent(
            request: .json(BetaSecretTables.transcriptionRequest),
            answers: [
                RouteAnswer(
                    status: 200, "The secret.", .json(BetaSecretTables.transcriptionAnswer))
            ])
    }

    /// `GET /.well-known/jwks.json`
    static var signatureKeys: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(status: 200, "A JSON Web Key Set.", .json(.anyObject)),
                RouteAnswer(status: 404, "Requests to agents are not signed.", .failure),
            ])
    }

    /// `POST /v1/realtime/translations/client_secrets`
    static var refusal: RouteContent {
        RouteContent(answers: [RouteAnswer(status: 400, "Always.", .failure)])
    }

    /// `POST /v1/chat/completions`
    static var chatCompletions: RouteContent {
        RouteContent(
            request: .json(ChatTables.completionRequest),
            answers: [
                RouteAnswer(
                    status: 200, "The reply: whole, or with stream in server-sent events.",
                    .json(ChatTables.completion), .events)
            ])
    }

    /// `POST /api/chat`
    static var uiMessages: RouteContent {
        RouteContent(
            request: .json(ChatTables.uiRequest),
            answers: [RouteAnswer(status: 200, "The UI message stream.", .events)])
    }

    /// `GET` and `DELETE /api/chat/{id}/stream`
    static var uiMessagesResumed: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(status: 200, "The UI message stream from its beginning.", .events),
                RouteAnswer(
                    status: 204, "Nothing of the chat is on its way; with DELETE, not any more."),
            ])
    }

    /// `GET /readyz`
    static var readiness: RouteContent {
        var content = RouteContent.value("There is a place for a session.", "text/plain")
        content.query = [
            .optional("store", .text(), "Any value: asks whether the store of sessions answers.")
        ]
        content.answers.append(
            RouteAnswer(
                status: 503,
                "The server is full, is short of memory, or stops, or its store is away.",
                .failure))
        return content
    }

    /// `GET /v1/models`
    static var models: RouteContent {
        .value(
            "The models.", "application/json",
            .object(
                ObjectTable(
                    "ModelList", "A list of models.",
                    [
                        FieldEntry("object", .constant("list"), "What this object is."),
                        FieldEntry("data", .list(.object(modelTable)), "The models."),
                    ])))
    }

    /// `GET /v1/models/{id}`
    static var model: RouteContent {
        var content = RouteContent.value("The model.", "application/json", .object(modelTable))
        content.answers.append(RouteAnswer(status: 404, "The list does not have it.", .failure))
        return content
    }

    private static var modelTable: ObjectTable {
        ObjectTable(
            "Model", "A model.",
            [
                FieldEntry("id", .text(), "Its name."),
                FieldEntry("object", .constant("model"), "What this object is."),
                FieldEntry("created", .integer(), "When it was made, in Unix seconds."),
                FieldEntry("owned_by", .text(), "Who runs it."),
            ])
    }
}
