// The API of a model service: how its requests are written, and which reader its answers have.
// ModelService lists the APIs, ModelExchange makes a request, StreamedAnswer reads the answers' bytes.

import Codec
import Session

/// A service and the connection to it. An object, because each function of a request in progress would
/// else keep a copy of some 400 bytes.
final class ModelEndpoint: Sendable {
    let service: ModelService
    let upstream: UpstreamService
    /// The form of request that the service has been found to take.
    let form: LearnedForm

    init(service: ModelService, upstream: UpstreamService) {
        self.service = service
        self.upstream = upstream
        form = LearnedForm(
            service.tokenLimit.form.union(service.streamOptions.form),
            fixed: service.tokenLimit.fixed.union(service.streamOptions.fixed))
    }
}

/// A client of one service, written for its API. A conforming type writes the requests; its `Answer`
/// reads the answers.
protocol ModelAPI: LanguageModel {
    /// Reads the answers.
    associatedtype Answer: StreamedAnswer

    /// The name of the API for operators: "OpenAI's Responses".
    static var title: String { get }
    /// Appended to the service's base URL.
    static var path: String { get }
    /// Whether requests can hold the user's audio. The default is false.
    static var takesAudio: Bool { get }
    /// Header fields with the key, and those that the service requires. The default is a bearer
    /// token.
    static func headers(key: String?) -> [UpstreamService.Header]

    /// The service, and the connection to it.
    var endpoint: ModelEndpoint { get }
    /// Creates a client.
    init(endpoint: ModelEndpoint)

    /// The body of a request to a model of the service, in a form that it takes.
    func encoded(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8]

    /// The body of a request that does not depend on what the service remembers, for a service that
    /// has forgotten it. It is nil, the default, where the request depends on nothing.
    func encodedWhole(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8]?
}

extension ModelAPI {
    static var takesAudio: Bool { false }
    static func headers(key: String?) -> [UpstreamService.Header] { UpstreamService.bearer(key) }

    /// Creates a client of a service.
    init(_ service: ModelService) {
        self.init(
            endpoint: ModelEndpoint(
                service: service,
                upstream: UpstreamService(
                    name: service.name, baseURL: service.baseURL,
                    headers: Self.headers(key: service.apiKey),
                    timeout: service.timeout, totalTimeout: service.totalTimeout,
                    retries: service.retries)))
    }

    /// The service and the settings for its use.
    var service: ModelService { endpoint.service }
    /// The connection to the service.
    var upstream: UpstreamService { endpoint.upstream }

    var hearsAudio: Bool { service.hearsAudio && Self.takesAudio }
    var seesImages: Bool { service.seesImages }

    func encodedWhole(
        _ request: ModelRequest, model: String, form: RequestForm
    ) -> [UInt8]? { nil }

    /// Looks at the list of models, where the API has a place for one.
    func checkServices(on host: any AgentHost) async {
        await upstream.check(
            path: Self.path.isEmpty ? "" : "/models", model: service.model, on: host)
    }

    /// Posts the request and passes on the answer while it arrives.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        try await ModelExchange.made(by: self, request, on: host).run(reply)
    }
}
