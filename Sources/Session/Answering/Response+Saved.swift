// A response at the end of a process and at the beginning of another: the state that is saved while
// it is in flight, and a response that speaks known words. Response has its life in between.
//
// Invariant: an item is saved as its done events would show it now.

import Codec

extension Response {
    /// An item that is not complete, as it is now. Nil where it is complete, or there is no such
    /// item.
    func saved(_ itemID: String) -> SavedItem? {
        guard let index = outputs.lastIndex(where: { $0.item.id == itemID }),
            !outputs[index].isComplete
        else { return nil }
        var output = outputs[index]
        output.complete(.inProgress)
        guard output.isAudio else { return SavedItem(item: output.item) }
        return SavedItem(item: output.item, speech: sender.said(index, isCutOff: true))
    }

    /// Adds the response that is to follow this one in another process, and the items of which
    /// words are not sent yet.
    func describe(into reply: inout UnheardReply) {
        guard stage != .done else { return }
        reply.itemIDs = outputs.map(\.item.id)
        reply.isWritten = stage == .speaking
        reply.incompleteReason = incompleteReason
        reply.hasToolResults = outputs.contains { $0.toolCall != nil }
        reply.overrides = parameters
        reply.usage = usage
        reply.isSpoken = outputs.indices.contains {
            outputs[$0].isAudio && sender.sentMilliseconds($0) > 0
        }
        // An item that the client has silenced stays silent.
        reply.parts.removeAll { part in
            outputs.contains { $0.item.id == part.itemID && $0.cut != nil }
        }
        guard !sender.isMuted else { return }
        for (index, output) in outputs.enumerated()
        where output.isAudio && !output.isComplete && output.cut == nil {
            guard !reply.parts.contains(where: { $0.itemID == output.item.id }) else { continue }
            reply.parts.append(
                UnheardReply.Part(
                    itemID: output.item.id, heard: sender.sentMilliseconds(index)))
        }
    }

    /// Says words that are known, without a model.
    /// - Parameter incompleteReason: why there are no more, where there should be.
    func say(_ words: String, incompleteReason: String?, at now: Instant) {
        guard stage == .waiting else { return }
        failUnlessSpeakable()
        guard stage == .waiting else { return }
        handleAsked()
        handle(.text(words), at: now)
        if let incompleteReason { handle(.incomplete(reason: incompleteReason), at: now) }
        handleModelFinished(at: now)
    }
}
