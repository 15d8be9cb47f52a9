// `GET /page/setup.json`: what the conversation page must know before it begins a session, namely
// what answers, which tool servers to offer to it, and whether a model of this machine runs.

import Codec
import Session

extension Shard {
    /// The answer to the page.
    func pageSetup(_ request: HTTPRequest, on connection: Connection) -> HTTPResponse {
        let page = services.agents.page
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { json in
            json.member("agent", page.kind.rawValue)
            json.array("tool_servers") { json in
                for label in page.toolServers { json.string(label) }
            }
            // Clients elsewhere are told nothing of this machine's programs.
            guard let url = page.localModelURL, isLocal(request, on: connection) else { return }
            let finding = findLocalModel(at: url)
            json.object("local_model") { json in
                json.member("url", url)
                switch finding {
                case .unknown: json.member("state", "unknown")
                case .absent: json.member("state", "absent")
                case .running(let model):
                    json.member("state", "running")
                    json.member("model", model)
                }
                json.member("is_used", page.usesLocalModel)
            }
        }
        var fields = HTTPFields()
        fields.append("Cache-Control", "no-store")
        fields.append("X-Content-Type-Options", "nosniff")
        return .json(json.finish(), fields: fields)
    }

    private func findLocalModel(at url: String) -> LocalModelWatch.Finding {
        let watch = services.localModel
        let (finding, asks) = watch.look(at: now)
        if asks {
            agentLink.host.startSharedWork { host in
                let found = await LocalModelWatch.ask(url, on: host)
                watch.note(found, at: await host.now())
            }
        }
        return finding
    }
}

extension RouteContent {
    /// `GET /page/setup.json`
    static var pageSetup: RouteContent {
        let localModel = ObjectTable(
            "LocalModel", "A model of the server's machine, as `make brain` serves it.",
            [
                FieldEntry("url", .text(), "Its base URL."),
                FieldEntry(
                    "state", .choice(["unknown", "absent", "running"]),
                    "Whether it runs; unknown: it is being asked, and the next request knows."),
                .optional("model", .text(), "The name of its model."),
                FieldEntry("is_used", .boolean, "Whether it answers at this server."),
            ])
        return .value(
            "The setup.", "application/json",
            .object(
                ObjectTable(
                    "PageSetup", "What the page must know before a session.",
                    [
                        FieldEntry(
                            "agent", .choice(["echo", "guide", "model"]), "What answers."),
                        FieldEntry(
                            "tool_servers", .list(.text()), "Labels of tool servers to offer."),
                        .optional(
                            "local_model", .object(localModel),
                            "Only for pages on the server's machine."),
                    ])))
    }
}
