// The web page's files, which are part of the binary, and the routes to them.

import Codec

/// A file that is part of the binary.
struct StaticFile: Sendable {
    let path: String
    let mediaType: String
    let bytes: [UInt8]
    let summary: String
    /// Whether scripts of pages of other sites may load it.
    let isShared: Bool

    /// The files. Add a line for every file in Resources.
    static let all = page + operatorPage + client

    /// The conversation page.
    private static let page = [
        StaticFile("/", html, PackageResources.index_html, "A page to talk to the server."),
        StaticFile("/base.css", css, PackageResources.base_css, "The style of all pages."),
        StaticFile("/style.css", css, PackageResources.style_css, "The page's style."),
        StaticFile("/app.js", script, PackageResources.app_js, "The page's program."),
        StaticFile("/page/hops.js", script, PackageResources.hops_js, "The page's chart."),
        StaticFile("/page/log.js", script, PackageResources.log_js, "The page's conversation."),
        StaticFile("/page/lost.js", script, PackageResources.lost_js, "The page's way back."),
        StaticFile(
            "/page/settings.js", script, PackageResources.settings_js, "The page's settings."),
        StaticFile(
            "/page/setup.js", script, PackageResources.setup_js, "The page's agent and model."),
        StaticFile("/page/tools.js", script, PackageResources.tools_js, "The page's functions."),
        StaticFile("/page/values.js", script, PackageResources.values_js, "JSON as words."),
        StaticFile("/page/wave.js", script, PackageResources.wave_js, "The page's level meter."),
    ]

    /// The operator's page. It has no secret: its program asks for a key.
    private static let operatorPage = [
        StaticFile("/admin", html, PackageResources.admin_html, "The operator's page."),
        StaticFile("/admin.css", css, PackageResources.admin_css, "Its style."),
        StaticFile("/admin.js", script, PackageResources.admin_js, "Its program."),
        StaticFile("/admin/card.js", script, PackageResources.card_js, "A session's card."),
        StaticFile("/admin/charts.js", script, PackageResources.charts_js, "Its charts."),
        StaticFile("/admin/failures.js", script, PackageResources.failures_js, "Its failures."),
        StaticFile("/admin/format.js", script, PackageResources.format_js, "Its numbers."),
        StaticFile("/admin/live.js", script, PackageResources.live_js, "Its connection."),
        StaticFile("/admin/player.js", script, PackageResources.player_js, "Its player."),
        StaticFile("/admin/record.js", script, PackageResources.record_js, "A record's card."),
        StaticFile("/admin/records.js", script, PackageResources.records_js, "Ended sessions."),
        StaticFile("/admin/rows.js", script, PackageResources.rows_js, "Rows of sessions."),
        StaticFile("/admin/server.js", script, PackageResources.server_js, "Its server view."),
        StaticFile("/admin/table.js", script, PackageResources.table_js, "Its session table."),
        StaticFile(
            "/admin/waterfall.js", script, PackageResources.waterfall_js, "Its hops of a turn."),
    ]

    /// parley.js, the client of web pages. Pages of any site may load it.
    private static let client = [
        StaticFile(
            "/parley.js", script, PackageResources.parley_js, "The client of web pages.",
            isShared: true),
        StaticFile(
            "/parley.d.ts", text, PackageResources.parley_d_ts, "The client's types.",
            isShared: true),
        StaticFile(
            "/parley/connection.js", script, PackageResources.connection_js,
            "The client's connection.", isShared: true),
        StaticFile(
            "/parley/conversation.js", script, PackageResources.conversation_js,
            "The client's transcript.", isShared: true),
        StaticFile(
            "/parley/diagnosis.js", script, PackageResources.diagnosis_js,
            "Why the client does not connect.", isShared: true),
        StaticFile(
            "/parley/errors.js", script, PackageResources.errors_js, "The client's errors.",
            isShared: true),
        StaticFile(
            "/parley/liveness.js", script, PackageResources.liveness_js,
            "Whether the client's connection lives.", isShared: true),
        StaticFile(
            "/parley/microphone.js", script, PackageResources.microphone_js,
            "The client's microphone.", isShared: true),
        StaticFile(
            "/parley/sound.js", script, PackageResources.sound_js, "The client's loudspeaker.",
            isShared: true),
        StaticFile(
            "/parley/worklet.js", script, PackageResources.worklet_js,
            "The client's audio thread.", isShared: true),
    ]

    private init(
        _ path: String, _ mediaType: String, _ bytes: [UInt8], _ summary: String,
        isShared: Bool = false
    ) {
        self.path = path
        self.mediaType = mediaType
        self.bytes = bytes
        self.summary = summary
        self.isShared = isShared
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
    private static let text = "text/plain; charset=utf-8"

    /// Scripts, styles and connections of this server only; nothing may frame the page.
    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        + "img-src data:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    /// The answer with its bytes. It is not cached: the next build may have another file at the
    /// path.
    var response: HTTPResponse {
        var fields = HTTPFields()
        fields.append("Content-Type", mediaType)
        fields.append("Cache-Control", "no-cache")
        fields.append("X-Content-Type-Options", "nosniff")
        fields.append("Content-Security-Policy", StaticFile.policy)
        if isShared { fields.append("Access-Control-Allow-Origin", "*") }
        return HTTPResponse(status: 200, fields: fields, body: bytes)
    }
}
