// Text requests on a shard: a request over HTTP becomes a session that makes one response, and the
// session's events become parts of a ReplyLog. The session is the same as behind a WebSocket, and
// so are its limits, tools, metrics and agents; it has no audio and ends with its response. The
// life of a request is decided in TextRequests and performed here; ShardTextAnswers sends the
// reply.

import Codec
import Session

extension Shard {
    // MARK: The beginning

    /// Answers a request for a reply.
    /// - Parameter fields: the fields that the answer gets in any case.
    /// - Returns: the answer where it comes at once, or nil where the reply is on its way.
    func beginText(
        _ request: HTTPRequest, _ front: TextFront, by caller: Caller, fields: HTTPFields,
        on connection: Connection
    ) -> HTTPResponse? {
        if case .uiMessagesResumed = front {
            if request.method == .delete { return stopText(request, by: caller, on: connection) }
            return resumeText(request, by: caller, fields: fields, on: connection)
        }
        guard !shutdown.isStopping, !isTooLate(connection) else {
            return fixtures.routes.stopping.response
        }
        let asked: ChatRequest
        do throws(ClientEventError) {
            asked =
                if case .chatCompletions = front {
                    try textRequests.parser.parseChatCompletion(request.body)
                } else {
                    try textRequests.parser.parseUIMessages(request.body)
                }
        } catch {
            metrics.add(.textRequestsInvalid)
            return HTTPResponse(badRequest: error)
        }
        guard !isShortOfMemory() else {
            metrics.add(.textRequestsRefused)
            return fixtures.routes.shortOfMemory.response
        }
        let places = services.metrics
        guard places.reserve(places.textRequests, limit: configuration.textRequests.maxRequests)
        else {
            metrics.add(.textRequestsRefused)
            return fixtures.routes.full.response
        }
        var profile: AgentProfile?
        do throws(RefusalReason) {
            let client = source(of: request, on: connection).client
            profile = try self.profile(namedBy: request, for: caller)
            let (session, grant) = try makeTextSession(
                for: asked, of: profile, caller.limited(by: profile), at: client)
            // A request that can have no reply now is refused before its answer begins.
            if let refusal = grant?.quotas?.objectionToTurn(at: now) {
                places.textRequests.subtract(1, ordering: .relaxed)
                return refuse(refusal, of: client)
            }
            metrics.add(front.metric)
            let live = register(
                session, of: tag(of: caller, sending: request, on: connection), grant: grant)
            begin(
                asked, of: profile?.agent, live, by: caller, request, fields: fields,
                on: connection)
            return nil
        } catch {
            places.textRequests.subtract(1, ordering: .relaxed)
            return credentialRefusal(error, agent: profile?.name, on: connection)
        }
    }

    /// Makes a session for one response, which counts among those of its caller and of its agent. A
    /// client secret is bound to a model here as on a WebSocket; one that is bound to a transcription
    /// session has no responses. An agent's greeting and silence rules do not apply: there is no user on
    /// a line.
    private func makeTextSession(
        for asked: ChatRequest, of profile: AgentProfile?, _ caller: Caller,
        at client: NetworkAddress
    ) throws(RefusalReason) -> (VoiceSession, SessionGrant?) {
        if let session = caller.session, session.kind != .realtime {
            throw .insufficientCredential
        }
        let wanted = SessionParameters(model: asked.model ?? configuration.defaultModel)
        let (parameters, grant) = try admit(
            caller, at: client, to: self.parameters(wanted, of: profile))
        return (makeTextSession(parameters), grant)
    }

    /// Makes a session that neither hears nor speaks.
    func makeTextSession(_ asked: SessionParameters) -> VoiceSession {
        var parameters = asked
        parameters.outputModality = .text
        parameters.turnDetection = nil
        return VoiceSession(
            parameters: parameters, context: sessionContext, seed: services.makeSessionSeed())
    }

    private func begin(
        _ asked: ChatRequest, of agent: SessionAgent?, _ live: LiveSession, by caller: Caller,
        _ request: HTTPRequest, fields: HTTPFields, on connection: Connection
    ) {
        let session = live.session
        let id = String(session.id.drop { $0 != "_" }.dropFirst())
        let log = makeLog(of: live, messageID: asked.continuedMessageID ?? "msg_" + id)
        let chat = asked.chatID.map { ChatKey(of: caller, id: $0) }
        live.work.explainsFailures = mayKnowCauses(caller, request, on: connection)
        let textRequest = TextRequest(
            live: live, log: log, chat: chat,
            client: source(of: request, on: connection).client, stopWords: asked.stopWords,
            at: peerClock)
        insert(textRequest)
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
        ask(response(to: asked, of: agent), of: textRequest)
    }

