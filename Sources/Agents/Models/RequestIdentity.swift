// The caller and the turn in the body of a request, in the members that OpenAI's APIs have for them.
// TurnFields has the header fields, which every service gets.
//
// Source: OpenAI API reference, "Create chat completion" and "Create a model response".

import Codec
import Session

extension JSONWriter {
    /// Writes `user` and `metadata`, where the service wants them.
    mutating func identity(of request: ModelRequest, for service: ModelService) {
        guard service.namesUser, let turn = request.turn else { return }
        if let subject = turn.subject { member("user", subject) }
        object("metadata") { json in
            json.member("parley_session", turn.sessionID)
            json.member("parley_turn", turn.responseID)
        }
    }
}
