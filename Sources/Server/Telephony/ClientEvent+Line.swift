// The settings that a sideband may not change in the session of a telephone call: the line decides the
// formats. A library that sends its whole session with every update is not refused for them.

import Codec

extension ClientEvent {
    /// The same event without the fields that a telephone line decides.
    /// - Parameter isSpoken: whether the line has audio. On one without, a reply that is spoken would
    ///   not be heard.
    func withoutLineFormats(isSpoken: Bool) -> ClientEvent {
        switch self {
        case .sessionUpdate(var update):
            update.inputFormat = .absent
            update.inputIsNumbered = .absent
            update.outputFormat = .absent
            update.outputOpus = .absent
            update.outputTransport = .absent
            update.outputModality = .absent
            return .sessionUpdate(update)
        case .responseCreate(var parameters):
            parameters.outputFormat = nil
            parameters.outputOpus = nil
            if !isSpoken { parameters.outputModality = nil }
            return .responseCreate(parameters)
        case .inputAudioBufferAppend, .inputAudioBufferCommit, .inputAudioBufferClear,
            .conversationItemCreate, .conversationItemDelete, .conversationItemRetrieve,
            .conversationItemTruncate, .responseCancel, .outputAudioBufferClear,
            .outputAudioBufferPlayed, .ping:
            return self
        }
    }
}
