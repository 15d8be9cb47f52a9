// What the scripted model says, and when. No socket and no clock here: see ScriptedModel.

import Codec

/// How one answer is streamed.
struct ModelScript: Equatable, Sendable {
    /// Deltas of an answer. 0…1,000,000.
    var tokens = 50
    /// Deltas per second, the first one apart. 50 is a fast hosted model.
    var tokensPerSecond = 50.0
    /// Milliseconds from the request to the first delta.
    var firstTokenMilliseconds = 200.0
    /// Whether deltas are words. Otherwise each is a space and the moment at which it was sent, in
    /// nanoseconds of the machine's monotonic clock, so that any client on the machine can tell
    /// how long it was under way.
    var isPlain = false

    /// The script of one request: `tokens=50 rate=20 first=300` in the last user message go before
    /// what the command line says. Other words, and numbers that make no sense, are left alone.
    func overridden(by message: String) -> ModelScript {
        var script = self
        for word in message.split(separator: " ") {
            let parts = word.split(separator: "=")
            guard parts.count == 2, let number = Double(parts[1]), number.isFinite else { continue }
            switch parts[0] {
            case "tokens" where (0...1_000_000).contains(number): script.tokens = Int(number)
            case "rate" where (0.01...100_000).contains(number): script.tokensPerSecond = number
            case "first" where (0...600_000).contains(number):
                script.firstTokenMilliseconds = number
            default: break
            }
        }
        return script
    }

    /// Nanoseconds from the request to a delta.
    func offset(of token: Int) -> Int64 {
        Int64(firstTokenMilliseconds * 1e6 + Double(token) * 1e9 / tokensPerSecond)
    }

    /// What the deltas of a plain answer say, again and again.
    private static let words = [
        "The", "harbour", "is", "quiet", "this", "morning,", "and", "the", "first", "boats", "are",
        "coming", "home.",
    ]

    /// A word with the space before it.
    static func word(_ token: Int) -> String { " " + words[token % words.count] }
}

/// What the model server needs to know of a chat completions request.
struct ModelRequest {
    /// What the user said last; empty without a message of the user.
    var lastUserMessage = ""
    var streams = false
    var wantsUsage = false
    var model = "scripted"
}

extension ModelRequest {
    /// Reads a body.
    /// - Returns: nil when it is not such a request.
    init?(_ body: [UInt8], with parser: JSONParser) {
        self.init()
        guard let root = try? parser.parse(body), let messages = root["messages"]?.elements else {
            return nil
        }
        streams = root["stream"]?.bool ?? false
        wantsUsage = root["stream_options"]?["include_usage"]?.bool ?? false
        if let name = root["model"]?.string { model = name }
        for message in messages where message["role"]?.isString("user") == true {
            guard let content = message["content"] else { continue }
            if let text = content.string {
                lastUserMessage = text
            } else if let parts = content.elements {
                lastUserMessage = parts.compactMap { $0["text"]?.string }.joined(separator: " ")
            }
        }
    }
}
