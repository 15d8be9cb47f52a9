// Reply audio that the session has given out and that did not leave for the socket: what waits was
// not heard yet, what was dropped never will be. The shell notes it; the next input begins with it.
// Where heard ends on the timeline is PlayoutTimeline's.
//
// Audio after a gap is still sent and perhaps heard. But a conversation can only be cut, not have
// a hole: it ends where the first audio was lost, so that a model takes nothing for heard that
// nobody got.
//
// Invariant: nothing here is an output; a note changes nothing before the next input.

import Codec

/// Audio that was dropped because it would have come too late.
struct LostAudio {
    let itemID: String
    /// Where in the item's audio it starts, in samples at 48 kHz.
    let position: Int
}

extension VoiceSession {
    /// To be called before an input while reply audio waits for the socket, oldest first.
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
        // What follows the first loss makes no difference.
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

    /// An item was not heard from here on. Its response says so when it is done.
    func handleLost(_ itemID: String, from milliseconds: Int) {
        if let active = activeResponse, active.words(of: itemID) != nil {
            active.noteLost(itemID, from: milliseconds)
        } else {
            cutAtHeard(itemID, milliseconds: milliseconds)
        }
    }
}
