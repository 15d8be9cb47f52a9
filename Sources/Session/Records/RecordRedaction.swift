// Removes from a record the text that its owner does not want to keep: digits, or all words. It is
// done before anything is written to disk.

import Codec

/// The words that are taken out of a conversation.
public enum RecordRedaction: String, CaseIterable, Sendable {
    /// Nothing.
    case none
    /// Digits, and numbers that are spelt out in two words or more of a language that LanguageRules
    /// has, such as "four one two": cards, accounts, telephones.
    case digits
    /// All words, with the arguments and results of functions. Times, tokens and latencies stay.
    case text

    /// The text in place of the words that were taken out.
    static let placeholder = "[redacted]"

    /// Takes it out of a change.
    public func apply(to change: inout RecordChange) {
        guard self != .none else { return }
        if var call = change.summary.call {
            call.from = call.from.map(redacted)
            call.to = call.to.map(redacted)
            change.summary.call = call
        }
        for index in change.items.indices { apply(to: &change.items[index]) }
        for index in change.turns.indices { apply(to: &change.turns[index]) }
        if case .answered(let answer)? = change.afterCall {
            change.afterCall = .answered(redacted(answer))
        }
    }

    private func redacted(_ answer: AfterCallAnswer) -> AfterCallAnswer {
        switch answer {
        case .text(let text): .text(redacted(text))
        case .data(let data): .data(redacted(data))
        case .failed(let code, let message): .failed(code: code, message: redacted(message))
        }
    }

    /// Nothing is left of an object that loses all words: its keys may be the model's own.
    private func redacted(_ data: RawJSON) -> RawJSON {
        guard self != .text, let object = try? JSONParser().parse(data.text) else {
            return RawJSON("\"\(Self.placeholder)\"")
        }
        return RawJSON(rewriting: object, redacted)
    }

    private func apply(to recorded: inout RecordedItem) {
        recorded.written = recorded.written.map(redacted)
        apply(to: &recorded.item)
    }

    private func apply(to turn: inout RecordedTurn) {
        for index in turn.response.output.indices { apply(to: &turn.response.output[index]) }
        turn.response.metadata = nil
        guard case .failed(let type, let code, let message, let retry) = turn.response.status
        else { return }
        turn.response.status = .failed(
            type: type, code: code, message: redacted(message), retryAfterSeconds: retry)
    }

    private func apply(to item: inout ConversationItem) {
        switch item.kind {
        case .message(let role, let content):
            item.kind = .message(role: role, content: content.map(redacted))
        case .functionCall(let callID, let name, let arguments):
            item.kind = .functionCall(callID: callID, name: name, arguments: redacted(arguments))
        case .functionCallOutput(let callID, let output):
            item.kind = .functionCallOutput(callID: callID, output: redacted(output))
        case .mcp(.call(var call)):
            call.arguments = redacted(call.arguments)
            call.output = call.output.map(redacted)
            if let error = call.error { call.error = .execution(message: redacted(error.message)) }
            item.kind = .mcp(.call(call))
        case .mcp(.approvalRequest(let label, let name, let arguments)):
            item.kind = .mcp(
                .approvalRequest(
                    serverLabel: label, name: name, arguments: redacted(arguments)))
        case .mcp(.approvalResponse(let requestID, let isApproved, let reason)):
            item.kind = .mcp(
                .approvalResponse(
                    requestID: requestID, isApproved: isApproved, reason: reason.map(redacted)))
        case .mcp(.listTools), .reference: break
        }
    }

    private func redacted(_ part: ContentPart) -> ContentPart {
        switch part {
        case .inputText(let text): .inputText(redacted(text))
        case .inputAudio(_, let transcript):
            .inputAudio(bytes: [], transcript: transcript.map(redacted))
        case .inputImage(let url, let detail): .inputImage(url: redacted(url), detail: detail)
        case .outputText(let text): .outputText(redacted(text))
        case .outputAudio(let transcript): .outputAudio(transcript: redacted(transcript))
        }
    }

    /// A text without the removed parts.
    func redacted(_ text: String) -> String {
        switch self {
        case .none: text
        case .digits: Self.withoutNumbers(text)
        case .text: text.isEmpty ? "" : Self.placeholder
        }
    }

    // MARK: Numbers

    /// Each digit becomes `#`, and each word of a number of two words or more.
    private static func withoutNumbers(_ text: String) -> String {
        var words: [(text: Substring, languages: UInt8)] = []
        var rest = text[...]
        while let first = rest.first {
            let isWord = first.isLetter
            let end = rest.firstIndex { $0.isLetter != isWord } ?? rest.endIndex
            let piece = rest[..<end]
            let languages =
                isWord ? LanguageRules.numberLanguages[piece.lowercased()] ?? 0 : 0
            words.append((piece, languages))
            rest = rest[end...]
        }
        return words.indices.map { index in
            let (piece, languages) = words[index]
            guard languages != 0 else { return withoutDigits(piece) }
            let isInNumber = [-1, 1].contains { isNumber(beside: index, $0, of: words) }
            return isInNumber ? "#" : String(piece)
        }.joined()
    }

    /// Whether a number word of the same language stands beside one, or behind an "and".
    /// - Parameter step: 1: after it; −1: before it. Between two words is what separates them.
    private static func isNumber(
        beside index: Int, _ step: Int, of words: [(text: Substring, languages: UInt8)]
    ) -> Bool {
        var place = index
        for _ in 0..<2 {
            let gap = place + step
            place += 2 * step
            guard words.indices.contains(place), words[gap].text.allSatisfy({ " ,-".contains($0) })
            else { return false }
            if words[place].languages & words[index].languages != 0 { return true }
            guard ands.contains(words[place].text.lowercased()) else { return false }
        }
        return false
    }

    /// The "and" within a number: "treinta y dos".
    private static let ands: Set = ["and", "et", "y", "e", "и", "und"]

    private static func withoutDigits(_ piece: Substring) -> String {
        String(piece.map { $0.isNumber ? "#" : $0 })
    }
}
