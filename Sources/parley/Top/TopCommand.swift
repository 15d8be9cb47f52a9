// `parley top`: its options, and the loop that asks one or several servers each second and shows the
// answers. PageClient asks, TopView makes the lines, Terminal shows them.

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

            With --cluster, the sessions of several servers are one list, whose column NODE is the \
            place in the list of URLs. A server that does not answer is shown as lost, and asked \
            again after 5 s.
            """)

    /// The most servers of a cluster.
    static let maxNodes = 64

    @Option(help: "The server's URL; https:// for TLS.")
    var url = "http://127.0.0.1:8080"

    @Option(help: "Several servers instead of one: their URLs, with commas between, 64 at most.")
    var cluster: String?

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
        guard (1...Self.maxNodes).contains(urls.count) else {
            throw ValidationError("--cluster is 1 to \(Self.maxNodes) URLs")
        }
        guard (0.1...3_600).contains(interval) else {
            throw ValidationError("--interval is 0.1 to 3600 seconds")
        }
        guard (1...TopView.maxRows).contains(limit) else {
            throw ValidationError("--limit is 1 to \(TopView.maxRows)")
        }
    }

    private var urls: [String] {
        cluster.map { $0.split(separator: ",").map(String.init) } ?? [url]
    }

    func run() throws {
        try reportingFailure {
            let addresses = try urls.map { text throws(CommandFailure) in
                try RealtimeURL(text, model: "any")
            }
            let servers = addresses.map { "\($0.isSecure ? "https" : "http")://\($0.authority)" }
            var view = TopView(servers: servers)
            (view.order, view.filter) = (order, state)
            let patience = addresses.count > 1 ? 2 : 5
            let watch = TopWatch(
                addresses.map {
                    PageClient($0, key: access.key, trust: access.trust, patience: patience)
                })
            if once {
                try watch.refresh(&view, rows: limit)
                writeAll(view.plainText, to: STDOUT_FILENO)
            } else {
                try watch.run(&view, interval: interval)
            }
        }
    }
}

/// Asks servers and shows their answers.
final class TopWatch {
    /// Seconds for which a lost server of several is left alone, so that it does not hold up the
    /// others. 5.
    private static let pause = 5.0

    private let pages: [PageClient]
    private let parser = JSONParser()
    /// When a lost server may be asked again.
    private var askable: [Double]

    init(_ pages: [PageClient]) {
        self.pages = pages
        askable = Array(repeating: 0, count: pages.count)
    }

    /// Shows the server's sessions until the user or a signal ends the program.
    /// - Throws: a `CommandFailure` where there is no terminal. A server that does not answer is
    ///   shown as lost, and asked again.
    func run(_ view: inout TopView, interval: Double) throws(CommandFailure) {
        let terminal = try Terminal()
        var due = 0.0
        while !terminal.isInterrupted {
            if monotonicSeconds() >= due {
                // Each server's trouble is shown beside it.
                _ = try? refresh(&view, rows: view.wantedRows)
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
    /// - Throws: a `CommandFailure` when no server's answer comes, or none can be read.
    func refresh(_ view: inout TopView, rows: Int) throws(CommandFailure) {
        var failure: CommandFailure?
        var answered = 0
        for node in pages.indices where askable[node] <= monotonicSeconds() {
            do throws(CommandFailure) {
                try refresh(&view, node, rows: rows)
                answered += 1
            } catch {
                failure = error
                view.lose(node, because: error.description.visible(.ascii))
                if pages.count > 1 { askable[node] = monotonicSeconds() + Self.pause }
            }
        }
        if answered == 0, let failure { throw failure }
    }

    private func refresh(
        _ view: inout TopView, _ node: Int, rows: Int
    ) throws(CommandFailure) {
        let filter = view.filter.map { "&state=\($0)" } ?? ""
        let path = "/admin/sessions?scope=node&limit=\(rows)&order=\(view.order)\(filter)"
        let list = try TopList(try pages[node].get(path), parser: parser)
        let page = try pages[node].get("/metrics")
        let metrics = TopMetrics(parsing: String(decoding: page, as: UTF8.self))
        view.update(list, metrics, of: node, at: monotonicSeconds())
        if let id = view.detailID, view.detailNode == node {
            let body = try pages[node].get("/admin/sessions/\(id)")
            view.detail = try TopDetail(body, parser: parser)
        }
    }
}
