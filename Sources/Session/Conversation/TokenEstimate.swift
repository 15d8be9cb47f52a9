// Estimates the tokens of messages to a model; the truncation of a conversation is based on it. It
// is coarse on purpose: it uses lengths only, because a whole conversation is estimated before
// every response.
//
// Text counts by its UTF-8 bytes. English has 4 to 4.5 bytes a token in the vocabularies of today's
// models, German and code 3 to 4, Chinese and Japanese 3 to 4.5 (3 bytes a character). Audio counts
// as OpenAI's guide to the Realtime API says: a token per 100 ms of the user's.

import Codec

/// Estimated tokens.
enum TokenEstimate {
    /// UTF-8 bytes of text per token.
    private static let bytesPerToken = 4
    /// Tokens of a message beside its text: its role and delimiters.
    static let tokensPerMessage = 4
    /// Tokens of a second of the user's audio, for a model that hears it.
    private static let audioTokensPerSecond = 10
    /// Tokens kept free for a reply without a limit of its own: the protocol's largest limit.
    static let replyTokens = 4_096

    /// Of so many bytes of text.
    static func text(bytes: Int) -> Int { (bytes + bytesPerToken - 1) / bytesPerToken }

    /// Of the user's audio, in samples at 16 kHz.
    static func audio(samples: Int) -> Int {
        samples * audioTokensPerSecond / SampleRate.hz16000.hertz
    }

    /// Of the functions that a model may call.
    static func tools(_ tools: [FunctionTool]) -> Int {
        tools.reduce(0) { sum, tool in
            let described = tool.description?.utf8.count ?? 0
            let schema = tool.parameters?.text.utf8.count ?? 0
            return sum + tokensPerMessage
                + text(bytes: tool.name.utf8.count + described + schema)
        }
    }

    /// Of an item, with what a model that hears is given of its audio.
    static func item(_ entry: ConversationEntry, heard: HeardAudio?) -> Int {
        tokensPerMessage + text(bytes: entry.wordBytes) + entry.imageTokens
            + audio(samples: heard?.sampleCount ?? 0)
    }
}
