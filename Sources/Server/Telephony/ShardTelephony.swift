// Telephone lines on a shard's connections: a carrier's request for a WebSocket becomes a line, whose front
// (TelephoneFront) begins the session with the call.

import Codec
import Session

extension Shard {
    /// A carrier asks for a WebSocket. The session begins with the call, and takes its place then: a
    /// line without a call keeps no session out. A server without a place refuses the request, so that
    /// the carrier calls another.
    func answerCall(
        _ request: HTTPRequest, from carrier: TelephoneCarrier, by caller: Caller,
        on connection: Connection
    ) {
        guard let upgrade = validUpgrade(of: request, on: connection) else { return }
        var seeker = seeker(of: request, by: caller, on: connection)
        do throws(PlaceRefusal) {
            seeker.profile = try profile(askedForBy: request, for: caller)
            // The limits of this agent count for the line only if the call names no other.
            var limited = seeker
            limited.take(seeker.profile)
            release(try reservePlace(for: limited, to: SessionParameters(model: defaultModel)))
        } catch {
            return send(answer(to: error, of: seeker), to: request, on: connection)
        }
        let front = TelephoneFront(carrier, seeker: seeker, on: clients.switchboard)
        accept(upgrade, as: .front, selecting: front.subprotocol, on: connection)
        guard connection.state == .webSocket else { return }
        endOldestUnbegun(of: seeker)
        clients.fronts[connection.token] = front
        clients.switchboard.noteLine(at: connection.token, of: seeker.tag)
        metrics.add(.callsOpen)
        perform([.settle, .rearm], on: connection)
    }

    /// The agent that the URL of a line names. Nil where it names none, so that the call may name
    /// one.
    private func profile(
        askedForBy request: HTTPRequest, for caller: Caller
    ) throws(PlaceRefusal) -> AgentProfile? {
        guard let name = request.queryValue("agent"), !name.isEmpty else { return nil }
        do throws(RefusalReason) { return try profile(named: name, for: caller) } catch {
            throw .credential(error)
        }
    }

    /// Ends the oldest line without a call for the next one, because a caller may have only a few
    /// of them.
    private func endOldestUnbegun(of seeker: PlaceSeeker) {
        guard let oldest = clients.switchboard.unbegun.beyondShare(of: seeker.tag),
            let connection = connections[oldest]
        else { return }
        logger.info(
            "line without a call closed",
            metadata: ["reason": "too many of one caller", "most": "\(Switchboard.mostUnbegun)"])
        closeWebSocket(connection, .tryAgainLater, reason: "Too many lines without a call.")
    }
}
