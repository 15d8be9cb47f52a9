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
        writer.json.beginObject()
        writer.json.member("openapi", "3.1.0")
        writeInfo(&writer.json)
        writer.json.key("paths")
        writer.json.beginObject()
        for route in Routes.table(configuration) {
            writer.json.key(text: route.path)
            write(route, &writer)
        }
        writer.json.endObject()
        writer.json.key("components")
        writer.json.beginObject()
        writer.components()
        writer.json.key("securitySchemes")
        writer.json.beginObject()
        writer.json.key("bearer")
        writer.json.beginObject()
        writer.json.member("type", "http")
        writer.json.member("scheme", "bearer")
        writer.json.member("description", DocumentText.bearer)
        writer.json.endObject()
        writer.json.endObject()
        writer.json.endObject()
        writer.json.endObject()
        return writer.finish().finish()
    }

    private func writeInfo(_ json: inout JSONWriter) {
        json.key("info")
        json.beginObject()
        json.member("title", "Parley's HTTP interface")
        json.member("version", DocumentText.version)
        json.member("summary", "A server of voice sessions.")
        json.member(
            "description",
            "The messages of the WebSocket at /v1/realtime are described in /asyncapi.json.")
        json.endObject()
        json.key("servers")
        json.beginArray()
        json.beginObject()
        json.member("url", "/")
        json.member("description", "The server that serves this document.")
        json.endObject()
        json.endArray()
    }

    // MARK: Paths

    private func write(_ route: Route, _ writer: inout JSONSchemaWriter) {
        let content = route.content()
        writer.json.beginObject()
        for method in route.allowedMethods {
            // Browsers send preflights, programs do not.
            guard let key = Self.key(of: method) else { continue }
            writer.json.key(key)
            writer.json.beginObject()
            writer.json.member("operationId", operationID(method, route.path))
            writer.json.member("summary", route.summary)
            if route.access > .open, configuration.asksForCredentials {
                writer.json.key("security")
                writer.json.beginArray()
                writer.json.beginObject()
                writer.json.key("bearer")
                writer.json.beginArray()
                writer.json.endArray()
                writer.json.endObject()
                writer.json.endArray()
            }
            writeParameters(of: route, content, &writer)
            if let request = content.request {
                writer.json.key("requestBody")
                writer.json.beginObject()
                writer.json.member("required", true)
                writeBodies([request], &writer)
                writer.json.endObject()
            }
            writeAnswers(content, hasBodies: method != .head, &writer)
            writer.json.endObject()
        }
        writer.json.endObject()
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
        writer.json.key("parameters")
        writer.json.beginArray()
        for name in names {
            writeParameter(name, in: "path", isRequired: true, .text(), &writer)
        }
        for field in content.query {
            writeParameter(
                "\(field.name)", in: "query", isRequired: field.isRequired, field.schema,
                meaning: field.meaning, &writer)
        }
        writer.json.endArray()
    }

    private func writeParameter(
        _ name: String, in place: String, isRequired: Bool, _ schema: ValueSchema,
        meaning: StaticString? = nil, _ writer: inout JSONSchemaWriter
    ) {
        writer.json.beginObject()
        writer.json.member("name", name)
        writer.json.member("in", place)
        if let meaning { writer.json.member("description", "\(meaning)") }
        if isRequired { writer.json.member("required", true) }
        writer.json.key("schema")
        writer.schema(schema)
        writer.json.endObject()
    }

    // MARK: Bodies

    private func writeAnswers(
        _ content: RouteContent, hasBodies: Bool, _ writer: inout JSONSchemaWriter
    ) {
        writer.json.key("responses")
        writer.json.beginObject()
        for answer in content.answers {
            writer.json.key(text: "\(answer.status)")
            writer.json.beginObject()
            writer.json.member("description", "\(answer.meaning)")
            if hasBodies { writeBodies(answer.bodies, &writer) }
            writer.json.endObject()
        }
        writer.json.key("default")
        writer.json.beginObject()
        writer.json.member("description", "A refusal. PROTOCOL.md has the statuses.")
        if hasBodies {
            writeBodies([RouteBody("application/json", .object(RouteContent.failure))], &writer)
        }
        writer.json.endObject()
        writer.json.endObject()
    }

    private func writeBodies(_ bodies: [RouteBody], _ writer: inout JSONSchemaWriter) {
        guard !bodies.isEmpty else { return }
        writer.json.key("content")
        writer.json.beginObject()
        for body in bodies {
            writer.json.key(text: body.mediaType)
            writer.json.beginObject()
            writer.json.key("schema")
            writer.schema(body.schema)
            writer.json.endObject()
        }
        writer.json.endObject()
    }
}
