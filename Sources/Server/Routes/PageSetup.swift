// `GET /page/setup.json`: the facts that the conversation page needs before it begins a session. They
// are the agent, the voices, the tool servers to offer, whether a model of this machine runs, and
// whether the caller may open the operator's page.

import Codec
import Session

extension Shard {
    /// The answer to the page.
    func pageSetup(_ request: HTTPRequest, on connection: Connection) -> HTTPResponse {
        let page = services.agents.page
        let access = pageAccess(of: request, on: connection)
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.object { json in
            json.member("agent", page.kind.rawValue)
            if let model = page.model, access >= .session { json.member("model", model) }
            json.array("voices") { json in
                for voice in page.voices {
                    json.object { json in
                        json.member("name", voice.name)
                        json.member("description", voice.description)
                    }
                }
            }
            json.array("languages") { json in
                for language in page.languages { json.string(language) }
            }
            json.member("administers", access == .operator)
            json.array("tool_servers") { json in
                for label in page.toolServers { json.string(label) }
            }
            // Only clients on this machine may know its programs.
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

    /// The access of the page's caller. The route is open: a wrong key is a failed attempt, and is answered
    /// as no key is.
    private func pageAccess(
        of request: HTTPRequest, on connection: Connection
    ) -> RouteAccess {
        guard services.authenticator.isOn else {
            return isLocal(request, on: connection) ? .operator : .session
        }
        guard request.fields.count(of: "Authorization") > 0,
            let route = fixtures.routes.route(at: request.path),
            case .known(let caller)? = try? sender(
                of: request, from: source(of: request, on: connection), on: route, after: nil)
        else { return .open }
        return caller.access
    }

    private func findLocalModel(at url: String) -> LocalModelWatch.Finding {
        let watch = services.localModel
        let (finding, asks) = watch.look(at: now)
        if asks {
            agents.link.host.startSharedWork { host in
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
        let voice = ObjectTable(
            "PageVoice", "A voice that the page offers.",
            [
                FieldEntry("name", .text(), "The protocol's name for it."),
                FieldEntry("description", .text(), "How it sounds; empty: not known."),
            ])
        return .value(
            "The setup.", "application/json",
            .object(
                ObjectTable(
                    "PageSetup", "What the page must know before a session.",
                    [
                        FieldEntry(
                            "agent", .choice(["echo", "guide", "model"]), "What answers."),
                        .optional(
                            "model", .text(),
                            "The model that answers by default, for callers that may open a session."
                        ),
                        FieldEntry(
                            "voices", .list(.object(voice)),
                            "The standard one first; empty: they are not known."),
                        FieldEntry(
                            "languages", .list(.text()),
                            "Codes of the languages that are heard; empty: they are not known."),
                        FieldEntry(
                            "administers", .boolean, "Whether the caller may open `/admin`."),
                        FieldEntry(
                            "tool_servers", .list(.text()), "Labels of tool servers to offer."),
                        .optional(
                            "local_model", .object(localModel),
                            "Only for pages on the server's machine."),
                    ])))
    }
}
