// The listeners of a session's events, in this order:
//
//   its account   the times of its turns, and the quotas of its caller
//   the store     what has changed, for a client that comes back elsewhere
//   the record    what has changed, for the keeper of records
//   the log       failures, and with `log-content` the words
//   sidebands     applications and operators that have joined; they decide what its client is shown
//   its client    the reader of a reply over HTTP, or a front
//
// Invariant: each listener is called here and nowhere else. A new one is a line in `show`, and a
// line in `play` if audio concerns it.

import Codec
import Session

extension Shard {
    /// Shows an event of a session to all who listen.
    func show(_ event: ServerEvent, of live: LiveSession) {
        live.noteTurn(event, at: now)
        live.resume?.stored?.note(event, at: now)
        live.session.recorder?.note(event, hops: { live.lastTurn[$0] }, at: now)
        journal.sessionLog.note(event, of: live.session.id)
        guard live.isObserved else { return send(event, of: live) }
        if let shown = observe(event, of: live) { send(shown, of: live) }
    }

    /// Plays audio of a reply to all who listen. It uses up a number of an event, whatever its form is.
    func play(_ packet: OutputAudioPacket, of live: LiveSession) {
        live.resume?.stored?.noteProgress(packet.itemID, at: now)
        live.session.recorder?.note(packet.itemID, at: now)
        send(live.isObserved ? observe(packet, of: live) : packet, of: live)
        live.eventNumber += 1
    }
}
