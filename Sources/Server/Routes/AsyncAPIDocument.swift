// The WebSocket as an AsyncAPI 3.0 document, written from the tables that parse client events and
// check server events. Made at the first request for it (KeptDocument).

import Codec

/// `/asyncapi.json`
package struct AsyncAPIDocument {
    private let configuration: ServerConfiguration
    /// Every message, made once for its three places in the document.
    private let messages = Message.all

    /// A document of a server with this configuration.
    package init(configuration: ServerConfiguration) { self.configuration = configuration }

    /// The parameters of `/v1/realtime`.
    static var query: [FieldEntry] {
        [
            .optional(
                "model", .text(),
                "The model; handed to the model server and reported back as session.model."),
            .optional(
                "intent", .choice(SessionIntent.allCases.map(\.rawValue)),
                "What the session is for; a transcription session names its transcription model."),
        ] + ResumeQuery.fields + SidebandQuery.fields
    }

    /// Appends the document.
    package func write(into bytes: consuming ByteWriter) -> ByteWriter {
        var writer = JSONSchemaWriter(JSONWriter(bytes))
        writer.object { writer in
            writer.json.member("asyncapi", "3.0.0")
            writeInfo(&writer.json)
            writer.json.member("defaultContentType", "application/json")
            writeServers(&writer.json)
            writeChannels(&writer)
            writeOperations(&writer.json)
            writeComponents(&writer)
        }
        return writer.finish().finish()
    }

    private func writeInfo(_ json: inout JSONWriter) {
        json.object("info") { json in
            json.member("title", "Parley's WebSocket")
            json.member("version", DocumentText.version)
            json.member(
                "description",
                "Voice sessions in the OpenAI Realtime protocol. A receiver ignores fields that it "
                    + "does not know. PROTOCOL.md has what a schema cannot say.")
        }
    }

    private func writeServers(_ json: inout JSONWriter) {
        json.object("servers") { json in
            json.object("parley") { json in
                json.member("host", "{host}")
                json.member("protocol", configuration.tls.isOn ? "wss" : "ws")
                json.member("description", "The server that serves this document.")
                if configuration.credentials.areAskedFor {
                    json.array("security") { json in
                        json.reference("#/components/securitySchemes/bearer")
                        json.reference("#/components/securitySchemes/subprotocol")
                    }
                }
                json.object("variables") { json in
                    json.object("host") { json in
                        json.member("description", "Its name and port.")
                        json.member("default", "127.0.0.1:\(configuration.listener.port)")
                    }
                }
            }
        }
    }

    // MARK: The channel

    private func writeChannels(_ writer: inout JSONSchemaWriter) {
        writer.object("channels") { writer in
            writer.object("realtime") { writer in
                writer.json.member("address", "/v1/realtime")
                writer.json.member("title", "A voice session")
                writer.json.member(
                    "description",
                    "A session for as long as the connection lasts. session.created is the first message."
                )
                writer.object("messages") { writer in
                    for message in messages {
                        writer.json.key(text: message.key)
                        writer.json.reference("#/components/messages/\(message.key)")
                    }
                }
                writeBinding(&writer)
            }
        }
    }

    /// The opening handshake, as AsyncAPI's WebSocket binding has it.
    private func writeBinding(_ writer: inout JSONSchemaWriter) {
        writer.object("bindings") { writer in
            writer.object("ws") { writer in
                writer.json.member("method", "GET")
                writer.json.key("query")
                writer.object(
                    ObjectTable("Query", "What the session is of.", AsyncAPIDocument.query))
                writer.json.key("headers")
                writer.object(ObjectTable("Headers", "Fields of the handshake.", Self.headers))
                writer.json.member("bindingVersion", "0.1.0")
            }
        }
    }

    private static var headers: [FieldEntry] {
        [
            .optional(
                "Sec-WebSocket-Protocol", .text(),
                "Subprotocols that the client offers; realtime is selected if it is among them."),
            .optional(
                "OpenAI-Beta", .text(),
                "realtime=v1 chooses the beta's dialect, which this document does not describe."),
            .optional("Authorization", .text(), "Bearer and the credential."),
        ]
    }

    // MARK: Operations

    /// AsyncAPI 3 names an operation by the action of the described application: this server
    /// receives the events that clients send.
    private func writeOperations(_ json: inout JSONWriter) {
        json.object("operations") { json in
            json.key("receiveFromClient")
            writeOperation("receive", "What a client may send.", isFromClient: true, &json)
            json.key("sendToClient")
            writeOperation("send", "What the server sends.", isFromClient: false, &json)
        }
    }

    private func writeOperation(
        _ action: String, _ summary: String, isFromClient: Bool, _ json: inout JSONWriter
    ) {
        json.object { json in
            json.member("action", action)
            json.member("summary", summary)
            json.key("channel")
            json.reference("#/channels/realtime")
            json.array("messages") { json in
                for message in messages where message.isFromClient == isFromClient {
                    json.reference("#/channels/realtime/messages/\(message.key)")
                }
            }
        }
    }

    // MARK: Messages

    /// A message of either side.
    private struct Message {
        /// Its name for the reader; the key is the same without dots.
        let name: String
        let isFromClient: Bool
        let content: Content

        enum Content {
            case event(ObjectTable)
            case binary(summary: String, description: String)
        }

        var key: String {
            switch content {
            case .event(let table): table.key
            case .binary: name
            }
        }

        static var all: [Message] {
            ClientEventType.allCases.map {
                Message(name: $0.rawValue, isFromClient: true, content: .event($0.table))
            } + [Self.inputAudio]
                + ServerEventTables.all.map {
                    Message(name: $0.name, isFromClient: false, content: .event($0))
                } + [Self.outputAudio]
        }

        private static let inputAudio = Message(
            name: "binary_input_audio", isFromClient: true,
            content: .binary(
                summary: "Audio of the user as a binary message (an extension of Parley).",
                description: "One Opus packet, or any whole number of PCM or G.711 samples, in the "
                    + "session's input format. Where the format has sequence set, the packet's "
                    + "number comes first: 16 bits, big-endian."))

        private static let outputAudio = Message(
            name: "binary_output_audio", isFromClient: false,
            content: .binary(
                summary: "Audio of the reply as a binary message (an extension of Parley), instead "
                    + "of response.output_audio.delta where audio.output.transport is binary.",
                description: "A header of 24 bytes, then samples or one Opus packet. Integers are "
                    + "little-endian. Byte 0: kind, 1 is reply audio. 1: format, 0 audio/pcm, "
                    + "1 audio/pcmu, 2 audio/pcma, 3 audio/opus, and audio/pcm at 8 (4), 16 (5) and 48 kHz "
                    + "(6). 2-3: content index. 4-7: position "
                    + "in the item's audio, in samples at the format's rate. 8-23: item id, ASCII, "
                    + "filled up with zero bytes."))
    }

    private func writeComponents(_ writer: inout JSONSchemaWriter) {
        writer.object("components") { writer in
            writer.object("messages") { writer in
                for message in messages {
                    writer.json.key(text: message.key)
                    write(message, &writer)
                }
            }
            writer.components()
            writeCredentials(&writer.json)
        }
    }

    private func writeCredentials(_ json: inout JSONWriter) {
        json.object("securitySchemes") { json in
            json.object("bearer") { json in
                json.member("type", "http")
                json.member("scheme", "bearer")
                json.member("description", DocumentText.bearer)
            }
            json.object("subprotocol") { json in
                json.member("type", "httpApiKey")
                json.member("name", "Sec-WebSocket-Protocol")
                json.member("in", "header")
                json.member(
                    "description", "From a browser: the subprotocol openai-insecure-api-key.KEY.")
            }
        }
    }

    private func write(_ message: Message, _ writer: inout JSONSchemaWriter) {
        writer.object { writer in
            writer.json.member("name", message.name)
            switch message.content {
            case .event(let table):
                writer.json.member("summary", "\(table.meaning)")
                writer.json.key("payload")
                writer.schema(.object(table))
            case .binary(let summary, let description):
                writer.json.member("summary", summary)
                writer.json.member("description", description)
                writer.json.member("contentType", "application/octet-stream")
                writer.object("payload") { writer in
                    writer.json.member("type", "string")
                    writer.json.member("format", "binary")
                }
            }
        }
    }
}

