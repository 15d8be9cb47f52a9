// The content of a user's message in the form that OpenAI's APIs and AG-UI share: a plain text, or
// an array of parts. The form of a part is the API's own.

import Codec
import Session

extension JSONWriter {
    /// Writes `content`: the text, where the message has nothing else.
    /// - Parameter members: writes the members of one part.
    mutating func content(
        of parts: [UserPart], _ members: (_ part: UserPart, _ json: inout JSONWriter) -> Void
    ) {
        if case .text(let text)? = parts.first, parts.count == 1 { return member("content", text) }
        array("content") { json in
            for part in parts { json.object { members(part, &$0) } }
        }
    }
}
