// The answer of the receiver of a webhook, or of the server that takes recordings: the evidence for
// the log's line about a failure. The body of an answer that is a success means nothing.

import Agents
import CCurl
import Session

/// The beginning of an answer's body, as libcurl hands it over.
final class ReceiverAnswer {
    private var beginning: [UInt8] = []

    /// The beginning as text.
    var text: String { String(decoding: beginning, as: UTF8.self) }

    /// The object behind a callback's context.
    static func from(_ context: UnsafeMutableRawPointer?) -> ReceiverAnswer {
        Unmanaged<ReceiverAnswer>.fromOpaque(context!).takeUnretainedValue()
    }

    /// More of the body has come. Only its beginning is kept.
    func append(_ bytes: UnsafeMutablePointer<CChar>?, count: Int) {
        let room = ServiceEvidence.maxBeginningBytes - beginning.count
        beginning += UnsafeRawBufferPointer(start: bytes, count: count).prefix(room)
    }

    /// A failed request as a fault of its service.
    /// - Parameters:
    ///   - status: of the answer; 0: none came.
    ///   - easy: the handle of the request, which has ended.
    func fault(
        of service: String, at url: String, status: Int, reason: String,
        _ easy: UnsafeMutableRawPointer
    ) -> ServiceFault? {
        ServiceFault(
            AgentError.upstream(status: status, message: reason), of: service,
            ServiceEvidence(
                url: url, status: status, contentType: text(CURLINFO_CONTENT_TYPE, of: easy),
                beginning: beginning, target: text(CURLINFO_REDIRECT_URL, of: easy)))
    }

    /// libcurl's own text, which is valid as long as the handle.
    private func text(_ info: CURLINFO, of easy: UnsafeMutableRawPointer) -> String? {
        var text: UnsafeMutableRawPointer?
        _ = parley_curl_info_pointer(easy, info, &text)
        return text.map { String(cString: $0.assumingMemoryBound(to: CChar.self)) }
    }
}