/// The parts that both documents have.
enum DocumentText {
    /// The version of the interface, not of the server: it changes when a client has to.
    static let version = "1.0.0"
    /// The credential of the field Authorization.
    static let bearer =
        "A key, a client secret or a token. Without credentials in the server's "
        + "configuration it is not looked at."
}

extension JSONWriter {
    /// Writes a reference to another part of the document.
    mutating func reference(_ target: String) { object { $0.member("$ref", target) } }
}

extension JSONSchemaWriter {
    /// Writes an object, and as its members what `members` writes.
    mutating func object(_ key: StaticString, _ members: (inout JSONSchemaWriter) -> Void) {
        json.key(key)
        object(members)
    }

    /// Writes an object under a key that is made.
    mutating func object(text key: String, _ members: (inout JSONSchemaWriter) -> Void) {
        json.key(text: key)
        object(members)
    }

    /// Writes an object without a key.
    mutating func object(_ members: (inout JSONSchemaWriter) -> Void) {
        json.beginObject()
        members(&self)
        json.endObject()
    }

    /// Writes an array, and as its elements what `elements` writes.
    mutating func array(_ key: StaticString, _ elements: (inout JSONSchemaWriter) -> Void) {
        json.key(key)
        json.beginArray()
        elements(&self)
        json.endArray()
    }
}

extension RouteContent {
    /// `GET /v1/realtime`: the rest is in the AsyncAPI document.
    static var realtime: RouteContent {
        RouteContent(
            query: AsyncAPIDocument.query,
            answers: [
                RouteAnswer(
                    status: 101,
                    "The connection is a WebSocket now; /asyncapi.json has its messages."
                ),
                RouteAnswer(
                    status: 404, "call_id names no session that the caller may join.", .failure),
                RouteAnswer(status: 426, "No WebSocket was asked for.", .failure),
            ])
    }
}
