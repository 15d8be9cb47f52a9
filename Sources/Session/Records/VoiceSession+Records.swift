// The items of a session for a record: as they are now, with how much of them was heard.

import Codec

extension VoiceSession: RecordedSession {
    /// Whether audio of a reply may not be heard yet, so that a record must ask again.
    public var isReplyPlaying: Bool { playback?.timeline != nil }

    /// The ids of all items, in order.
    public var itemIDs: [String] { conversation.itemIDs }

    package func recorded(
        _ wanted: [String: Instant], at now: Instant
    ) -> (items: [RecordedItem], unheard: Set<String>) {
        guard !wanted.isEmpty else { return ([], []) }
        var items: [RecordedItem] = []
        var unheard: Set<String> = []
        let playing = playback?.timeline?.unheard(at: now) ?? []
        for itemID in conversation.itemIDs {
            guard let addedAt = wanted[itemID] else { continue }
            let open = activeResponse?.saved(itemID)
            guard let saved = open ?? conversation.saved(itemID) else { continue }
            var recorded = RecordedItem(item: saved.item, addedAt: addedAt)
            let heard = playing.first { $0.itemID == itemID }?.heard
            recorded.describeSpeech(saved.speech, heard: heard, isOpen: open != nil)
            if recorded.speech != nil, heard != nil || open != nil { unheard.insert(itemID) }
            items.append(recorded)
        }
        return (items, unheard)
    }
}

extension RecordedItem {
    /// - Parameters:
    ///   - heard: milliseconds of its audio that were heard. The default is all that was sent.
    ///   - isOpen: whether its response is still writing or speaking it.
    fileprivate mutating func describeSpeech(
        _ times: Conversation.Speech, heard: Int?, isOpen: Bool
    ) {
        guard case .message(role: .assistant, content: let content) = item.kind,
            case .outputAudio(let transcript)? = content.first
        else { return }
        var words = transcript
        var end = times.cutMilliseconds ?? times.sentMilliseconds
        let whole = times.wholeTranscript ?? (times.isCut ? nil : transcript)
        if let whole, heard != nil || isOpen {
            end = min(end, heard ?? times.sentMilliseconds)
            words = Conversation.heard(whole, marks: times.marks, audioMilliseconds: end)
        }
        let isCut = times.isCut || words != whole
        item.kind = .message(role: .assistant, content: [.outputAudio(transcript: words)])
        written = isCut ? whole : nil
        speech = Speech(
            sentMilliseconds: times.sentMilliseconds, heardMilliseconds: end, isCut: isCut)
    }
}
