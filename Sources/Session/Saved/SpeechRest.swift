// The words of replies that the client has not heard: from the beginning of the word that was cut
// off to the end of what the model wrote. The items end where they were heard. A response of its
// own speaks the rest, without the model.
//
// Invariant: each word of a reply is in its item or in the rest; only the word at the cut may have
// begun to be heard before.

import Codec

extension SessionCore {
    /// The most by which a client that adds up its chunks may be wrong: a frame.
    private static var roundingMilliseconds: Int { 20 }

    /// Which items the client has not heard to their ends, by its own report. The item that it
    /// names decides: items before it were heard, those after it were not.
    /// - Parameter stored: the server's own knowledge, which counts where the client reports
    ///   nothing, or names an unknown item.
    func unheardParts(
        _ stored: [UnheardReply.Part], _ played: PlayedAudio?
    ) -> [UnheardReply.Part] {
        guard let played, conversation.item(played.itemID) != nil else { return stored }
        var parts: [UnheardReply.Part] = []
        if let first = stored.firstIndex(where: { $0.itemID == played.itemID }) {
            parts = stored[first...].map { UnheardReply.Part(itemID: $0.itemID, heard: 0) }
            parts[0].heard = played.milliseconds
            return parts
        }
        for item in conversation.spokenItems(from: played.itemID) ?? [] {
            let heard = item.id == played.itemID ? played.milliseconds : 0
            guard heard + Self.roundingMilliseconds < item.sent else { continue }
            parts.append(UnheardReply.Part(itemID: item.id, heard: heard))
        }
        for part in stored where conversation.isItem(part.itemID, after: played.itemID) {
            guard !parts.contains(where: { $0.itemID == part.itemID }) else { continue }
            parts.append(UnheardReply.Part(itemID: part.itemID, heard: 0))
        }
        return parts
    }

    /// Cuts items where the user stopped hearing them. An item of which no whole word was heard is
    /// deleted: all of it is spoken again.
    /// - Parameter announces: whether the client gets events of the cuts. It gets none where it
    ///   gets all items anew.
    /// - Returns: the words that were cut off, in order.
    func cut(_ parts: [UnheardReply.Part], announces: Bool) -> String {
        var rest = ""
        for part in parts {
            guard let (text, speech) = conversation.words(of: part.itemID) else { continue }
            let end = min(part.heard, speech.knownMilliseconds)
            conversation.noteSent(part.itemID, milliseconds: end)
            let heard = Conversation.heard(text, marks: speech.marks, audioMilliseconds: end)
            let unheard = Self.words(of: text, after: heard)
            guard !unheard.isEmpty else { continue }
            rest += rest.isEmpty ? unheard : " " + unheard
            guard !heard.isEmpty else {
                _ = try? conversation.remove(part.itemID)
                if announces { emit(.conversationItemDeleted(itemID: part.itemID)) }
                continue
            }
            _ = try? conversation.truncate(
                part.itemID, contentIndex: 0, audioMilliseconds: end, isFinal: false)
            guard announces else { continue }
            emit(
                .conversationItemTruncated(
                    itemID: part.itemID, contentIndex: 0, audioEndMilliseconds: end,
                    transcript: heard))
        }
        return rest
    }

    /// The words after the beginning of a text, without white space around them. It may be empty.
    private static func words(of text: String, after beginning: String) -> String {
        let rest = Array(text.utf8.dropFirst(beginning.utf8.count))
        guard let first = rest.firstIndex(where: { $0 > 32 }),
            let last = rest.lastIndex(where: { $0 > 32 })
        else { return "" }
        return String(decoding: rest[first...last], as: UTF8.self)
    }
}

extension Conversation.Speech {
    /// Milliseconds of audio of which the words are known. A client may have more than had been sent
    /// when the state was saved.
    var knownMilliseconds: Int { max(sentMilliseconds, marks.last?.audioMilliseconds ?? 0) }
}

extension VoiceSession {
    /// Says words in a response of their own.
    /// - Parameters:
    ///   - overrides: of the response that the words belonged to: voice and format count.
    ///   - incompleteReason: why there are no more words, where there should be.
    func say(
        _ words: String, overrides: ResponseParameters, incompleteReason: String?, at now: Instant
    ) {
        guard !words.isEmpty, canRespond else { return }
        var spoken = ResponseParameters()
        spoken.outputModality = .audio
        spoken.voice = overrides.voice
        spoken.outputFormat = overrides.outputFormat
        spoken.outputOpus = overrides.outputOpus
        spoken.metadata = overrides.metadata
        begin(spoken, speechEnd: nil)
        activeResponse?.say(words, incompleteReason: incompleteReason, at: now)
    }
}
