// The outputs of a VoiceSession, and the events that its agents send back.

import Codec

/// One thing that the shell must do for a session, in order.
public enum SessionOutput: Sendable {
    /// Send this event to the client.
    case event(ServerEvent)
    /// Send this audio of a reply, in the client's form.
    case audio(OutputAudioPacket)
    /// Drop a response's audio that was emitted and has not left: the user speaks, or the client
    /// wants none of it. Only this and `dropItemAudio` make the shell drop audio that could still
    /// be heard in time, so that the session knows what was sent.
    case dropAudio(responseID: String)
    /// Like `dropAudio`, for one item alone: the client has said where it ended.
    case dropItemAudio(itemID: String)
    /// Tell the client what to do with the audio that it has. Only where `playbackControl` says that
    /// it takes such commands.
    case playback(PlaybackCommand)
    /// Start, feed or stop an agent.
    case command(AgentCommand)
    /// A stage of a turn took this long; for the histograms.
    case measured(TurnHop, Duration)
    /// A response that a client asked for without having spoken had its first delta this long after
    /// it was asked for.
    case answered(after: Duration)
    /// The words of a user's item are known, and no event says so: the client has asked for none.
    case transcribed(itemID: String)
    /// A part of the session's recording, for the keeper of recordings.
    indirect case recorded(RecordingChunk)
    /// The agent ends the session, because its user says nothing.
    case hangUp
    /// The session's state is broken, and the session must be ended: no later output may reach its
    /// client. Only where `SessionContext.reportsFaults`.
    case failed(SessionFault)
}

/// A command for reply audio that a client has, but has not played.
public enum PlaybackCommand: Equatable, Sendable {
    /// Drops it.
    case drop
    /// Keeps it, and plays nothing until the next command.
    case pause
    /// Plays on after `pause`.
    case goOn
}

/// How a client learns what to do with reply audio that it has.
public enum PlaybackControl: UInt8, Sendable {
    /// From the events of the protocol: it falls silent when the user speaks.
    case events
    /// By commands. It cannot pause: audio of a held reply is dropped and, if the reply goes on, sent
    /// again.
    case drops
    /// By commands. Audio of a held reply stays with the client, and is not sent again.
    case pauses
}

/// A piece of reply audio in the response's output format.
public struct OutputAudioPacket: Equatable, Sendable {
    /// The part of the response that the audio belongs to.
    public var part: PartAddress
    /// The format of the payload.
    public var format: AudioFormat
    /// Where in the item's audio it starts, in samples at 48 kHz.
    public var start: Int
    /// Whether it does not begin where the audio before it ended, and the client is to know.
    public var isOutOfOrder: Bool
    /// Samples, or one Opus packet.
    public var payload: [UInt8]

    /// The item that the audio belongs to.
    public var itemID: String { part.itemID }

    /// Where in the item's audio it starts, in samples at the format's `sampleRate`.
    public var position: Int { start * format.sampleRate.hertz / SampleRate.hz48000.hertz }

    /// The event that brings it to those who get audio in events.
    public var event: ServerEvent {
        .responseOutputAudioDelta(
            part, audio: payload,
            startMilliseconds: isOutOfOrder
                ? SampleRate.hz48000.milliseconds(ofSamples: start) : nil)
    }
}

/// The stages of a spoken turn, each measured from the end of the user's speech.
public enum TurnHop: String, CaseIterable, Sendable {
    /// Until the transcript is there.
    case transcript
    /// Until the model's first delta.
    case firstToken = "first_token"
    /// Until the first byte of reply audio leaves the session.
    case firstAudio = "first_audio"
}

/// A session's commands to its agents. Work is named by the item or response that it is for.
public enum AgentCommand: Sendable {
    /// Audio will come, or has begun to: whatever recognition must load, it should load now. No
    /// answer.
    case prepareRecognition
    /// Answer with `.transcript`, any number of `.transcriptPart` before it, or with
    /// `.transcriptionFailed`.
    case transcribe(itemID: String, Utterance)
    /// Recognise the words so far of an item that is still being spoken, if a worker is free.
    /// Answer with `.hypothesis` or `.hypothesisFailed`; at most one is asked for at a time.
    case hypothesize(itemID: String, Utterance, HypothesisUse)
    /// Encode an item's audio for the client: answer with `.audioEncoded`.
    case encodeAudio(itemID: String, HeardAudio, AudioFormat)
    /// Answer with `.modelDelta`s, then `.modelFinished` or `.modelFailed`.
    case respond(responseID: String, ModelRequest)
    /// Answer with `.speech` chunks, then `.speechFinished` or `.speechFailed`. Clauses of one
    /// response are spoken one after another, in the order of their commands.
    case speak(responseID: String, SpeechRequest)
    /// Stop all work for a response; nothing of it may be answered afterwards.
    case cancelResponse(responseID: String)
    /// Stop the clause that is being spoken; nothing of it may be answered afterwards.
    case cancelSpeech(responseID: String)
    /// A hypothesis that no worker has begun with is not needed; it is answered with
    /// `.hypothesisFailed` then, and as any other if one has.
    case withdrawHypothesis(itemID: String)
    /// Judge by its sound whether the turn that will be this item is over, if workers have time. Answer
    /// with `.turnEnd`; at most one is asked for at a time.
    case judgeTurnEnd(itemID: String, HeardAudio)
    /// Stop transcribing an item, hypotheses included; nothing of it may be answered afterwards.
    case cancelTranscription(itemID: String)
    /// A command to a tool server.
    case tools(ToolCommand)
}

/// The use of a hypothesis.
public enum HypothesisUse: Sendable {
    /// To show words while they are spoken.
    case display
    /// To have the transcript before the turn is certain to have ended.
    case probableTranscript
    /// To decide whether the speech interrupts a reply, which is held meanwhile.
    case interruption
}

/// A result of an agent's work.
public enum AgentEvent: Sendable {
    case transcript(itemID: String, text: String, language: String? = nil)
    case transcriptionFailed(itemID: String, AgentError)
    /// More of the text that the transcript of a turn will have.
    case transcriptPart(itemID: String, text: String)
    /// The words so far of an item that is being spoken.
    case hypothesis(itemID: String, text: String, language: String? = nil)
    /// No worker was free, or recognition failed.
    case hypothesisFailed(itemID: String)
    /// The probability that the turn of an item is over, 0…1. Nil: workers are busy, or the model failed.
    case turnEnd(itemID: String, probability: Float?)
    /// An item's audio in the client's format; empty where it could not be made.
    case audioEncoded(itemID: String, [UInt8])
    case modelDelta(responseID: String, ModelDelta)
    case modelFinished(responseID: String)
    case modelFailed(responseID: String, AgentError)
    case speech(responseID: String, SpeechChunk)
    /// One `speak` command is complete.
    case speechFinished(responseID: String)
    case speechFailed(responseID: String, AgentError)
    case tools(ToolEvent)
}
