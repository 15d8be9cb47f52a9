// The script of the model: the content and the times of its deltas. No socket and no clock is used
// here: see ScriptedModel.

import Codec

/// How one answer is streamed.
struct ModelScript: Equatable, Sendable {
    /// Deltas of an answer. 0…1,000,000.
    var tokens = 50
    /// Deltas per second, the first one apart. 50 is a fast hosted model.
    var tokensPerSecond = 50.0
    /// Milliseconds from the request to the first delta.
    var firstTokenMilliseconds = 200.0
    /// Whether deltas are words. Otherwise each is a space and the time at which it was sent, in
    /// nanoseconds of the machine's monotonic clock, so that a client on the machine can compute
    /// its delay.
    var isPlain = false

    /// The script of one request: `tokens=50 rate=20 first=300` in the last user message override
    /// the command line. Other words, and numbers out of range, are ignored.
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

    /// The words of a plain answer, which are repeated.
    private static let words = [
        "The", "harbour", "is", "quiet", "this", "morning,", "and", "the", "first", "boats", "are",
        "coming", "home.",
    ]

    /// A word with the space before it.
    static func word(_ token: Int) -> String { " " + words[token % words.count] }
}

/// The fields of a chat completions request that the model server uses.
struct ModelRequest {
    /// The text of the last user message; empty when there is none.
    var lastUserMessage = ""
    var streams = false
    var wantsUsage = false
    var model = "scripted"
}

extension ModelRequest {
    /// Reads a body.
    /// - Returns: nil when it is not a chat completions request.
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
