// The words of the speech in progress: the session asks for them, shows them to the client, and
// makes the transcript of them when the turn ends. PartialTranscript decides when to ask.

import Codec

extension VoiceSession {
    /// Asks for the words so far, where that is due.
    func hypothesize(_ speechInput: SpeechInput) {
        dropOutdatedSpeculation(speechInput)
        guard context.makesHypotheses, let itemID = speechInput.speechItemID,
            let next = speechInput.nextHypothesis(
                showsWords: parameters.transcription != nil || needsWordsOfSpeech)
        else { return }
        stopHypothesis(speechInput)
        speechInput.handleAsked(next.snapshot)
        command(
            .hypothesize(
                itemID: itemID, utterance(next.audio),
                next.snapshot.isPause ? .probableTranscript : .display))
    }

    func handleHypothesis(_ text: String, of itemID: String, at now: Instant) {
        if userTurn.isAwaiting(itemID) {
            return handleTranscript(text, of: itemID, at: now)
        }
        guard let speechInput, speechInput.speechItemID == itemID else { return }
        if let delta = speechInput.handleHypothesis(
            text, showsWords: parameters.transcription != nil)
        {
            emit(.transcriptionDelta(itemID: itemID, contentIndex: 0, delta: delta))
        }
        weighInterruption(speechInput, at: now)
        if let words = speechInput.wordsBeforeSilence { speculate(on: words, speechInput) }
    }

    func handleHypothesisFailed(of itemID: String) {
        if userTurn.isAwaiting(itemID) {
            // The turn has ended meanwhile: now the words are needed.
            guard let utterance = userTurn.takeUnaskedUtterance(itemID) else { return }
            return command(.transcribe(itemID: itemID, utterance))
        }
        guard let speechInput, speechInput.speechItemID == itemID else { return }
        speechInput.handleHypothesisFailed()
    }

    /// A turn has ended, and some of its words may be known. If they are all of its words, they
    /// become the transcript; otherwise the session asks for it.
    /// - Parameter position: where on the audio timeline speech was last heard; nil: unknown,
    ///   because the client ends turns.
    func transcribe(
        _ audio: HeardAudio, _ awaited: AwaitedTranscript, after partial: PartialTranscript,
        speechEndingAt position: Int?, at now: Instant
    ) {
        var awaited = awaited
        awaited.agreement = partial.agreement
        let itemID = awaited.itemID
        if let position, let words = partial.words(upTo: position) {
            userTurn.handleCommitted(awaited)
            handleTranscript(words, of: itemID, at: now)
        } else if let position, partial.isRecognizing(upTo: position) {
            awaited.unaskedUtterance = utterance(audio)
            userTurn.handleCommitted(awaited)
        } else {
            // The hypothesis in flight covers only a part of the speech.
            stopHypothesis(partial, of: itemID)
            transcribe(audio, awaited)
        }
    }

    /// Forgets the audio that was not committed, and the speech in it.
    func forgetInput(_ speechInput: SpeechInput) {
        stopHypothesis(speechInput)
        speechInput.clear()
    }

    private func stopHypothesis(_ speechInput: SpeechInput) {
        guard let itemID = speechInput.speechItemID else { return }
        stopHypothesis(speechInput.partial, of: itemID)
    }

    /// The hypothesis of a turn is not needed any more.
    func stopHypothesis(_ partial: PartialTranscript?, of itemID: String) {
        if partial?.inFlight != nil { command(.cancelTranscription(itemID: itemID)) }
    }
}
