// The fields of `POST /v1/realtime/client_secrets`: its request and its answer. ClientSecretRequest
// reads and writes them.

/// The request.
enum ClientSecretFields: FieldTable {
    static let expiresAfter = OptionalField(
        "expires_after", .object(with: ExpiryFields.self), "How long the secret opens sessions.")
    static let session = OptionalField(
        "session", .object(with: SessionFields.self),
        "The session that the secret opens, in the form of session.update.")

    static let agent = OptionalField(
        "agent", .text,
        "An extension of Parley: the agent of the session, as its operator has named it.")

    static var table: ObjectTable {
        ObjectTable(
            "ClientSecretRequest", "Request for a client secret.",
            [expiresAfter.entry, session.entry, agent.entry])
    }
}

/// `expires_after`
enum ExpiryFields: FieldTable {
    /// `anchor`
    enum Anchor: String, CaseIterable, DocumentedValue {
        case createdAt = "created_at"
    }

    static let anchor = OptionalField(
        "anchor", .choice(of: Anchor.self), "The start of the lifetime.")
    static let seconds = DefaultedField(
        "seconds", .integer(in: ClientSecretRequest.secondsRange),
        default: ClientSecretRequest.defaultSeconds, "How long the secret opens sessions.")

    static var table: ObjectTable {
        ObjectTable("Expiry", "When a secret expires.", [anchor.entry, seconds.entry])
    }
}

/// The schemas of both bodies, for the generated documents.
package enum ClientSecretTables {
    /// The request.
    package static var request: ValueSchema { .object(ClientSecretFields.table) }

    /// The answer.
    package static var answer: ValueSchema {
        .object(
            ObjectTable(
                "ClientSecret", "A client secret.",
                [
                    FieldEntry("value", .text(), "The secret: a credential of its own."),
                    FieldEntry("expires_at", .integer(), "When it expires, in Unix seconds."),
                    FieldEntry(
                        "session", SessionObjectTables.schema, "The session that it opens."),
                ]))
    }
}
