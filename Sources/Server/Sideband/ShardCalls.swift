// Requests for one session of the server, wherever it lives: to hang it up, or to join it. The shard
// that was asked puts the question to all shards; the one that has the session acts at once, and
// the answer comes back. No shard waits for another. Other nodes are asked at the same time
// (ShardForwarding); one that has the session to be joined gets the request (ShardRelays).
//
// Invariant: a session that does not exist and one of another owner give the same answer. A key may
// reach the sessions of its own principal, an operator those of any. No other caller may ask.

import Codec
import Session

extension Shard {
    // MARK: Asking

    /// Answers a request to hang up.
    /// - Returns: the answer where it comes at once, or nil where the shards are asked.
    func beginHangup(
        _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard let route = fixtures.routes.route(at: request.path),
            let id = route.parameter(of: request.path)
        else { return RouteFailure.noSession.response }
        return ask(for: id, wish: .hangUp, request, by: caller, on: connection)
    }

    /// Answers a request to join a session.
    /// - Returns: the refusal where it comes at once, or nil where the shards are asked.
    func beginJoining(
        _ sessionID: String, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard caller.access >= .key else {
            return credentialRefusal(.insufficientCredential, on: connection)
        }
        let upgrade: WebSocketUpgrade
        let tools: [String]
        do {
            upgrade = try WebSocketHandshake.validate(request)
        } catch {
            metrics.add(.protocolErrors)
            logger.debug("bad handshake", metadata: ["rule": "\(error)"])
            return RouteFailure.response(to: error)
        }
        do throws(ClientEventError) {
            tools = try SidebandQuery.tools(of: request)
        } catch {
            return HTTPResponse(badRequest: error)
        }
        guard !isTooLate(connection) else { return fixtures.routes.stopping.response }
        guard !isShortOfMemory() else { return fixtures.routes.shortOfMemory.response }
        let client = source(of: request, on: connection).client
        if caller.isNode {
            // The node that passes the request on has counted its caller.
            releaseAddressPlace(of: connection)
        } else {
            do throws(QuotaRefusal) {
                try quotas(of: caller, at: client)?.openConnection(at: now)
            } catch {
                return refuse(error, of: client)
            }
        }
        let link = SidebandLink(observer: connection.token, tools: tools, post: postToThisShard)
        return ask(for: sessionID, wish: .join(upgrade, link), request, by: caller, on: connection)
    }

    /// Answers another node that looks for a session.
    func beginFinding(
        _ sessionID: String, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        ask(for: sessionID, wish: .find, request, by: caller, on: connection)
    }

    /// Looks for a chat's reply at the other nodes: this one has none.
    /// - Returns: the answer where it comes at once, or nil where the nodes are asked.
    func beginFinding(
        chat: String, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard asksNodes(caller), configuration.textRequests.maxResumableReplies > 0 else {
            return AwaitedCall.Wish.chat.missing
        }
        guard !sidebands.isFull else { return RouteFailure.tooManyCalls.response }
        let id = begin(
            .chat, request, by: caller, asking: 1, within: NodeRequest.wholePatience,
            on: connection)
        askNodesForPlace(of: .chat(chat), for: caller, as: id)
        return nil
    }

