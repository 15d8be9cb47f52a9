// An error that a service reports inside of an answer whose status was 2xx. Each family of servers
// has a form of its own for it; a form that is not known would end as an empty answer.
//
//   {"error": {…}}, {"error": "…"}           OpenAI, Anthropic, LiteLLM, llama.cpp, Ollama
//   {"object": "error", "message": …}        vLLM up to 0.9, SGLang, Mistral
//   {"type": "error", "message": …}          OpenAI's Responses
//   {"error_type": …, "error_message": …}    vLLM behind gateways
//   {"throttlingException": {…}}             the event stream of Bedrock
//   {"detail": …} alone                      FastAPI
//   an event of the type `error`             any of these, or plain text
//
// Not here: an error instead of an answer, which has a status (ServiceErrorBody).

import Codec
import Session

/// An error within an answer.
struct ReportedError {
    /// The HTTP status of the same error before an answer; 0 where it is unknown.
    let status: Int
    /// The service's description of it, for the operator.
    let reason: String

    /// Reads the error in an object of an answer; nil where the object reports none.
    init?(in object: JSONValue) {
        guard let (holder, name) = Self.holder(in: object) else { return nil }
        status = Self.status(of: holder, in: object, named: name)
        reason =
            ServiceErrorBody.message(of: object) ?? ServiceErrorBody.message(of: holder)
            ?? String(object.raw.text.prefix(ServiceErrorBody.maxShownCharacters))
    }

    /// Reads the data of an event of the type `error`, which may be text.
    init(event data: UnsafeRawBufferPointer) {
        let value = try? JSONParser(limits: .ofAnAnswer).parse(data)
        if let value, let error = Self(in: value) {
            self = error
            return
        }
        status = value.map { Self.status(of: $0, in: $0, named: nil) } ?? 0
        reason = ServiceErrorBody.message(in: Array(data))
    }

    /// The error for the session.
    var agentError: AgentError {
        .brokenOff(status: status, message: "The model server broke off: " + reason)
    }

    /// The object or text that has the error, and its name where the name says what it is.
    private static func holder(in object: JSONValue) -> (JSONValue, name: String?)? {
        if let error = object["error"], error.says { return (error, nil) }
        if object["object"]?.isString("error") == true || object["type"]?.isString("error") == true
            || object["error_message"]?.string != nil
        {
            return (object, nil)
        }
        // An object of an answer has one of these.
        guard object["choices"] == nil, object["type"] == nil, let members = object.members else {
            return nil
        }
        for (name, value) in members {
            if name.hasSuffix("Exception") { return (value, name) }
            if name == "detail", object.count == 1 { return (object, nil) }
        }
        return nil
    }

    // MARK: The status

    private static func status(
        of holder: JSONValue, in object: JSONValue, named name: String?
    ) -> Int {
        let numbers = [holder["status"], holder["status_code"], holder["code"], object["code"]]
        for number in numbers.compactMap({ $0?.wholeNumber }) where (400...599).contains(number) {
            return number
        }
        let words = [
            name, holder["code"]?.string, holder["type"]?.string, object["error_type"]?.string,
            object["__type"]?.string,
        ]
        for word in words.compactMap(\.self) {
            if let status = statuses[plain(word)] { return status }
        }
        return 0
    }

    /// A service's word for an error without its case, its marks and the word "error" at its end:
    /// `rate_limit_error`, `RateLimitError` and `RateLimitException` are one.
    private static func plain(_ word: String) -> String {
        var plain = word.lowercased().filter { $0.isLetter }
        for end in ["exception", "error"] where plain.hasSuffix(end) {
            plain.removeLast(end.count)
        }
        return plain
    }

    /// The statuses of words, by `plain`.
    private static let statuses = [
        "badrequest": 400, "contextlengthexceeded": 400, "exceedcontextsize": 400,
        "invalidprompt": 400, "invalidrequest": 400, "validation": 400,
        "authentication": 401, "unauthorized": 401,
        "accessdenied": 403, "permission": 403, "permissiondenied": 403,
        "notfound": 404, "previousresponsenotfound": 404, "resourcenotfound": 404,
        "requesttoolarge": 413,
        "insufficientquota": 429, "ratelimit": 429, "ratelimitexceeded": 429, "throttling": 429,
        "toomanyrequests": 429,
        "api": 500, "internal": 500, "internalserver": 500, "modelstream": 500, "server": 500,
        "serviceunavailable": 503, "unavailable": 503,
        "modeltimeout": 504, "timeout": 504,
        "overloaded": 529,
    ]
}

extension JSONValue {
    /// Whether a member `error` reports one: some services write an empty one into every object.
    fileprivate var says: Bool {
        switch kind {
        case .null: false
        case .bool: bool == true
        case .string: utf8?.isEmpty == false
        case .object, .array: count > 0
        case .number: true
        }
    }
}
