// The state of an AG-UI client beside the words of the conversation. It has the shared state, the
// ids that the agent gave to its messages, the calls that the agent answered itself, and the
// interrupts that wait for an answer. The session keeps it as a memento (AgentMemento), so the
// provider has no state of its own and any shard can send the next run.
//
// Invariants: an agent that keeps the conversation (LangGraph) finds its messages by their ids, so a
// message has the same id in every run. Positions (`turn`, `hidden`) count the messages of requests;
// they are valid while the session reports that none of these messages has changed
// (`knownMessages`).

import Codec
import Session

/// The memento of one conversation.
struct AGUIMemento: Sendable {
    /// A text message of the agent.
    struct Message: Equatable, Sendable {
        /// Unicode scalars of its text that are kept. They recognise the message in a request, also
        /// where the user interrupted it.
        static let headLength = 24

        let id: String
        let head: String

        init(id: String, text: String) {
            self.id = id
            head = Self.head(of: text)
        }

        /// The beginning of a text, from its first character that is not white space.
        static func head(of text: String) -> String {
            let scalars = text.unicodeScalars.drop { $0.properties.isWhitespace }
            return String(String.UnicodeScalarView(scalars.prefix(headLength)))
        }

        /// Whether the text is this message, or what was heard of it.
        func matches(_ text: String) -> Bool {
            let other = Self.head(of: text)
            guard !other.isEmpty else { return false }
            return other == head
                || other.unicodeScalars.count < Self.headLength && head.hasPrefix(other)
        }
    }

    /// A call of a client's function, and the message of the agent that it belongs to.
    struct ClientCall: Equatable, Sendable {
        let callID: String
        let messageID: String
    }

    /// Calls of one message that the agent answers itself.
    struct OwnStep: Equatable, Sendable {
        struct Call: Equatable, Sendable {
            let id: String
            let name: String
            var arguments: String
        }
        struct Result: Equatable, Sendable {
            var id: String
            let callID: String
            /// A JSON string, or an array of content parts.
            let content: RawJSON
        }

        var messageID: String
        var calls: [Call] = []
        var results: [Result] = []

        var byteCount: Int {
            calls.reduce(messageID.utf8.count + 64) {
                $0 + $1.id.utf8.count + $1.name.utf8.count + $1.arguments.utf8.count + 64
            } + results.reduce(0) { $0 + $1.id.utf8.count + $1.content.text.utf8.count + 64 }
        }
    }

    /// The calls of one run that the agent answers itself.
    struct OwnTurn: Equatable, Sendable {
        /// Messages of the request that the run answered.
        let turn: Int
        var steps: [OwnStep]

        var byteCount: Int { steps.reduce(16) { $0 + $1.byteCount } }
    }

    /// Bytes of the agent's own calls and results. 32 KiB: some dozen calls; older ones are
    /// dropped, as the agent's words about them remain.
    static let maxOwnBytes = 32 << 10
    /// Bytes of the ids and beginnings of messages. 32 KiB: about 300 messages; older ones get an
    /// id from their text.
    static let maxMessageBytes = 32 << 10
    /// Longest id of a message or call. Longer ones are not kept.
    static let maxIDBytes = 128
    /// Interrupts of one run.
    static let maxInterrupts = 16
    /// Positions of messages that are not sent.
    static let maxHidden = 256

    var state: RawJSON?
    private(set) var messages: [Message] = []
    private(set) var clientCalls: [ClientCall] = []
    var own: [OwnTurn] = []
    /// Positions of messages that are not part of the AG-UI conversation: the questions of
    /// interrupts, and answers that were sent as `resume`.
    var hidden: [Int] = []
    var interrupts: [AGUIInterrupt] = []
    /// The spoken question of the interrupts.
    var question = ""
    private var messageBytes = 0

    /// No memory yet.
    init() {}

    /// Records a text message of the agent.
    mutating func note(_ message: Message) {
        guard message.id.utf8.count <= Self.maxIDBytes, !message.head.isEmpty else { return }
        messages.append(message)
        messageBytes += Self.byteCount(of: message)
        while messageBytes > Self.maxMessageBytes, messages.count > 1 {
            messageBytes -= Self.byteCount(of: messages.removeFirst())
        }
    }

    private static func byteCount(of message: Message) -> Int {
        message.id.utf8.count + message.head.utf8.count + 24
    }

    /// Records a call of a client's function.
    mutating func note(_ call: ClientCall) {
        guard max(call.callID.utf8.count, call.messageID.utf8.count) <= Self.maxIDBytes else {
            return
        }
        clientCalls.append(call)
        while clientCalls.count * 2 * Self.maxIDBytes > Self.maxMessageBytes {
            clientCalls.removeFirst()
        }
    }

    /// Drops the oldest calls of the agent until the rest fits.
    mutating func limitOwn() {
        var bytes = own.reduce(0) { $0 + $1.byteCount }
        while bytes > Self.maxOwnBytes, !own.isEmpty { bytes -= own.removeFirst().byteCount }
    }

