// Text turns on a shard: a request over HTTP becomes a session that makes one response, and what
// the session says becomes parts of a ReplyLog. The session is the same as behind a WebSocket, so
// its limits, its tools, its metrics and its agents are, too; it has no audio and ends with its
// response. What is sent of the reply is in ShardTextAnswers.
//
// Invariant: a turn whose reply nobody reads, and nobody can come back for, is stopped at once; one
// that can be resumed, `resume-timeout-ms` later.

import Codec
import Session

extension Shard {
    // MARK: The beginning

    /// Answers a request for a reply.
    /// - Parameter fields: of the answer, whatever it will be.
    /// - Returns: the answer where it comes at once; nil: the reply is on its way.
    func beginText(
        _ request: HTTPRequest, _ front: TextFront, by caller: Caller, fields: HTTPFields,
        on connection: Connection
    ) -> HTTPResponse? {
        if case .uiMessagesResumed = front {
            return resumeText(request, by: caller, fields: fields, on: connection)
        }
        guard !isStopping, !isTooLate(connection) else { return routes.stopping.response }
        let asked: ChatRequest
        do throws(ClientEventError) {
            asked =
                if case .chatCompletions = front {
                    try chatParser.parseChatCompletion(request.body)
                } else {
                    try chatParser.parseUIMessages(request.body)
                }
        } catch {
            metrics.add(.textRequestsInvalid)
            return HTTPResponse(badRequest: error)
        }
        guard !isShortOfMemory() else {
            metrics.add(.textRequestsRefused)
            return routes.shortOfMemory.response
        }
        let places = services.metrics
        guard places.reserve(places.textRequests, limit: configuration.maxTextTurns) else {
            metrics.add(.textRequestsRefused)
            return routes.full.response
        }
        do throws(RefusalReason) {
            let live = try makeTextSession(
                for: asked, caller, tag: tag(of: caller, sending: request, on: connection))
            metrics.add(front.metric)
            begin(asked, live, by: caller, request, fields: fields, on: connection)
            return nil
        } catch {
            places.textRequests.subtract(1, ordering: .relaxed)
            return credentialRefusal(error, on: connection)
        }
    }

    /// A session for one response, among those of its caller. What a client secret is bound to
    /// counts as for a WebSocket: whoever made it chose the model, and may have meant a session
    /// that only transcribes.
    private func makeTextSession(
        for asked: ChatRequest, _ caller: Caller, tag: CallerTag
    ) throws(RefusalReason) -> LiveSession {
        if let session = caller.session, session.kind != .realtime {
            throw .insufficientCredential
        }
        let wanted = SessionParameters(model: asked.model ?? configuration.defaultModel)
        var (parameters, grant) = try admit(caller, to: wanted)
        parameters.outputModality = .text
        parameters.turnDetection = nil
        let live = LiveSession(
            session: VoiceSession(
                parameters: parameters, context: sessionContext, seed: services.makeSessionSeed()),
            caller: tag)
        live.grant = grant
        return live
    }

    private func begin(
        _ asked: ChatRequest, _ live: LiveSession, by caller: Caller, _ request: HTTPRequest,
        fields: HTTPFields, on connection: Connection
    ) {
        let token = textRequests.reserveToken()
        let session = live.session
        let id = String(session.id.drop { $0 != "_" }.dropFirst())
        let log = ReplyLog(messageID: asked.continuedMessageID ?? "msg_" + id) {
            [reviewTextRequest] in reviewTextRequest(token)
        }
        let chat = asked.chatID.map { ChatKey(of: caller, id: $0) }
        let turn = TextRequest(
            token: token, live: live, log: log, chat: chat,
            client: source(of: request, on: connection).client, at: peerClock)
        textRequests.insert(turn)
        metrics.add(.textRequestsOpen)
        sessionLog.noteStart(of: session.id, session.parameters)
        if let chat { services.replies.insert(log, of: chat)?.review() }
        let heading = ChatCompletionWriter.Heading(
            id: "chatcmpl-" + id, created: services.wallSeconds(),
            model: session.parameters.model)
        let style: TextAnswer.Style =
            if chat != nil {
                .uiMessages(UIMessageStreamWriter(messageID: log.messageID))
            } else if asked.streams {
                .chunks(ChatCompletionWriter(heading, includesUsage: asked.includesUsage))
            } else {
                .whole(heading)
            }
        show(log, of: chat, as: style, request, fields: fields, on: connection)
        ask(asked, turn)
    }

    /// The session makes one response, outside its own conversation, which stays empty: the client
    /// keeps the conversation and sends all of it each time.
    private func ask(_ asked: ChatRequest, _ turn: TextRequest) {
        turn.live.session.start(at: now)
        drain(turn)
        // The client may have been too slow for the very first bytes.
        guard !turn.isOver else { return }
        var response = ResponseParameters()
        response.isInConversation = false
        response.input = asked.items
        response.instructions = asked.instructions
        if !asked.tools.isEmpty { response.tools = asked.tools }
        response.toolChoice = asked.toolChoice
        response.parallelToolCalls = asked.parallelToolCalls
        response.maxOutputTokens = asked.maxOutputTokens.map { .value($0) } ?? .null
        turn.live.session.handle(
            .responseCreate(response), eventID: nil, audio: RawSpan(), at: now)
        drain(turn)
    }