    /// Makes the log of a reply.
    func makeLog(of live: LiveSession, messageID: String = "") -> ReplyLog {
        ReplyLog(messageID: messageID) {
            [reviewTextRequest, token = live.token] in reviewTextRequest(token)
        }
    }

    private func insert(_ request: TextRequest) {
        textRequests.insert(request)
        metrics.set(.textRequestsOpen, to: textRequests.openCount)
        let session = request.live.session
        journal.sessionLog.noteStart(of: session.id, session.parameters)
    }

    /// Begins a request with its deadline, which is due at once: the outputs of another session may be
    /// about to be taken.
    func beginLater(_ request: TextRequest) {
        insert(request)
        settle(request)
        schedule(request, at: now)
    }

    /// The session makes one response, outside its own conversation. That stays empty, because the request
    /// has brought all of the conversation.
    private func ask(_ response: ResponseParameters, of request: TextRequest) {
        step(request.live) { $0.start(at: now) }
        // The client may have been too slow for the very first bytes.
        guard !request.isOver else { return }
        take(.responseCreate(response), of: request.live)
    }

    private func response(to asked: ChatRequest, of agent: SessionAgent?) -> ResponseParameters {
        var response = ResponseParameters()
        response.isInConversation = false
        response.input = asked.items
        response.instructions = asked.instructions
        if !asked.tools.isEmpty { response.tools = asked.tools }
        if asked.toolChoice != .auto { response.toolChoice = asked.toolChoice }
        response.parallelToolCalls = asked.parallelToolCalls
        response.maxOutputTokens = asked.maxOutputTokens.map { .value($0) } ?? .absent
        return agent?.limit(response) ?? response
    }

    /// Shows a reply that is on its way, or complete and not yet delivered, from its beginning.
    private func resumeText(
        _ request: HTTPRequest, by caller: Caller, fields: HTTPFields, on connection: Connection
    ) -> HTTPResponse? {
        guard let id = fixtures.routes.route(at: request.path)?.parameter(of: request.path) else {
            return HTTPResponse(status: 204)
        }
        let chat = ChatKey(of: caller, id: id)
        guard let log = services.replies.log(of: chat) else {
            return beginFinding(chat: id, request, by: caller, on: connection)
        }
        // The node that passes the request on has counted its client.
        if caller.isNode { releaseAddressPlace(of: connection) }
        metrics.add(.textRepliesResumed)
        let style = TextAnswer.Style.uiMessages(UIMessageStreamWriter(messageID: log.messageID))
        show(log, of: chat, as: style, request, fields: fields, on: connection)
        log.review()
        return nil
    }

    /// Ends the reply of a chat that is on its way. The words so far can still be resumed. Where no
    /// reply is on its way, there is nothing to do: it may have ended while the client asked.
    private func stopText(
        _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard let id = fixtures.routes.route(at: request.path)?.parameter(of: request.path) else {
            return HTTPResponse(status: 204)
        }
        guard let log = services.replies.log(of: ChatKey(of: caller, id: id)) else {
            return beginFinding(chat: id, request, by: caller, on: connection)
        }
        if caller.isNode { releaseAddressPlace(of: connection) }
        log.askToStop()
        return HTTPResponse(status: 204)
    }

    // MARK: The reply

    /// The session has had an input, and its outputs are taken: wakes the readers of its reply.
    func finishStep(of request: TextRequest) {
        request.lastActive = peerClock
        if let stopped = request.takeStoppedResponse() {
            return take(.responseCancel(responseID: stopped), of: request.live)
        }
        // Only now: a reader that is done may go on with its next request, and another session.
        for waiter in request.takeWaiters() {
            if waiter.reader.shard == services.index {
                continueAnswer(of: waiter.reader.token)
            } else {
                waiter.wake(waiter.reader.token)
            }
        }
        review(request)
    }

    // MARK: Its life

    /// Reviews a request whose readers have come, gone, or read.
    func reviewTextRequest(at token: EventToken) {
        guard let request = textRequests[token] else { return }
        if request.log.status.isStopWanted { stop(request) }
        review(request)
    }

