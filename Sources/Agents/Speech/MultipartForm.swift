// A form with a file, as RFC 7578 has it. Written only; nothing is parsed here.
//
// Invariant: no value can end its part, as the boundary is drawn anew for every form: a client's
// prompt must not become a field of a request that its server pays for.

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
    /// - Parameter name: ours, without quotes.
    mutating func append(_ name: String, _ value: String) {
        begin(name, parameters: "", contentType: nil)
        end(Array(value.utf8))
    }

    /// Adds a file.
    mutating func append(
        _ name: String, fileName: String, contentType: String, _ content: [UInt8]
    ) {
        begin(name, parameters: "; filename=\"\(fileName)\"", contentType: contentType)
        end(content)
    }

    /// The whole body.
    func finished() -> [UInt8] { body + Array("--\(boundary)--\r\n".utf8) }

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