    /// Shows a reply that is on its way, or complete and not yet delivered, from its beginning.
    private func resumeText(
        _ request: HTTPRequest, by caller: Caller, fields: HTTPFields, on connection: Connection
    ) -> HTTPResponse? {
        let id = routes.route(at: request.path)?.parameter(of: request.path)
        let key = id.map { ChatKey(of: caller, id: $0) }
        guard let chat = key, let log = services.replies.log(of: chat)
        else { return HTTPResponse(status: 204) }
        metrics.add(.textRepliesResumed)
        let style = TextAnswer.Style.uiMessages(UIMessageStreamWriter(messageID: log.messageID))
        show(log, of: chat, as: style, request, fields: fields, on: connection)
        log.review()
        return nil
    }

    // MARK: The reply

    /// Hands something that an agent produced to the turn that still wants it.
    func handleTextDelivery(_ delivery: AgentDelivery) {
        guard let turn = textRequests[delivery.token], !turn.isOver,
            turn.live.work.accepts(serial: delivery.serial)
        else { return }
        turn.live.session.handle(delivery.event, at: now)
        drain(turn)
        agentLink.handleDelivered(delivery, work: &turn.live.work)
        if textRequests[turn.token] != nil { settle(turn) }
    }

    /// Does what the turn's session wants done, and lets its readers have what is new.
    private func drain(_ turn: TextRequest) {
        var waiters: [ReplyLog.Waiter] = []
        turn.lastActive = peerClock
        while let output = turn.live.session.nextOutput() {
            switch output {
            case .event(let event):
                sessionLog.note(event, of: turn.live.session.id)
                turn.live.noteTurn(event)
                for part in turn.parts(of: event) { waiters += turn.log.append(part) }
            case .command(let command) where !turn.isOver:
                agentLink.perform(command, for: turn.token, work: &turn.live.work)
            case .measured(let hop, let duration): metrics.observe(hop.histogram, duration)
            case .answered(let delay): turn.live.lastTurn.note(.firstToken, delay)
            case .failed(let fault):
                note(fault, of: turn.live.session)
                let error = ServerEvent.error(
                    ClientEventError(
                        kind: .server, code: "session_failed", message: "The session has failed."))
                for part in turn.parts(of: error) { waiters += turn.log.append(part) }
            case .command, .audio, .dropAudio, .dropItemAudio: break
            }
        }
        // Only now: a reader that is done may go on with its next request, and another session.
        for waiter in waiters {
            if waiter.reader.shard == services.index {
                continueAnswer(of: waiter.reader.token)
            } else {
                waiter.wake(waiter.reader.token)
            }
        }
        review(turn)
    }

    // MARK: Its life

    /// Looks at a turn whose readers have come, gone, or gone on.
    func reviewTextRequest(at token: EventToken) {
        if let turn = textRequests[token] { review(turn) }
    }

    private func review(_ turn: TextRequest) {
        let status = turn.log.status
        if status.isOver, !turn.isOver { finish(turn) }
        if !turn.isOver { pace(turn, status) }
        if status.readers > 0 {
            turn.expiry = nil
        } else if !isKept(turn) {
            return remove(turn)
        } else if turn.expiry == nil {
            turn.expiry = now + configuration.resumeTimeout
        }
        settle(turn)
        arm(turn)
    }

    /// Whether somebody may come back for a turn's reply.
    private func isKept(_ turn: TextRequest) -> Bool {
        guard let chat = turn.chat, configuration.resumeTimeout > .zero, !isStopping
        else { return false }
        return services.replies.holds(turn.log, of: chat)
    }

    /// Holds the model up while nobody reads what it has written, and lets it go on.
    private func pace(_ turn: TextRequest, _ status: ReplyLog.Status) {
        let limit = configuration.maxUnreadReplyBytes
        // Half, so that a reader at the limit does not stop and start the model at every part.
        let isTooMuch = status.unreadBytes > (turn.isHeldUp ? limit / 2 : limit)
        guard isTooMuch != turn.isHeldUp else { return }
        turn.isHeldUp = isTooMuch
        turn.log.setHeldUp(isTooMuch)
        gate.assumeIsolated { [token = turn.token] in
            if isTooMuch { $0.hold(token) } else { $0.release(token) }
        }
    }

    private func arm(_ turn: TextRequest) {
        let session = turn.isOver ? nil : turn.live.session.nextDeadline(after: now)
        let grantEnd = turn.isOver ? nil : turn.live.grant?.end
        guard let due = [session, grantEnd, turn.expiry].compactMap(\.self).min() else {
            turn.deadline.take().map { _ = deadlines.cancel($0) }
            return
        }
        if let deadline = turn.deadline {
            deadlines.reschedule(deadline, at: due)
        } else {
            turn.deadline = deadlines.schedule(.textRequest(turn.token), at: due)
        }
    }

