// Writes a form with a file (`multipart/form-data`, RFC 7578). Nothing is parsed here.
//
// Invariant: no value can end its part, because every form has a new random boundary. A client's
// prompt thus cannot add a field to the request.

/// Collects the parts of a form.
struct MultipartForm {
    private let boundary: String
    private var body: [UInt8] = []

    init() {
        let drawn = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }
        boundary = "parley-" + drawn.joined()
    }

    /// The request's `Content-Type`.
    var contentType: String { "multipart/form-data; boundary=\(boundary)" }

    /// Adds a field.
    /// - Parameter name: without quotes; never from a peer.
    mutating func append(_ name: String, _ value: String) {
        begin(name, parameters: "", contentType: nil)
        end(Array(value.utf8))
    }

    /// Adds a file.
    mutating func append(
        _ name: String, fileName: String, contentType: String, _ content: [UInt8]
    ) {
        // Growing by doubling would take twice the memory of a minute's speech.
        body.reserveCapacity(body.count + content.count + 256 + 2 * closing.utf8.count)
        begin(name, parameters: "; filename=\"\(fileName)\"", contentType: contentType)
        end(content)
    }

    /// The whole body; no part may follow.
    mutating func finish() -> [UInt8] {
        body += Array(closing.utf8)
        return body
    }

    private var closing: String { "--\(boundary)--\r\n" }

    private mutating func begin(_ name: String, parameters: String, contentType: String?) {
        var head = "--\(boundary)\r\n"
        head += "Content-Disposition: form-data; name=\"\(name)\"\(parameters)\r\n"
        if let contentType { head += "Content-Type: \(contentType)\r\n" }
        body += Array((head + "\r\n").utf8)
    }

    private mutating func end(_ content: [UInt8]) {
        body += content
        body += Array("\r\n".utf8)
    }
}