    // MARK: Text

    /// Reads a memento, or returns nil where the text is no memento of this version.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        let read = try? bytes.span.bytes.withUnsafeBytes { (bytes) throws(AgentError) in
            try AnswerParsers.read(bytes) { AGUIMemento($0) }
        }
        guard let read else { return nil }
        self = read
    }

    private init?(_ value: JSONValue) {
        guard value["version"]?.int == 1 else { return nil }
        state = value["state"]?.raw
        question = value["question"]?.string ?? ""
        for (id, head) in Self.ids(in: value["messages"], with: "head") {
            note(Message(id: id, text: head))
        }
        for (id, messageID) in Self.ids(in: value["calls"], with: "message") {
            note(ClientCall(callID: id, messageID: messageID))
        }
        hidden = value["hidden"]?.elements?.compactMap(\.int) ?? []
        own = value["own"]?.elements?.compactMap(Self.ownTurn) ?? []
        interrupts =
            value["interrupts"]?.elements?.map { interrupt in
                AGUIInterrupt(
                    id: interrupt["id"]?.string, toolCallID: interrupt["call"]?.string,
                    form: Self.form(interrupt))
            } ?? []
    }

    /// The ids in an array of objects, each with another text of its object.
    private static func ids(in array: JSONValue?, with name: StaticString) -> [(String, String)] {
        array?.elements?.compactMap { object in
            guard let id = object["id"]?.string, let text = object[name]?.string else {
                return nil
            }
            return (id, text)
        } ?? []
    }

    private static func ownTurn(_ value: JSONValue) -> OwnTurn? {
        guard let turn = value["turn"]?.int, let steps = value["steps"]?.elements else {
            return nil
        }
        return OwnTurn(
            turn: turn,
            steps: steps.map { step in
                OwnStep(
                    messageID: step["id"]?.string ?? "",
                    calls: step["calls"]?.elements?.map { call in
                        OwnStep.Call(
                            id: call["id"]?.string ?? "", name: call["name"]?.string ?? "",
                            arguments: call["arguments"]?.string ?? "")
                    } ?? [],
                    results: step["results"]?.elements?.map { result in
                        OwnStep.Result(
                            id: result["id"]?.string ?? "", callID: result["call"]?.string ?? "",
                            content: result["content"]?.raw ?? RawJSON("\"\""))
                    } ?? [])
            })
    }

    private static func form(_ interrupt: JSONValue) -> AGUIInterrupt.Form {
        let key = interrupt["key"]?.string ?? ""
        switch interrupt["form"]?.string {
        case "consent": return .consent
        case "approval": return .approval(key: key, reason: interrupt["reason"]?.string)
        case "member": return .member(key: key)
        default: return .words
        }
    }

    /// The memento as the session keeps it.
    var text: String {
        RawJSON.object { json in
            json.member("version", 1)
            if let state { json.member("state", state) }
            if !messages.isEmpty {
                json.array("messages") { json in
                    for message in messages {
                        json.object { json in
                            json.member("id", message.id)
                            json.member("head", message.head)
                        }
                    }
                }
            }
            if !clientCalls.isEmpty {
                json.array("calls") { json in
                    for call in clientCalls {
                        json.object { json in
                            json.member("id", call.callID)
                            json.member("message", call.messageID)
                        }
                    }
                }
            }
            if !hidden.isEmpty {
                json.array("hidden") { json in hidden.forEach { json.integer($0) } }
            }
            if !own.isEmpty {
                json.array("own") { json in for turn in own { Self.write(turn, to: &json) } }
            }
            if !interrupts.isEmpty {
                json.member("question", question)
                json.array("interrupts") { json in
                    for interrupt in interrupts { Self.write(interrupt, to: &json) }
                }
            }
        }.text
    }

    private static func write(_ turn: OwnTurn, to json: inout JSONWriter) {
        json.object { json in
            json.member("turn", turn.turn)
            json.array("steps") { json in
                for step in turn.steps {
                    json.object { json in
                        json.member("id", step.messageID)
                        json.array("calls") { json in
                            for call in step.calls {
                                json.object { json in
                                    json.member("id", call.id)
                                    json.member("name", call.name)
                                    json.member("arguments", call.arguments)
                                }
                            }
                        }
                        json.array("results") { json in
                            for result in step.results {
                                json.object { json in
                                    json.member("id", result.id)
                                    json.member("call", result.callID)
                                    json.member("content", result.content)
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    private static func write(_ interrupt: AGUIInterrupt, to json: inout JSONWriter) {
        json.object { json in
            if let id = interrupt.id { json.member("id", id) }
            if let callID = interrupt.toolCallID { json.member("call", callID) }
            switch interrupt.form {
            case .words: break
            case .consent: json.member("form", "consent")
            case .approval(let key, let reason):
                json.member("form", "approval")
                json.member("key", key)
                if let reason { json.member("reason", reason) }
            case .member(let key):
                json.member("form", "member")
                json.member("key", key)
            }
        }
    }
}
