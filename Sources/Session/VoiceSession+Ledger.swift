// The memory of a session, by part, read off its values. Each part states its own bytes
// (`heldBytes`).
//
// The ledger is read after every tick in which the session had an input, fifty times a second while
// packets come. So everything here is a sum of a few numbers, and parts with many pieces (items,
// runs of audio, tools) keep their own sum.

import Codec

extension VoiceSession {
    /// Bytes of the object itself.
    public static let objectBytes = HeapBlock.object(VoiceSession.self)

    /// The memory of the session, by part.
    public var ledger: MemoryLedger {
        var ledger = MemoryLedger()
        add(to: &ledger)
        return ledger
    }

    /// Bytes of the whole session.
    public var heldBytes: Int { ledger.total }

    /// Adds the session's memory to a connection's ledger.
    public func add(to ledger: inout MemoryLedger) {
        ledger.session += Self.objectBytes + Int(parameterBytes) + retrievals.heapBytes
        if let tools { ledger.session += tools.heldBytes }
        if let recorder { ledger.session += recorder.heldBytes }
        ledger.conversation += conversation.heldBytes
        if let speechInput {
            ledger.codec += speechInput.decoderBytes
            ledger.listening += speechInput.listeningBytes
            ledger.inputAudio += speechInput.audioBytes
        }
        if userTurn.isRecognising { addAwaitedTranscripts(to: &ledger) }
        if let playback {
            ledger.session += ReplyPlayback.objectBytes
            ledger.listening += playback.echo?.heldBytes ?? 0
            ledger.response += (playback.timeline?.heldBytes ?? 0) + playback.nextBytes
        }
        if !responses.isEmpty { addResponses(to: &ledger) }
        if hasAgent { ledger.session += AgentConduct.objectBytes }
        if isRecorded { ledger.session += recording?.heldBytes ?? 0 }
        ledger.response += answerer.heldBytes
    }

    /// Audio that is being recognised belongs to the conversation's part where that keeps it, too.
    private func addAwaitedTranscripts(to ledger: inout MemoryLedger) {
        ledger.inputAudio += userTurn.awaited.heapBytes
        for awaited in userTurn.awaited {
            ledger.inputAudio += awaited.agreement.heldBytes
            guard !conversation.holdsAudio(of: awaited.itemID) else { continue }
            ledger.inputAudio += awaited.audioBytes
        }
    }

    private func addResponses(to ledger: inout MemoryLedger) {
        ledger.response += responses.heapBytes
        for response in responses {
            ledger.response += response.heldBytes
            ledger.codec += response.encoderBytes
            // The responses of the conversation share one.
            if response.playout !== playback?.timeline {
                ledger.response += response.playout.heldBytes
            }
        }
    }
}
