// What is checked at the end of every input. SessionFault lists the invariants.

extension VoiceSession {
    /// Called at the end of every input: a few comparisons of counts.
    func checkInvariants() {
        guard let fault = brokenInvariant else { return }
        context.handle(fault)
    }

    private var brokenInvariant: SessionFault? {
        if responses.count(where: { $0.isInConversation }) > 1 { return .severalActiveResponses }
        if responses.count > context.limits.maxActiveResponses { return .tooManyResponses }
        if userTurn.awaited.count > context.limits.maxAwaitedTranscripts {
            return .tooManyTranscripts
        }
        if retrievals.count > Self.maxRetrievals { return .tooManyRetrievals }
        if playback?.isBroken == true { return .holdWithoutSpeech }
        return nil
    }
}
