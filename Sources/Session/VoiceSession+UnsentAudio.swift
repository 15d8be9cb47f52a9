// Reply audio that the session has emitted and that has not left for the socket. Audio that waits
// has not been heard yet, and audio that was dropped will not be. The shell reports both, and the
// next input takes them into account. PlayoutTimeline computes what was heard.
//
// Audio after a gap is still sent and perhaps heard. But an item can only be cut, it cannot have a
// hole: it ends where the first audio was lost, so that no model is shown words as heard that were
// not.
//
// Invariant: a report makes no output, and changes nothing before the next input.

import Codec

/// Audio that was dropped because it would have come too late.
struct LostAudio {
    let itemID: String
    /// Where in the item's audio it starts, in samples at 48 kHz.
    let position: Int
}

extension VoiceSession {
    /// Called before an input for each message of reply audio that waits for the socket, oldest
    /// first.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    /// - Returns: whether that is all the session must know; false: it is no audio of the
    ///   conversation's, and the next that waits is to be named.
    public func noteUnsent(itemID: String, position: Int) -> Bool {
        playout?.noteUnsent(itemID, position: position) ?? true
    }

    /// Reply audio was dropped, unasked, before any of it had left. The session wants an input soon
    /// in which to say so.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    public func noteLost(itemID: String, position: Int) {
        // Later losses in the same item make no difference.
        guard !lostAudio.contains(where: { $0.itemID == itemID }) else { return }
        lostAudio.append(LostAudio(itemID: itemID, position: position))
    }

    /// An input begins: what was noted counts.
    func settleUnsentAudio() {
        playout?.settleUnsent()
        guard !lostAudio.isEmpty else { return }
        for lost in lostAudio {
            handleLost(
                lost.itemID,
                from: SampleRate.hz48000.milliseconds(ofSamples: max(0, lost.position)))
        }
        lostAudio = []
    }

    /// An item was not heard from here on. Its response takes that into account when it is done.
    func handleLost(_ itemID: String, from milliseconds: Int) {
        if let active = activeResponse, active.words(of: itemID) != nil {
            active.noteLost(itemID, from: milliseconds)
        } else {
            cutAtHeard(itemID, milliseconds: milliseconds)
        }
    }
}
