// The HTTP routes as an OpenAPI 3.1 document, written from the table that requests are routed by.
// Made at the first request for it (KeptDocument), as AsyncAPIDocument is.

import Codec

/// `/openapi.json`
package struct OpenAPIDocument {
    private let configuration: ServerConfiguration

    /// A document of a server with this configuration.
    package init(configuration: ServerConfiguration) { self.configuration = configuration }

    /// Appends the document.
    package func write(into bytes: consuming ByteWriter) -> ByteWriter {
        var writer = JSONSchemaWriter(JSONWriter(bytes))
        writer.object { writer in
            writer.json.member("openapi", "3.1.0")
            writeInfo(&writer.json)
            writer.object("paths") { writer in
                for route in Routes.table(configuration) {
                    writer.json.key(text: route.path)
                    write(route, &writer)
                }
            }
            writer.object("components") { writer in
                writer.components()
                writer.object("securitySchemes") { writer in
                    writer.object("bearer") { writer in
                        writer.json.member("type", "http")
                        writer.json.member("scheme", "bearer")
                        writer.json.member("description", DocumentText.bearer)
                    }
                }
            }
        }
        return writer.finish().finish()
    }

    private func writeInfo(_ json: inout JSONWriter) {
        json.object("info") { json in
            json.member("title", "Parley's HTTP interface")
            json.member("version", DocumentText.version)
            json.member("summary", "A server of voice sessions.")
            json.member(
                "description",
                "The messages of the WebSocket at /v1/realtime are described in /asyncapi.json.")
        }
        json.array("servers") { json in
            json.object { json in
                json.member("url", "/")
                json.member("description", "The server that serves this document.")
            }
        }
    }

    // MARK: Paths

    private func write(_ route: Route, _ writer: inout JSONSchemaWriter) {
        let content = route.content()
        writer.object { writer in
            for method in route.allowedMethods {
                // Browsers send preflights, programs do not.
                guard let key = Self.key(of: method) else { continue }
                writer.object(key) { writer in
                    writer.json.member("operationId", operationID(method, route.path))
                    writer.json.member("summary", route.summary)
                    if route.access > .open, configuration.credentials.areAskedFor {
                        writer.array("security") { writer in
                            writer.object { writer in
                                writer.array("bearer") { _ in }
                            }
                        }
                    }
                    writeParameters(of: route, content, &writer)
                    if let request = content.request {
                        writer.object("requestBody") { writer in
                            writer.json.member("required", true)
                            writeBodies([request], &writer)
                        }
                    }
                    writeAnswers(content, hasBodies: method != .head, &writer)
                }
            }
        }
    }

    private static func key(of method: HTTPMethod) -> StaticString? {
        switch method {
        case .get: "get"
        case .head: "head"
        case .post: "post"
        case .put: "put"
        case .delete: "delete"
        case .options, .other: nil
        }
    }

    /// A unique id that is an identifier in any language: `get_v1_models`.
    private func operationID(_ method: HTTPMethod, _ path: String) -> String {
        let words = path.split { !$0.isASCII || !($0.isLetter || $0.isNumber) }
        return ([method.name.lowercased()] + words.map(String.init)).joined(separator: "_")
    }

    private func writeParameters(
        of route: Route, _ content: RouteContent, _ writer: inout JSONSchemaWriter
    ) {
        let names = route.path.split(separator: "/").filter { $0.hasPrefix("{") }
            .map { String($0.dropFirst().dropLast()) }
        guard !names.isEmpty || !content.query.isEmpty else { return }
        writer.array("parameters") { writer in
            for name in names {
                writeParameter(name, in: "path", isRequired: true, .text(), &writer)
            }
            for field in content.query {
                writeParameter(
                    "\(field.name)", in: "query", isRequired: field.isRequired, field.schema,
                    meaning: field.meaning, &writer)
            }
        }
    }

    private func writeParameter(
        _ name: String, in place: String, isRequired: Bool, _ schema: ValueSchema,
        meaning: StaticString? = nil, _ writer: inout JSONSchemaWriter
    ) {
        writer.object { writer in
            writer.json.member("name", name)
            writer.json.member("in", place)
            if let meaning { writer.json.member("description", "\(meaning)") }
            if isRequired { writer.json.member("required", true) }
            writer.json.key("schema")
            writer.schema(schema)
        }
    }

    // MARK: Bodies

    private func writeAnswers(
        _ content: RouteContent, hasBodies: Bool, _ writer: inout JSONSchemaWriter
    ) {
        writer.object("responses") { writer in
            for answer in content.answers {
                writer.object(text: "\(answer.status)") { writer in
                    writer.json.member("description", "\(answer.meaning)")
                    if hasBodies { writeBodies(answer.bodies, &writer) }
                }
            }
            writer.object("default") { writer in
                writer.json.member("description", "A refusal. PROTOCOL.md has the statuses.")
                if hasBodies {
                    writeBodies([.failure], &writer)
                }
            }
        }
    }

    private func writeBodies(_ bodies: [RouteBody], _ writer: inout JSONSchemaWriter) {
        guard !bodies.isEmpty else { return }
        writer.object("content") { writer in
            for body in bodies {
                writer.object(text: body.mediaType) { writer in
                    writer.json.key("schema")
                    writer.schema(body.schema)
                }
            }
        }
    }
}
