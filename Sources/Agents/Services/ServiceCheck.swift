// The check of services, which shows a fault to the operator before a caller meets it. When the server
// starts, each service is asked for its list of models once. A service that cannot be reached, that
// refuses its key, or that is no service at all, is reported as it would be by the first turn.
//
// A service need not have such a list: an answer that only says so (404, 405, 501 …) proves
// nothing.

import Codec
import Session

extension UpstreamService {
    /// Time for the answer. 10 s: a list is short, and no caller waits for it.
    private static let checkTimeout = Duration.seconds(10)
    /// Most bytes of a list of models that are read. 1 MiB: a thousand models with their prices.
    private static let maxListBytes = 1 << 20
    /// Models that a report names.
    private static let maxNamedModels = 5

    /// Checks whether the service can be used, and reports what is wrong.
    /// - Parameters:
    ///   - path: the path of the list of models. It is empty where the service has one address for
    ///     all requests.
    ///   - model: the name that its requests have, or nil where clients choose it.
    func check(path: String = "/models", model: String?, on host: any AgentHost) async {
        guard !name.isEmpty else { return }
        var evidence = ServiceEvidence(url: url(of: path))
        do {
            let response = try await host.send(
                UpstreamRequest(
                    url: evidence.url, method: "GET", headers: headers,
                    timeout: Self.checkTimeout, totalTimeout: Self.checkTimeout))
            let body = try await Self.beginning(of: response)
            evidence.status = response.status
            evidence.contentType = response.contentType
            evidence.beginning = Array(body.prefix(ServiceEvidence.maxBeginningBytes))
            guard let fault = fault(in: body, evidence, model: model) else { return }
            host.report(withoutKey(fault))
        } catch {
            guard let fault = ServiceFault(error, of: name, evidence) else { return }
            host.report(withoutKey(fault))
        }
    }

    private static func beginning(of response: any UpstreamResponse) async throws -> [UInt8] {
        var body: [UInt8] = []
        while body.count < maxListBytes, let chunk = try await response.nextChunk() {
            body += chunk
        }
        return body
    }

    /// The fault of an answer. Nil means that none is known.
    private func fault(
        in body: [UInt8], _ evidence: ServiceEvidence, model: String?
    ) -> ServiceFault? {
        switch evidence.status {
        case 401, 403, 407, 500, 502, 503, 504:
            let refusal = AgentError.upstream(
                status: evidence.status, message: ServiceErrorBody.message(in: body))
            return ServiceFault(refusal, of: name, evidence)
        case 200:
            if let kind = evidence.foreignKind {
                return ServiceFault(of: name, evidence, reason: "the answer is \(kind.rawValue)")
            }
            return model.flatMap { unlisted($0, in: body, evidence) }
        default: return nil
        }
    }

    /// A list that does not have the model. Some services know more names than they list.
    private func unlisted(
        _ model: String, in body: [UInt8], _ evidence: ServiceEvidence
    ) -> ServiceFault? {
        // A value is good only as long as its parser.
        let parser = JSONParser(limits: .ofAnAnswer)
        guard let list = try? parser.parse(body), let models = list["data"]?.elements else {
            return nil
        }
        let names = models.compactMap { $0["id"]?.string }
        // Ollama lists `llama3:latest`, and takes `llama3`.
        guard !names.isEmpty, !names.contains(where: { $0 == model || $0.hasPrefix(model + ":") })
        else { return nil }
        let shown = names.prefix(Self.maxNamedModels).joined(separator: ", ")
        let rest = names.count > Self.maxNamedModels ? " and others" : ""
        var fault = ServiceFault(
            of: name, evidence,
            reason: "its list of models has no \(model); it has \(shown)\(rest)")
        fault.beginning = ""
        fault.advice =
            "check the model's name, unless the service takes names that it does not list"
        fault.isTolerated = true
        return fault
    }
}
