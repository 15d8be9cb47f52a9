// The web page's files, which are part of the binary, and the routes to them.

import Codec

/// A file that is part of the binary.
struct StaticFile: Sendable {
    let path: String
    let mediaType: String
    let bytes: [UInt8]
    let summary: String

    /// The files. Add a line for every file in Resources.
    static let all = [
        StaticFile("/", html, PackageResources.index_html, "A page to talk to the server."),
        StaticFile("/style.css", css, PackageResources.style_css, "The page's style."),
        StaticFile("/app.js", script, PackageResources.app_js, "The page's program."),
        StaticFile("/resume.js", script, PackageResources.resume_js, "The page's connection."),
        StaticFile("/audio.js", script, PackageResources.audio_js, "The page's audio."),
        StaticFile("/capture.js", script, PackageResources.capture_js, "The page's microphone."),
    ]

    private init(_ path: String, _ mediaType: String, _ bytes: [UInt8], _ summary: String) {
        self.path = path
        self.mediaType = mediaType
        self.bytes = bytes
        self.summary = summary
    }

    /// Its path.
    var route: Route {
        Route(
            path: path, methods: [.get], access: .open,
            pages: .anyPage(because: "Every copy of the server has the same file."),
            summary: summary,
            service: .value { _, _ in response },
            content: { .value("The file.", mediaType) })
    }

    private static let html = "text/html; charset=utf-8"
    private static let css = "text/css; charset=utf-8"
    private static let script = "text/javascript; charset=utf-8"

    /// Scripts, styles and connections of this server only; nothing may frame the page.
    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        + "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    /// The answer with its bytes. It is not cached: the next build may have another file at the
    /// path.
    var response: HTTPResponse {
        var fields = HTTPFields()
        fields.append("Content-Type", mediaType)
        fields.append("Cache-Control", "no-cache")
        fields.append("X-Content-Type-Options", "nosniff")
        fields.append("Content-Security-Policy", StaticFile.policy)
        return HTTPResponse(status: 200, fields: fields, body: bytes)
    }
}