    private func review(_ request: TextRequest) {
        guard textRequests[request.token] != nil else { return }
        let actions = textRequests.review(
            request, request.log.status, at: now, canBeResumed: canBeResumed(request))
        perform(actions, for: request)
    }

    /// Whether a client can come back for a request's reply.
    private func canBeResumed(_ request: TextRequest) -> Bool {
        guard let chat = request.chat, !shutdown.isStopping else { return false }
        return services.replies.contains(request.log, of: chat)
    }

    /// The deadline of a request has passed.
    func handleTextDeadline(of request: TextRequest) {
        request.deadline = nil
        if let question = request.afterCall?.takeQuestion() { return ask(question, of: request) }
        let readers = request.log.status.readers
        switch textRequests.handleDeadline(of: request, readers: readers, at: now) {
        case .reply(let actions): return perform(actions, for: request)
        case .credential where request.isAwaited:
            request.end(.afterCallTimeout)
            review(request)
        case .credential:
            metrics.add(.sessionsExpired)
            step(request.live) { $0.handle(.requestExpired, at: now) }
        case .session: step(request.live) { $0.handleDeadline(at: now) }
        }
    }

    /// Removes a request. Its work ends with it, where it is not done.
    func remove(_ request: TextRequest) { perform(textRequests.remove(request), for: request) }

    /// Ends a request that uses too much memory. Its readers get the reason.
    func evict(_ request: TextRequest, _ reason: EvictionReason) {
        request.end(reason.failure)
        review(request)
    }

    /// Ends a reply where it is now, as its client has asked.
    private func stop(_ request: TextRequest) {
        request.end(.finished(.cancelled, ResponseUsage()))
    }

    /// Ends every request; the shard is stopping.
    func stopTextRequests() {
        for request in textRequests.all { remove(request) }
    }

    // MARK: Actions

    /// Performs the actions of TextRequests: the only place where a request touches agents, replies,
    /// deadlines and ledgers. The work ends first, so that a model that is resumed finds itself
    /// cancelled; the reply breaks off before it is forgotten, so that each reader sees an end.
    private func perform(_ actions: TextRequestActions, for request: TextRequest) {
        if actions.contains(.endWork) { endWork(of: request) }
        if actions.contains(.pauseModel) { setModelPaused(true, of: request) }
        if actions.contains(.resumeModel) { setModelPaused(false, of: request) }
        if actions.contains(.breakOff) { breakOff(request) }
        if actions.contains(.remove) { return forget(request) }
        guard actions.contains(.update) else { return }
        settle(request)
        schedule(request, at: textRequests.deadline(of: request, after: now))
    }

    private func endWork(of request: TextRequest) {
        request.live.hasEnded = true
        agents.link.stopAll(&request.live.work)
        request.live.chargeUnfinishedReplies(at: now)
        request.live.grant = nil
        if let chat = request.chat { services.replies.handleComplete(request.log, of: chat) }
        journal.sessionLog.noteEnd(of: request.live.session.id)
        metrics.set(.textRequestsOpen, to: textRequests.openCount)
        services.metrics.textRequests.subtract(1, ordering: .relaxed)
    }

    private func setModelPaused(_ isPaused: Bool, of request: TextRequest) {
        request.log.setModelPaused(isPaused)
        agents.gate.assumeIsolated { [token = request.token] in
            if isPaused { $0.suspend(token) } else { $0.resume(token) }
        }
    }

    private func breakOff(_ request: TextRequest) {
        metrics.add(.textRequestsAbandoned)
        request.end(
            .failed(
                code: "reply_stopped", message: "The reply was stopped.", isRequestError: false))
    }

    private func forget(_ request: TextRequest) {
        if let chat = request.chat { services.replies.remove(request.log, of: chat) }
        schedule(request, at: nil)
        memory.ledgers.refund(request.charge)
        sessions.remove(request.live)
        if let afterCall = request.afterCall { keepAnswer(in: request.log.parts, to: afterCall) }
    }

    private func schedule(_ request: TextRequest, at due: Instant?) {
        guard let due else {
            request.deadline.take().map { _ = deadlines.cancel($0) }
            return
        }
        if let deadline = request.deadline {
            deadlines.reschedule(deadline, at: due)
        } else {
            request.deadline = deadlines.schedule(.session(request.token), at: due)
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
