// What a sideband may not change in the session of a telephone call: the formats are the line's. A
// library that sends its whole session with every update is not refused for them.

import Codec

extension ClientEvent {
    /// The same event without the fields that a telephone line decides.
    var withoutLineFormats: ClientEvent {
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
            return .responseCreate(parameters)
        case .inputAudioBufferAppend, .inputAudioBufferCommit, .inputAudioBufferClear,
            .conversationItemCreate, .conversationItemDelete, .conversationItemRetrieve,
            .conversationItemTruncate, .responseCancel, .outputAudioBufferClear,
            .outputAudioBufferPlayed:
            return self
        }
    }
}