    /// Looks for a session at the other nodes, as the store does not say where it is. Where too much is
    /// asked, the client is to try again: its session may be there.
    /// - Returns: false: there is no other node.
    func beginFinding(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> Bool {
        let sessionID = claim.handle.sessionID
        guard asksNodes(caller), SessionQuery.isPlain(sessionID) else { return false }
        guard !sidebands.isFull else {
            answerLate(RouteFailure.tooManyCalls.response, to: request, on: connection)
            return true
        }
        let id = begin(
            .resume(claim), request, by: caller, asking: 1, within: NodeRequest.wholePatience,
            on: connection)
        askNodesForPlace(of: .session(sessionID), for: caller, as: id)
        return true
    }

    private func begin(
        _ wish: AwaitedCall.Wish, _ request: HTTPRequest, by caller: Caller, asking shards: Int,
        within patience: Duration, on connection: Connection
    ) -> CallID {
        let id = sidebands.takeID()
        sidebands.insert(
            AwaitedCall(
                id: id, wish: wish, request: request, caller: caller, token: connection.token,
                shards: shards))
        connection.http?.beginAnswer(.call(id))
        _ = deadlines.schedule(.call(id), at: now + patience)
        return id
    }

    private func ask(
        for sessionID: String, wish: AwaitedCall.Wish, _ request: HTTPRequest, by caller: Caller,
        on connection: Connection
    ) -> HTTPResponse? {
        guard caller.isNode || services.authenticator.isOn || isLocal(request, on: connection)
        else {
            return RouteFailure.loopbackOnly.response
        }
        guard !sidebands.isFull else { return RouteFailure.tooManyCalls.response }
        let shards = services.directory.all
        let asksNodes = asksNodes(caller) && SessionQuery.isPlain(sessionID)
        let id = begin(
            wish, request, by: caller, asking: shards.count + (asksNodes ? 1 : 0),
            within: asksNodes ? NodeRequest.wholePatience : AwaitedCall.patience, on: connection)
        if asksNodes, wish.isHangUp {
            askNodesToHangUp(sessionID, for: caller, as: id)
        } else if asksNodes {
            askNodesForPlace(of: .session(sessionID), for: caller, as: id)
        }
        let purpose: CallQuestion.Purpose =
            switch wish {
            case .join(_, let link): .join(link)
            case .hangUp: .hangUp
            case .find, .chat, .resume: .find
            }
        let question = CallQuestion(
            sessionID: sessionID,
            owner: caller.access == .operator
                ? nil : CallerTag(principal: caller.principal, address: .unspecified),
            purpose: purpose
        ) { [postToThisShard] in postToThisShard(.answer($0, to: id)) }
        for post in shards { post(.sideband(.ask(question))) }
        return nil
    }

    /// Posts to this shard. Any thread.
    var postToThisShard: @Sendable (SidebandMessage) -> Void {
        { [mailbox = inbox.mailbox] in mailbox.post(.sideband($0)) }
    }

    // MARK: The answer

    /// Another shard, or this one, has sent a message about calls.
    func handle(_ message: SidebandMessage) {
        switch message {
        case .ask(let question): beginSearch(question)
        case .answer(let answer, let id): handle(answer, to: id)
        case .input(let text, let link, let token):
            sidebands.inputs.append(SidebandInput(text: text, link: link, token: token))
        case .leave(let link, let token): handleLeaving(link, of: token)
        case .event(let text, let isError, let link):
            deliver(text, isError: isError, to: link)
        case .ended(let end, let link): handleEnd(end, of: link)
        }
    }

    private func handle(_ answer: CallAnswer, to id: CallID) {
        switch answer {
        case .missing:
            guard let call = sidebands.noteMissing(id) else { return }
            if case .resume(let claim) = call.wish, !call.isUncertain {
                guard let connection = connection(awaiting: call) else { return }
                connection.http?.beginServing()
                return beginAnew(claim, call.request, by: call.caller, on: connection)
            }
            reply(
                call.isUncertain ? RouteFailure.shardsAway.response : call.wish.missing, to: call)
        case .away:
            guard let call = sidebands.noteMissing(id, isUncertain: true) else { return }
            reply(RouteFailure.shardsAway.response, to: call)
        case .refused(let failure):
            guard let call = sidebands.remove(id) else { return }
            reply(failure.response, to: call)
        case .hungUp, .found:
            guard let call = sidebands.remove(id) else { return }
            reply(HTTPResponse(status: 200), to: call)
        case .elsewhere(let node):
            guard let call = sidebands.remove(id), let connection = connection(awaiting: call)
            else { return }
            connection.http?.beginServing()
            var fallback: ((Connection) -> Void)?
            if case .resume(let claim) = call.wish {
                fallback = { [self] in beginAnew(claim, call.request, by: call.caller, on: $0) }
            }
            beginRelay(
                of: call.request, to: node, for: call.caller, on: connection, otherwise: fallback)
        case .joined(let place, let link): handleJoined(place, link, sidebands.remove(id))
        }
    }

    /// The time for a question is over: a shard that has not answered may have the session.
    func endCall(_ id: CallID) {
        guard let call = sidebands.remove(id) else { return }
        // A session that is joined after this finds that its sideband has left.
        reply(RouteFailure.shardsAway.response, to: call)
    }

    /// The connection that waits for a call's answer, if it still does.
    func connection(awaiting call: AwaitedCall) -> Connection? {
        guard let connection = connections[call.token], connection.state == .http,
            connection.http?.call == call.id
        else { return nil }
        return connection
    }

    private func reply(_ response: HTTPResponse, to call: AwaitedCall) {
        guard let connection = connection(awaiting: call) else { return }
        answerLate(response, to: call.request, on: connection)
    }

    /// Answers a request that had to wait.
    func answerLate(
        _ response: HTTPResponse, to request: HTTPRequest, on connection: Connection
    ) {
        let route = fixtures.routes.route(at: request.path)
        send(share(response, with: request, of: route), to: request, on: connection)
        releaseProxiedPlace(of: connection)
        if connection.state == .http { answerWaiting(on: connection) }
    }

    // MARK: Being asked

    private func beginSearch(_ question: CallQuestion) {
        guard !sidebands.isFullOfSearches else {
            return question.answer(.refused(.tooManyCalls))
        }
        sidebands.beginSearch(question, at: now)
    }

    /// Goes on with the searches by a tick's share. A search whose call is forgotten is dropped.
    private func continueSearches() {
        guard !sidebands.searches.isEmpty else { return }
        sidebands.dropLateSearches(at: now)
        var slots = SidebandTable.slotsPerTick
        while slots > 0, !sidebands.searches.isEmpty {
            let live = sidebands.lookFurther(through: sessions, atMost: &slots)
            let isOver = sidebands.searches[0].isOver(in: sessions)
            guard live != nil || isOver else { return }
            let question = sidebands.endSearch()
            slots -= 1
            if let live {
                act(on: live, question)
            } else {
                question.answer(.missing)
            }
        }
    }

    /// Carries out a question about a session that was found.
    private func act(on live: LiveSession, _ question: CallQuestion) {
        // A session of a request over HTTP is no call. It ends by itself.
        guard textRequests[live.token] == nil,
            question.owner.map({ $0 == live.work.caller }) ?? true
        else { return question.answer(.missing) }
        switch question.purpose {
        case .hangUp:
            metrics.add(.callsHungUp)
            close(live, .normalClosure, reason: "The call was hung up.")
            question.answer(.hungUp)
        case .find: question.answer(.found)
        case .join(let link):
            join(link, to: live, answer: question.answer)
        }
    }

    /// Does the work of a tick for calls and sidebands.
    func continueSidebands() {
        continueSearches()
        handleSidebandInputs()
        settleObservations()
    }
}