    /// A turn's deadline has come: its session's, or nobody came back for its reply.
    func handleTextDeadline(_ token: EventToken) {
        guard let turn = textRequests[token] else { return }
        turn.deadline = nil
        if let expiry = turn.expiry, expiry <= now {
            if turn.log.status.readers == 0 { return remove(turn) }
            // Somebody is back; the note of it is on its way.
            turn.expiry = nil
        }
        guard !turn.isOver else { return arm(turn) }
        if let end = turn.live.grant?.end, end <= now {
            metrics.add(.sessionsExpired)
            turn.live.session.handle(
                ClientEventError(
                    code: "session_expired",
                    message: "The turn has lasted as long as its credential allows."),
                at: now)
        } else {
            turn.live.session.handleDeadline(at: now)
        }
        drain(turn)
    }

    /// The work is done; the reply may still be wanted.
    private func finish(_ turn: TextRequest) {
        turn.isOver = true
        agentLink.stopAll(&turn.live.work)
        turn.live.grant = nil
        if turn.isHeldUp {
            turn.isHeldUp = false
            gate.assumeIsolated { [token = turn.token] in $0.release(token) }
        }
        if let chat = turn.chat { services.replies.handleComplete(turn.log, of: chat) }
        sessionLog.noteEnd(of: turn.live.session.id)
        metrics.add(.textRequestsOpen, -1)
        services.metrics.textRequests.subtract(1, ordering: .relaxed)
    }

    /// Forgets a turn, which ends with it where it is not over.
    func remove(_ turn: TextRequest) {
        if !turn.isOver {
            metrics.add(.textRequestsAbandoned)
            finish(turn)
            // A reader of another shard may just have found the log: it must see an end.
            let end = ReplyPart.failed(
                code: "reply_stopped", message: "The reply was stopped.", isRequestError: false)
            for waiter in turn.log.append(end) { waiter.wake(waiter.reader.token) }
        }
        if let chat = turn.chat { services.replies.remove(turn.log, of: chat) }
        turn.deadline.take().map { _ = deadlines.cancel($0) }
        refund(turn)
        textRequests.remove(turn)
    }

    /// Ends a turn that holds too much. Who reads it is told so.
    func evict(_ turn: TextRequest, _ reason: EvictionReason) {
        for waiter in turn.log.append(reason.failure) { waiter.wake(waiter.reader.token) }
        review(turn)
    }

    /// Ends every turn; the shard is stopping.
    func stopTextRequests() {
        for turn in textRequests.all { remove(turn) }
    }
}

extension TextRequest {
    /// What an event of the session means for the reply.
    fileprivate func parts(of event: ServerEvent) -> [ReplyPart] {
        switch event {
        case .responseOutputTextDelta(let address, let delta):
            return [.text(message: address.outputIndex, delta)]
        case .responseOutputItemAdded(_, let index, let item):
            guard case .functionCall(let callID, let name, _) = item.kind else { return [] }
            calls.append(index)
            return [.callStarted(call: calls.count - 1, callID: callID, name: name)]
        case .responseFunctionCallArgumentsDelta(let address, _, let delta):
            guard let call = calls.firstIndex(of: address.outputIndex) else { return [] }
            return [.callArguments(call: call, delta)]
        case .responseOutputItemDone(_, let index, let item):
            guard case .functionCall(let callID, let name, let arguments) = item.kind,
                item.status == .completed, let call = calls.firstIndex(of: index)
            else { return [] }
            return [.callFinished(call: call, callID: callID, name: name, arguments: arguments)]
        case .responseDone(let response):
            // Tools of MCP servers were called: the session has asked the model again.
            let callsClient = response.output.contains {
                if case .functionCall = $0.kind { true } else { false }
            }
            if case .completed = response.status, !callsClient, !live.session.isIdle { return [] }
            return [Self.end(of: response)]
        // As in a session of voice, a server that cannot be reached does not cost the reply.
        case .error(let error) where error.code == "mcp_list_tools_failed": return []
        case .error(let error):
            return [
                .failed(
                    code: error.code, message: error.message,
                    isRequestError: error.kind == .invalidRequest)
            ]
        default: return []
        }
    }

    private static func end(of response: ResponseDescription) -> ReplyPart {
        let usage = response.usage ?? ResponseUsage()
        switch response.status {
        case .completed, .inProgress: return .finished(.stop, usage)
        case .incomplete(reason: "content_filter"): return .finished(.contentFilter, usage)
        case .incomplete: return .finished(.length, usage)
        case .cancelled: return .finished(.cancelled, usage)
        case .failed(_, let code, let message):
            return .failed(code: code, message: message, isRequestError: false)
        }
    }
}

extension TextFront {
    fileprivate var metric: ShardMetric {
        switch self {
        case .chatCompletions: .textRequestsChatCompletions
        case .uiMessages, .uiMessagesResumed: .textRequestsUIMessages
        }
    }
}
