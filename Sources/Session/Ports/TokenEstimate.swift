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

    /// Tokens of a text of this length.
    static func text(bytes: Int) -> Int { (bytes + bytesPerToken - 1) / bytesPerToken }

    /// Tokens of the user's audio, given in samples at 16 kHz.
    static func audio(samples: Int) -> Int {
        samples * audioTokensPerSecond / SampleRate.hz16000.hertz
    }

    /// Tokens of the functions that a model may call.
    static func tools(_ tools: [FunctionTool]) -> Int {
        tools.reduce(0) { sum, tool in
            let described = tool.description?.utf8.count ?? 0
            let schema = tool.parameters?.text.utf8.count ?? 0
            return sum + tokensPerMessage
                + text(bytes: tool.name.utf8.count + described + schema)
        }
    }
}

extension ModelRequest {
    /// The tokens that a model reads for it, estimated: for quotas, before the model counts them.
    public var estimatedTokens: Int {
        messages.reduce(TokenEstimate.text(bytes: instructions.utf8.count)) {
            $0 + $1.estimatedTokens
        } + TokenEstimate.tools(tools)
    }
}

extension ModelMessage {
    fileprivate var estimatedTokens: Int {
        let content =
            switch self {
            case .system(let text), .user(let text), .assistant(let text):
                TokenEstimate.text(bytes: text.utf8.count)
            case .userAudio(let audio): TokenEstimate.audio(samples: audio.sampleCount)
            case .userParts(let parts): parts.reduce(0) { $0 + $1.estimatedTokens }
            case .functionCall(_, let name, let arguments):
                TokenEstimate.text(bytes: name.utf8.count + arguments.utf8.count)
            case .functionOutput(_, let output): TokenEstimate.text(bytes: output.utf8.count)
            }
        return TokenEstimate.tokensPerMessage + content
    }
}

extension UserPart {
    fileprivate var estimatedTokens: Int {
        switch self {
        case .text(let text): TokenEstimate.text(bytes: text.utf8.count)
        case .image(_, let detail): detail.estimatedTokens
        case .audio(let audio): TokenEstimate.audio(samples: audio.sampleCount)
        }
    }
}

extension ResponseDescription {
    /// The tokens of its request and its answer, as the model counted them; nil where it has not, as
    /// of a reply that was stopped.
    public var countedTokens: Int? {
        guard let usage, usage != ResponseUsage() else { return nil }
        return usage.inputTextTokens + usage.inputAudioTokens + usage.outputTextTokens
            + usage.outputAudioTokens
    }

    /// The tokens of its answer, estimated.
    public var estimatedOutputTokens: Int {
        output.reduce(0) { $0 + TokenEstimate.text(bytes: $1.textBytes) }
    }
}
