// `parley top`: its options, and the loop that asks a server each second and shows the answer.
// PageClient asks, TopView makes the lines, Terminal shows them.

import ArgumentParser
import Codec
import Glibc
import Session

/// Shows the sessions of a running server.
struct TopCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Show the sessions of a running server, like top.",
        discussion: """
            Keys: q quits, s changes the order (bytes, age, id), f or / the state that is shown, \
            arrows and page keys scroll, Enter shows what the chosen session holds, part by part.

            WORDS, TOKEN and AUDIO are the last turn's milliseconds from the end of the user's \
            speech to the transcript, the model's first token and the first audio of the reply. A \
            typed turn has its first token only, counted from the request.

            The server answers operators only: clients with an operator's key or, where it asks \
            for no credentials, clients on its own machine.
            """)

    @Option(help: "The server's URL; https:// for TLS.")
    var url = "http://127.0.0.1:8080"

    @OptionGroup var access: ServerAccessOptions

    @Option(help: "The order of sessions: bytes, age or id.")
    var order = "bytes"

    @Option(help: "Only sessions in this state: idle, listening, speaking, replying, connection.")
    var state: String?

    @Option(help: "Seconds between two requests, 0.1 to 3600.")
    var interval = 1.0

    @Flag(help: "Print one table and end: for pipes and scripts. Bytes and seconds are exact.")
    var once = false

    @Option(help: "The most sessions that --once prints, 1 to 1000.")
    var limit = 100

    func validate() throws {
        guard TopView.orders.contains(order) else {
            throw ValidationError("--order is one of \(TopView.orders.joined(separator: ", "))")
        }
        guard TopView.filters.contains(state) else {
            let names = TopView.filters.compactMap(\.self).joined(separator: ", ")
            throw ValidationError("--state is one of \(names)")
        }
        guard (0.1...3_600).contains(interval) else {
            throw ValidationError("--interval is 0.1 to 3600 seconds")
        }
        guard (1...TopView.maxRows).contains(limit) else {
            throw ValidationError("--limit is 1 to \(TopView.maxRows)")
        }
    }

    func run() throws {
        try reportingFailure {
            let address = try RealtimeURL(url, model: "any")
            let scheme = address.isSecure ? "https" : "http"
            var view = TopView(server: "\(scheme)://\(address.authority)")
            (view.order, view.filter) = (order, state)
            let watch = TopWatch(PageClient(address, key: access.key, trust: access.trust))
            if once {
                try watch.refresh(&view, rows: limit)
                writeAll(view.plainText, to: STDOUT_FILENO)
            } else {
                try watch.run(&view, interval: interval)
            }
        }
    }
}

/// Asks a server and shows its answers.
final class TopWatch {
    private let pages: PageClient
    private let parser = JSONParser()

    init(_ pages: PageClient) { self.pages = pages }

    /// Shows the server's sessions until the user or a signal ends the program.
    /// - Throws: a `CommandFailure` where there is no terminal. A server that does not answer is
    ///   shown as lost, and asked again.
    func run(_ view: inout TopView, interval: Double) throws(CommandFailure) {
        let terminal = try Terminal()
        var due = 0.0
        while !terminal.isInterrupted {
            if monotonicSeconds() >= due {
                do throws(CommandFailure) {
                    try refresh(&view, rows: view.wantedRows)
                } catch {
                    view.trouble = error.description.visible(.ascii)
                }
                due = monotonicSeconds() + interval
            }
            let (width, height) = terminal.size
            terminal.show(view.lines(width: width, height: height))
            guard let typed = terminal.read(until: due) else { return }
            for key in TopKey.keys(in: typed) {
                if key == .quit { return }
                if view.handle(key) { due = 0 }
            }
        }
    }

    /// Asks for the sessions, the metrics and the details that the view shows.
    /// - Throws: a `CommandFailure` when an answer does not come, or cannot be read.
    func refresh(_ view: inout TopView, rows: Int) throws(CommandFailure) {
        let filter = view.filter.map { "&state=\($0)" } ?? ""
        let path = "/admin/sessions?limit=\(rows)&order=\(view.order)\(filter)"
        let list = try TopList(try pages.get(path), parser: parser)
        let page = try pages.get("/metrics")
        let metrics = TopMetrics(parsing: String(decoding: page, as: UTF8.self))
        view.update(list, metrics, at: monotonicSeconds())
        if let id = view.detailID {
            view.detail = try TopDetail(try pages.get("/admin/sessions/\(id)"), parser: parser)
        }
    }
}
