// The message in the body of an error response, in the forms that OpenAI-compatible services use.
// It is for the operator only: it may repeat addresses and keys.

import Codec

/// Finds the message in an error's body.
enum ServiceErrorBody {
    /// The message of an error body, or the beginning of the body when there is none.
    static func message(in body: [UInt8]) -> String {
        if let value = try? JSONParser(limits: .ofAnAnswer).parse(body),
            let message = message(of: value)
        {
            return message
        }
        let text = String(decoding: body.prefix(300), as: UTF8.self)
            .split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return text.isEmpty ? "it gave no reason" : text
    }

    /// The message of an error that is a JSON object; nil when there is none.
    static func message(of value: JSONValue) -> String? {
        for candidate in [value["error"]?["message"], value["error"], value["message"]] {
            if let text = candidate?.string, !text.isEmpty { return text }
        }
        // FastAPI: `detail` is a text, or a list of the request's faults.
        if let detail = value["detail"] { return detail.string ?? detail.raw.text }
        return nil
    }
}
