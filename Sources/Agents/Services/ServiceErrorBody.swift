// The message in the body of an error response, in the forms that OpenAI-compatible services use.
// It is for the operator only: it may repeat addresses and keys. And whether the error says that the
// service has forgotten an answer.

import Codec

/// Finds the message in an error's body.
enum ServiceErrorBody {
    /// Most characters of a body without a message that are shown.
    static let maxShownCharacters = 300

    /// The message of an error body, or the beginning of the body when there is none.
    static func message(in body: [UInt8]) -> String {
        if let value = try? JSONParser(limits: .ofAnAnswer).parse(body),
            let message = message(of: value)
        {
            return message
        }
        let text = String(decoding: body.prefix(maxShownCharacters), as: UTF8.self)
            .split(whereSeparator: \.isWhitespace).joined(separator: " ")
        return text.isEmpty ? "it gave no reason" : text
    }

    /// The code of the error about an answer that the service does not have any more.
    static let forgottenAnswer = "previous_response_not_found"

    /// Whether the error says that the service does not have the answer that the request goes on
    /// from (`previous_response_id`).
    static func saysForgotten(_ body: [UInt8]) -> Bool {
        guard let value = try? JSONParser(limits: .ofAnAnswer).parse(body) else { return false }
        // FastAPI puts what an agent raises into `detail`.
        let detail = value["detail"]
        return [value["error"], detail?["error"], detail, value].contains { error in
            error?["code"]?.string == forgottenAnswer
                || error?["param"]?.string == "previous_response_id"
        }
    }

    /// The words of an error about parameters: its `param`, its message, and the places of
    /// FastAPI's faults. Values of the request, which FastAPI repeats, are left out.
    static func parameters(namedIn body: [UInt8]) -> String {
        guard let value = try? JSONParser(limits: .ofAnAnswer).parse(body) else {
            return message(in: body)
        }
        var words = [value["error"]?["param"]?.string, value["param"]?.string]
        for detail in [value["detail"], value["message"]?["detail"]] {
            guard let faults = detail?.elements else { continue }
            for fault in faults.prefix(16) {
                words.append(fault["msg"]?.string)
                words += fault["loc"]?.elements?.map(\.string) ?? []
            }
        }
        let isListed = value["detail"]?.elements != nil
        if !isListed { words.append(message(of: value)) }
        return words.compactMap(\.self).joined(separator: " ")
    }

    /// The message of an error that is a JSON object; nil when there is none.
    static func message(of value: JSONValue) -> String? {
        let candidates = [
            value["error"]?["message"], value["error"], value["message"], value["error_message"],
        ]
        for candidate in candidates {
            if let text = candidate?.string, !text.isEmpty { return text }
        }
        // FastAPI: `detail` is a text, or a list of the request's faults.
        if let detail = value["detail"] { return detail.string ?? detail.raw.text }
        return nil
    }
}
