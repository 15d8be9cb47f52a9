// A spoken response whose model, or whose recogniser, has failed. Its user would hear nothing, or half
// a sentence and then nothing. So the response says the server's apology, and then ends as failed:
//
//   waiting, writing ──▶ (failed) the apology is spoken ──▶ done, status `failed`
//
// A response in text says its error itself, and so does one outside the conversation, which only its
// client awaits. Where the synthesiser fails there is nothing to apologise with.

import Codec

extension Response {
    /// Ends a response that has no answer, after an apology where it is spoken.
    func failAudibly(_ status: ResponseDescription.Status, at now: Instant) {
        guard stage != .done, failure == nil, isInConversation,
            description.outputModality == .audio, context.hasSynthesizer,
            let apology = core.apology
        else { return end(status) }
        if routes != nil { stopToolCalls() }
        routes = nil
        beginApology(endingAs: status)
        for index in outputs.indices where outputs[index].isCall && !outputs[index].isComplete {
            outputs[index].isOpen = false
            complete(index, .incomplete)
        }
        closeOpenOutputs()
        context.counters.apologies += 1
        handle(.text(apology), at: now)
        handleModelFinished(at: now)
        // The client need not wait with what it does about the failure until the words were played.
        sendAhead(at: now)
    }
}
