// The evidence of an answer that could not be used, and the advice to the operator. The evidence of
// a failed request becomes a ServiceFault, which the host logs and counts.
//
// An answer that is none of the API's is named by its kind: a web page, plain text, or a body that
// a proxy has compressed unasked. Otherwise its bytes would look like an answer that ended too
// early.

import Codec
import Session

/// The answer to a request that failed, as far as it came.
public struct ServiceEvidence: Sendable {
    /// Most bytes of a body that are shown.
    public static let maxBeginningBytes = 160

    /// Where the request went.
    public var url: String
    /// The status of the answer; 0: none came.
    public var status: Int
    /// Its media type, if the answer named one.
    public var contentType: String?
    /// The first bytes of its body.
    public var beginning: [UInt8]
    /// Where the answer redirects to, as an absolute URL, or nil where it is no redirect.
    public var target: String?

    /// Creates the evidence of a request.
    public init(
        url: String, status: Int = 0, contentType: String? = nil, beginning: [UInt8] = [],
        target: String? = nil
    ) {
        self.url = url
        self.status = status
        self.contentType = contentType
        self.beginning = beginning
        self.target = target
    }

    /// The kind of a body that is none of the API's. Nil means that it may be one.
    var foreignKind: ForeignKind? { ForeignKind(contentType: contentType, beginning: beginning) }

    /// Whether the first bytes may have words of a conversation, which no log shows.
    private var mayHaveWords: Bool {
        let text = String(decoding: beginning, as: UTF8.self)
        return ["\"content\"", "\"delta\"", "\"text\"", "\"output\""].contains { text.contains($0) }
    }

    /// The first bytes as text on one line; empty where they may have words of a conversation.
    var shownBeginning: String {
        guard foreignKind != .compressed, foreignKind != nil || !mayHaveWords else { return "" }
        return String(decoding: beginning.prefix(Self.maxBeginningBytes), as: UTF8.self)
            .split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}

/// A body that is no answer of an API of JSON and event streams.
enum ForeignKind: String, Sendable {
    case page = "a web page"
    case compressed = "a compressed body, which was not asked for"
    case text = "plain text"

    /// - Parameters:
    ///   - contentType: the answer's media type, if it named one.
    ///   - beginning: the first bytes of its body.
    init?(contentType: String?, beginning: [UInt8]) {
        let start = beginning.drop { $0 <= 32 }
        let type = contentType?.prefix { $0 != ";" }.lowercased()
        // The first bytes of gzip (RFC 1952 §2.3.1) and zstd (RFC 8878 §3.1.1).
        if beginning.starts(with: [0x1F, 0x8B]) || beginning.starts(with: [0x28, 0xB5, 0x2F, 0xFD])
        {
            self = .compressed
        } else if type == "text/html" || type == "application/xhtml+xml"
            || start.first == UInt8(ascii: "<")
        {
            self = .page
        } else if let first = start.first, type == "text/plain" || type == nil,
            !"{[:".utf8.contains(first), !Self.beginsWithField(start)
        {
            self = .text
        } else {
            return nil
        }
    }

    /// Whether a text begins as a line of an event stream does.
    private static func beginsWithField(_ text: ArraySlice<UInt8>) -> Bool {
        ["data", "event", "id", "retry", "error"].contains { text.starts(with: "\($0):".utf8) }
    }

    /// The advice to the operator.
    var advice: String {
        switch self {
        case .page: "the URL is that of a page, or a proxy asks for a sign-in"
        case .compressed: "switch compression off for this path in the proxy before the service"
        case .text: "check the URL, and what answers there"
        }
    }
}

extension ServiceFault {
    /// A request has failed; nil where its error says nothing about the service.
    public init?(_ error: any Error, of service: String, _ evidence: ServiceEvidence) {
        guard let error = error as? AgentError else { return nil }
        switch error {
        case .upstream, .brokenOff, .malformedReply, .rateLimited, .agentLost: break
        case .unavailable, .unknownModel, .overloaded, .quotaUsedUp, .explained: return nil
        }
        self.init(of: service, evidence, reason: error.detail)
        if case .upstream(let status, _) = error, status > 0 { self.status = status }
        advice = Self.advice(for: service, status: self.status, evidence, error)
    }

    /// A failure with the evidence of the answer.
    init(of service: String, _ evidence: ServiceEvidence, reason: String) {
        self.init(service: service, url: ServiceAddress.shown(evidence.url), reason: reason)
        status = evidence.status
        contentType = evidence.contentType
        beginning = evidence.shownBeginning
        advice = Self.advice(for: service, status: status, evidence, nil)
    }

    /// A redirect was followed.
    static func redirect(
        of service: String, from url: String, to target: String, _ status: Int
    ) -> ServiceFault {
        let shown = ServiceAddress.shown(target)
        var fault = ServiceFault(
            service: service, url: ServiceAddress.shown(url),
            reason: "each request is redirected to \(shown)")
        fault.status = status
        fault.isTolerated = true
        fault.advice = "set \(setting(of: service)) so that requests go to \(shown)"
        return fault
    }

    /// A service has refused a parameter, and takes the request without it or with another one.
    static func otherForm(of service: String, _ url: String, _ refusal: AgentError) -> ServiceFault
    {
        var fault = ServiceFault(
            service: service, url: ServiceAddress.shown(url),
            reason: "a parameter was refused, and the request made in another form: "
                + refusal.detail)
        fault.isTolerated = true
        fault.advice = "none is needed; the form is remembered until the server ends"
        return fault
    }

    /// The receiver of webhooks, as a service.
    public static let webhooks = "webhooks"
    /// The server that takes recordings, as a service.
    public static let uploads = "uploads"

    /// The setting that has a service's address.
    private static func setting(of service: String) -> String {
        switch service {
        case "llm", "stt", "tts": "\(service)-url"
        case webhooks: "webhook-url"
        case uploads: "recordings-url"
        case _ where service.hasPrefix("mcp/"): "its url in mcp-config"
        default: "its url in providers"
        }
    }

    private static func advice(
        for service: String, status: Int, _ evidence: ServiceEvidence, _ error: AgentError?
    ) -> String {
        let setting = setting(of: service)
        if let target = evidence.target, (300..<400).contains(status) {
            return "set \(setting) so that requests go to \(ServiceAddress.shown(target))"
        }
        if case .brokenOff? = error { return "see the log of the service" }
        let isReceiver = [webhooks, uploads].contains(service)
        switch status {
        case 0 where error != nil:
            return "check that the service runs, and \(setting)"
        case 401, 403, 407: return "check its key"
        case 404, 405, 410:
            return isReceiver
                ? "check \(setting)"
                : "check \(setting), which ends with the version, and the model's name"
        case 400, 413, 422:
            return "the service refuses the request itself: compare its reason with the settings"
        case 429:
            return "raise the limits of the service"
                + (isReceiver ? "" : ", or set a concurrency and a fallback")
        case 502, 503, 504: return "see the log of the service; a proxy may answer in its place"
        case 500...: return "see the log of the service"
        default: break
        }
        return evidence.foreignKind?.advice
            ?? "check \(setting), and that the service speaks this API"
    }
}
