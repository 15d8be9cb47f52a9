// A dialogue as data: what a model that hears and speaks was told, and what it answers.

import Codec
import TestMaterial

@testable import Session

/// A model that hears and speaks. It says what its script has, with words and speech side by side.
final class ScriptedDialogue: Dialogue {
    /// What is said in answer to each response, in order: pieces of words, each with 100 ms of speech a
    /// word. The speech comes four times as fast as it is played.
    var replies: [[String]]
    /// The session's script, which delivers the answers.
    weak var script: ScriptedSession?
    /// Everything that it was told, but audio.
    private(set) var told: [String] = []
    /// Samples at 16 kHz that it has heard, and where on the audio timeline they ended.
    private(set) var samplesHeard = 0
    private(set) var heardEnd = 0
    /// The turns, as parts of the audio timeline.
    private(set) var turns: [Range<Int>] = []
    /// The items that each response was told to have.
    private(set) var items: [String: [String]] = [:]
    /// What each turn is transcribed as; nil: it makes no transcripts.
    var transcript: String?
    /// How a reply ends after its last word; nil: well.
    var failure: AgentError?
    var transcribes: Bool { transcript != nil }
    let heldBytes = 1_000
    /// Calls a function of the client in place of a reply; nil: it says the next one.
    var functionCall: (name: String, arguments: String)?
    private var place: Int16 = 0

    init(saying replies: [[String]] = []) { self.replies = replies }

    func hear(_ samples: UnsafeBufferPointer<Int16>, endingAt position: Int) {
        samplesHeard += samples.count
        heardEnd = position
    }

    func commit(_ itemID: String, _ range: Range<Int>) {
        told.append("commit \(itemID)")
        turns.append(range)
        guard let transcript else { return }
        deliver(.transcript(itemID: itemID, text: transcript), after: 300)
    }

    func clear() { told.append("clear") }
    func insert(_ item: ConversationItem, after previousItemID: String?) {
        told.append("insert \(item.id)")
    }
    func delete(_ itemID: String) { told.append("delete \(itemID)") }
    func begin(_ itemID: String, in responseID: String) {
        items[responseID, default: []].append(itemID)
    }
    func stop(_ responseID: String) { told.append("stop \(responseID)") }
    func truncate(_ itemID: String, milliseconds: Int) {
        told.append("truncate \(itemID) \(milliseconds)")
    }

    func answer(_ responseID: String, _ overrides: ResponseParameters, tools: [FunctionTool]) {
        told.append("answer \(responseID)")
        if let functionCall {
            let call = ModelDelta.functionCallStarted(callID: "call_1", name: functionCall.name)
            deliver(.modelDelta(responseID: responseID, call), after: 50)
            let arguments = ModelDelta.functionCallArguments(functionCall.arguments)
            deliver(.modelDelta(responseID: responseID, arguments), after: 60)
            return deliver(.modelFinished(responseID: responseID), after: 70)
        }
        var time = 200
        for words in replies.isEmpty ? [] : replies.removeFirst() {
            if words == Self.messageEnd {
                deliver(.modelDelta(responseID: responseID, .messageEnded), after: time)
                continue
            }
            deliver(.modelDelta(responseID: responseID, .text(words)), after: time)
            for _ in words.split(separator: " ") {
                time += 25
                deliver(.speech(responseID: responseID, speech()), after: time)
            }
        }
        if let failure {
            return deliver(.modelFailed(responseID: responseID, failure), after: time)
        }
        deliver(.modelFinished(responseID: responseID), after: time)
    }

    /// Ends the message, in place of words.
    static let messageEnd = "<end>"

    private func deliver(_ event: AgentEvent, after milliseconds: Int) {
        script?.deliver(event, after: milliseconds)
    }

    /// 100 ms, whose samples count up through the whole conversation.
    private func speech() -> SpeechChunk {
        let samples = (0..<2_400).map { _ in
            place = place == .max ? 0 : place + 1
            return place
        }
        return SpeechChunk(samples: samples, rate: .hz24000)
    }
}
