// How the session of a call begins: with the carrier's `start`, whose parameters may choose the agent, the
// model and settings. A choice that the call may not have ends the line, with one line in the log.

import Codec
import Session

extension TelephoneFront {
    /// The call begins.
    func begin(_ start: TelephoneStart, on connection: Connection, _ host: any FrontHost) {
        // A carrier starts one call on a connection; a second start changes nothing.
        guard var seeker = takeSeeker() else { return }
        switchboard.noteBegun(at: connection.token, of: tag)
        do throws(RefusalReason) {
            seeker.take(
                try host.profile(
                    named: start.call.parameter("agent") ?? seeker.profile?.name,
                    orOfNumber: start.call.to, for: seeker.caller))
        } catch {
            refuseCall(code: "agent_not_found", param: "agent", host)
            return host.closeWebSocket(
                connection, .policyViolation, reason: "The call's agent cannot be used.")
        }
        guard let place = takePlace(of: seeker, connection, host) else { return }
        let parameters: SessionParameters
        var consent: Bool?
        do throws(ClientEventError) {
            parameters = try self.parameters(of: start, place, recordingConsent: &consent, host)
        } catch {
            host.release(place)
            refuseCall(code: error.code, param: error.param ?? "none", host)
            return host.closeWebSocket(
                connection, .policyViolation, reason: "A parameter of the call is not valid.")
        }
        begin(start)
        host.metrics.add(.callsBegun)
        let live = host.openSession(parameters, in: .ga, at: place, on: connection)
        if let writer, writer.hasQueue {
            live.session.playbackControl = writer.canPause ? .pauses : .drops
        }
        host.beginRecord(of: live.session, fence: 1, owner: place.owner, call: start.call)
        host.logger.info(
            "call",
            metadata: [
                "session": "\(live.session.id)", "carrier": "\(carrier.rawValue)",
                "call": "\(start.call.callID.visible())",
            ])
        let greeting = start.call.parameter("greeting")
        host.step(live) { $0.start(isSettled: greeting == nil, at: host.now) }
        guard !live.hasEnded else { return }
        if let consent { host.handleRecordingConsent(consent, of: live) }
        guard let greeting else { return }
        var response = ResponseParameters()
        response.instructions = greeting
        host.take(.responseCreate(response), of: live)
    }

    /// Counts and logs a call that does not begin.
    func refuseCall(code: String, param: String, _ host: any FrontHost) {
        host.metrics.add(.callsRefused)
        host.logger.warning(
            "call refused",
            metadata: ["carrier": "\(carrier.rawValue)", "code": "\(code)", "param": "\(param)"])
    }

    /// The place of the session of a call that begins. A line that may have none is closed.
    private func takePlace(
        of seeker: PlaceSeeker, _ connection: Connection, _ host: any FrontHost
    ) -> SessionPlaceHeld? {
        do throws(PlaceRefusal) {
            let place = try host.reservePlace(
                for: seeker, to: SessionParameters(model: host.defaultModel), isMoved: false)
            try host.countConnection(of: seeker, at: place)
            return place
        } catch {
            let isFull = host.answer(to: error, of: seeker).status == 503
            refuseCall(code: isFull ? "server_full" : "limit_reached", param: "none", host)
            host.closeWebSocket(
                connection, isFull ? .tryAgainLater : .policyViolation,
                reason: isFull ? "The server is full." : "A limit of the caller is reached.")
            return nil
        }
    }

    /// The session of a call, as its parameters ask for it, in the line's format.
    /// - Parameter recordingConsent: the consent that the parameters give or refuse, if they have
    ///   one.
    private func parameters(
        of start: TelephoneStart, _ place: SessionPlaceHeld, recordingConsent: inout Bool?,
        _ host: any FrontHost
    ) throws(ClientEventError) -> SessionParameters {
        var parameters = place.parameters
        if let model = start.call.parameter("model") {
            guard allowance.allows(model: model) else {
                throw ClientEventError(
                    code: "model_not_found",
                    message: "This credential does not give access to that model.",
                    param: "model")
            }
            parameters.model = model
        }
        for event in try CallSettings.events(of: start.call) {
            let (event, wishes) = try host.parseEvent(event)
            guard case .sessionUpdate(let update) = event else { continue }
            parameters = try host.sessionContext.parameters(parameters, changedBy: update)
            recordingConsent = wishes.recordingConsent ?? recordingConsent
        }
        guard parameters.kind == .realtime else {
            throw ClientEventError(
                code: "invalid_value", message: "A call is a session of type 'realtime'.",
                param: "session.type")
        }
        parameters.inputIsNumbered = false
        if let format = start.coding?.format {
            parameters.inputFormat = format
            parameters.outputFormat = format
            parameters.outputTransport = .binary
            parameters.outputModality = .audio
        } else {
            parameters.outputModality = .text
            parameters.turnDetection = nil
        }
        return parameters
    }
}
