// A session that goes on where another process has left it. The conversation, the settings and the
// texts of agents are as they were. The work that was in flight is settled:
//
// - A reply that was heard in part ends there, and the rest of its model's words is spoken. It is
//   `completed` where the model had finished, otherwise `incomplete` (`interrupted_by_restart`).
// - A reply that was not heard at all is spoken completely where the model had finished. Otherwise
//   its model is asked again.
// - Calls of tools that were in flight have failed, and the model sees that they have.
// - Words that were being recognised are lost, and an event to the client says so.
//
// Invariant: a word that was heard is not spoken again, except the one that was being spoken.

import Codec

extension SessionContext {
    /// The settings of a saved session, checked as an update of a client is.
    func parameters(restoring saved: SavedSession) throws(SavedSessionError) -> SessionParameters {
        do throws(ClientEventError) {
            try checkToolServers(saved.parameters.mcpTools, path: "session.tools")
            let hasTurnDetection = saved.parameters.turnDetection != nil
            guard !hasTurnDetection || voiceActivityModel != nil else {
                throw .turnDetectionUnavailable
            }
            return try parameters(saved.parameters, changedBy: SessionUpdate())
        } catch {
            throw .settings(error)
        }
    }
}

extension VoiceSession {
    /// Resumes the session for the client that has come. Called once, instead of `start(at:)`, for
    /// a session that was made from the same state.
    /// - Parameters:
    ///   - played: the audio that the client has. The default is the estimate made when the state
    ///     was saved.
    ///   - announcesItems: whether the client gets all items anew, or only the changes.
    public func startRestored(
        _ saved: SavedSession, played: PlayedAudio?, announcesItems: Bool, at now: Instant
    ) {
        begin(at: now)
        let reply = saved.reply ?? UnheardReply()
        let parts = unheardParts(reply.parts, played)
        let isLost = isToBeAskedAgain(reply, parts, saved)
        if isLost { forgetUnspoken(of: reply, announces: !announcesItems) }
        let rest = cut(
            isLost ? parts.filter { !reply.itemIDs.contains($0.itemID) } : parts,
            announces: !announcesItems)
        let hasLostCall = settleItems(announces: !announcesItems)
        if announcesItems { announceItems() } else { endLostResponses(of: saved) }
        announceLostWords(saved.awaitedIDs)
        if !parameters.mcpTools.isEmpty { madeTools().handleUpdate(at: now) }
        if saved.isQuiet {
            userTurn.beginQuiet(at: now, now: now, position: speechInput?.buffer.end ?? 0)
        }
        goOn(
            with: reply, rest: rest, asksAgain: isLost,
            isOwed: saved.isTurnUnanswered || hasLostCall, at: now)
        finish(at: now)
    }

    /// Whether nothing of the reply in flight was heard and its model had not finished, so that the
    /// model is asked again. It is not asked where words of the user are lost that it was to
    /// answer, because the answer would be a guess, and not where the client has to answer a call
    /// first.
    private func isToBeAskedAgain(
        _ reply: UnheardReply, _ parts: [UnheardReply.Part], _ saved: SavedSession
    ) -> Bool {
        guard let unfinished = saved.reply, !unfinished.isWritten else { return false }
        guard saved.awaitedIDs.isEmpty || reply.overrides.input != nil else { return false }
        // Items that are not among the parts were heard completely.
        return reply.itemIDs.allSatisfy { itemID in
            if let call = conversation.item(itemID), case .functionCall = call.kind {
                return call.status != .completed
            }
            guard let (text, speech) = conversation.words(of: itemID) else { return true }
            let known = speech.knownMilliseconds
            let heard = parts.first { $0.itemID == itemID }?.heard ?? known
            return Conversation.heard(
                text, marks: speech.marks, audioMilliseconds: min(heard, known)
            ).isEmpty
        }
    }

    /// The model is asked again. The messages of its unheard reply leave the conversation, and
    /// calls that are complete stay.
    private func forgetUnspoken(of reply: UnheardReply, announces: Bool) {
        for itemID in reply.itemIDs {
            guard let item = conversation.item(itemID), case .message = item.kind,
                item.status != .completed || conversation.words(of: itemID) != nil
            else { continue }
            _ = try? conversation.remove(itemID)
            if announces { emit(.conversationItemDeleted(itemID: itemID)) }
        }
    }

    /// Gives items that were in progress their final form.
    /// - Returns: whether a call of a tool was among them.
    private func settleItems(announces: Bool) -> Bool {
        var previousItemID: String?
        var hasLostCall = false
        for itemID in conversation.itemIDs {
            defer { previousItemID = itemID }
            guard var saved = conversation.saved(itemID), saved.item.status == .inProgress
            else { continue }
            if case .mcp(.call) = saved.item.kind {
                saved.item.finishCall(
                    .failure(.execution(message: "The server restarted during the call.")))
                hasLostCall = true
            } else {
                saved.item.status = .incomplete
            }
            conversation.update(saved.item, speech: saved.speech)
            guard announces else { continue }
            emit(.conversationItemDone(saved.item, previousItemID: previousItemID))
        }
        return hasLostCall
    }

    /// The client that keeps its items waits for the end of the responses that it has seen begin.
    private func endLostResponses(of saved: SavedSession) {
        var aside = ResponseParameters()
        aside.isInConversation = false
        let lost =
            (saved.responseID.map { [describe(saved.reply?.overrides ?? .init(), as: $0)] } ?? [])
            + saved.otherResponseIDs.map { describe(aside, as: $0) }
        for var description in lost {
            description.status = .incomplete(reason: "interrupted_by_restart")
            description.usage = ResponseUsage()
            if let reply = saved.reply, description.id == saved.responseID {
                description.output = reply.itemIDs.compactMap(conversation.item)
                description.usage = reply.usage
            }
            emit(.responseDone(description))
        }
    }

    private func announceLostWords(_ itemIDs: [String]) {
        guard parameters.transcription != nil else { return }
        for itemID in itemIDs where conversation.item(itemID) != nil {
            emit(
                .transcriptionFailed(
                    itemID: itemID, contentIndex: 0, code: "interrupted_by_restart",
                    message: "The server restarted before these words were recognised."))
        }
    }

    /// Connects the MCP servers that a response has named, where sessions may name them.
    private func openServers(of overrides: ResponseParameters, at now: Instant) {
        guard let named = overrides.mcpTools,
            (try? context.checkToolServers(named, path: "response.tools")) != nil
        else { return }
        for tool in named { madeTools().open(tool, isOfSession: false, at: now) }
    }

    /// Speaks the rest of the reply, and asks the model where it has something to answer.
    private func goOn(
        with reply: UnheardReply, rest: String, asksAgain: Bool, isOwed: Bool, at now: Instant
    ) {
        say(
            rest, overrides: reply.overrides,
            incompleteReason: reply.isWritten || asksAgain
                ? reply.incompleteReason : "interrupted_by_restart", at: now)
        guard parameters.kind == .realtime else { return }
        if asksAgain, canRespond {
            openServers(of: reply.overrides, at: now)
            begin(reply.overrides, speechEnd: nil)
        } else if asksAgain || isOwed || reply.hasToolResults {
            // The model answers as soon as the rest is spoken.
            userTurn.handleWords(endingAt: now)
        }
    }
}
