// The parameters of requests that servers of one API take in different ways, and the forms that a
// service was found to accept. OpenAI's current models refuse `max_tokens`, many other servers know
// nothing else; Mistral refuses `stream_options`; gateways refuse what they do not know.
//
// A request that is refused for such a parameter (400 or 422) is made once more in the other form,
// and the form is remembered for the service when it was answered. ModelExchange makes the request;
// this file reads the refusal.

import Codec
import Session
import Synchronization

/// A form of requests: what differs from the usual one.
struct RequestForm: OptionSet, Hashable, Sendable {
    let rawValue: UInt8

    /// The limit of tokens is `max_completion_tokens` instead of `max_tokens`.
    static let completionTokens = RequestForm(rawValue: 1)
    /// `stream_options` is left out, and with it the count of tokens.
    static let noStreamOptions = RequestForm(rawValue: 2)
    /// `parallel_tool_calls` is left out.
    static let noParallelToolCalls = RequestForm(rawValue: 4)
    /// `tool_choice` is left out where it is `auto`, which is every service's default.
    static let noAutomaticToolChoice = RequestForm(rawValue: 16)
    /// No block is marked for the prompt cache.
    static let noCacheControl = RequestForm(rawValue: 8)

    /// The other forms of the parameters that a refusal names.
    /// - Parameter words: the service's words about the parameters that it refuses.
    func differences(namedBy words: String) -> RequestForm {
        var named: RequestForm = []
        if words.contains(contains(.completionTokens) ? "max_completion_tokens" : "max_tokens") {
            named.insert(.completionTokens)
        }
        let omissions: [(String, RequestForm)] = [
            ("stream_options", .noStreamOptions), ("parallel_tool_calls", .noParallelToolCalls),
            ("cache_control", .noCacheControl), ("tool_choice", .noAutomaticToolChoice),
        ]
        for (name, omission) in omissions where !contains(omission) && words.contains(name) {
            named.insert(omission)
        }
        return named
    }
}

/// The form that a service takes, as far as it is known. Shared by all shards.
final class LearnedForm: Sendable {
    private let form: Atomic<UInt8>
    /// The part of the form that the operator has decided. It is not learnt.
    private let fixed: RequestForm

    /// - Parameters:
    ///   - form: of the first request.
    ///   - fixed: what of it never changes.
    init(_ form: RequestForm = [], fixed: RequestForm = []) {
        self.form = Atomic(form.rawValue)
        self.fixed = fixed
    }

    /// The form of the next request.
    var current: RequestForm { RequestForm(rawValue: form.load(ordering: .relaxed)) }

    /// The form in which a refused request is made again. Nil means that there is no other to try.
    /// - Parameters:
    ///   - form: the form of the refused request.
    ///   - tried: the changes that were tried already.
    func alternative(to form: RequestForm, words: String, tried: RequestForm) -> RequestForm? {
        let new = form.differences(namedBy: words).subtracting(fixed).subtracting(tried)
        return new.isEmpty ? nil : form.symmetricDifference(new)
    }

    /// A request of a form was answered.
    func handleAnswered(_ form: RequestForm) {
        if form != current { self.form.store(form.rawValue, ordering: .relaxed) }
    }
}
