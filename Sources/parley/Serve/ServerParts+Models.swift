// Makes the language model of a server: the demo agent, or a router over the servers that the
// settings name.

import Agents
import Codec
import Glibc
import Logging
import Server
import Session

extension ServerParts {
    /// The model that answers turns.
    static func model(
        _ settings: ServeSettings, _ signer: RequestSigner?, _ logger: Logger
    ) -> any LanguageModel {
        let language = settings.language
        var providers = language.providers
        if let url = language.url {
            var standard = ModelProviderSetting(
                name: LanguageModelSettings.standardProvider, url: url)
            standard.kind = language.kind
            standard.model = language.name
            standard.tokenLimit = language.tokenLimit
            standard.streamOptions = language.streamOptions
            standard.thinksFirst = language.thinksFirst
            standard.seesImages = language.seesImages
            standard.hearsAudio = language.hearsAudio
            standard.namesUser = language.namesUser
            standard.keepsState = language.keepsState
            standard.concurrency = language.concurrency
            standard.maxWaiting = language.maxWaiting
            standard.fallback = language.fallback
            providers.append(standard)
        }
        guard !providers.isEmpty else {
            switch language.demoAgent {
            case .echo: return DemoAgent()
            case .guide:
                // A service hears what it hears.
                let languages =
                    settings.speech.transcriptionURL == nil
                    ? settings.recognizerLanguages.map(\.description) : []
                return GuideAgent(languages: languages, wallSeconds: { time(nil) })
            }
        }
        return ModelRouter(
            providers: providers.map { provider in
                let key =
                    provider.name == LanguageModelSettings.standardProvider
                    ? language.key
                    : provider.keyVariable.flatMap(environmentValue).flatMap {
                        SettingText.read($0)
                    }
                return ModelProvider(
                    name: provider.name, patterns: provider.models,
                    model: service(provider, key: key, signer, settings),
                    fallback: provider.fallback,
                    health: ProviderHealth(
                        maxFailures: language.failuresBeforePause, pause: language.pause),
                    queue: RequestQueue(
                        concurrency: provider.concurrency, maxWaiting: provider.maxWaiting,
                        maxWait: language.firstTokenTimeout))
            },
            standard: LanguageModelSettings.standardProvider,
            report: { failed, next, _ in
                // The failure has a line of its own; this one is the same each time, and is folded.
                logger.warning(
                    "model provider failed, another takes over",
                    metadata: ["provider": "\(failed)", "next": "\(next)"])
            })
    }

    /// The facts about the agents that the conversation page gets.
    static func page(_ language: LanguageModelSettings) -> PageAgents {
        let urls = language.providers.map(\.url) + [language.url].compactMap { $0 }
        var page = PageAgents(kind: .model, localModelURL: language.localModelURL)
        page.usesLocalModel = language.localModelURL.map { urls.contains($0) } ?? false
        guard urls.isEmpty else {
            page.model = language.url == nil ? nil : language.name
            return page
        }
        page.kind = language.demoAgent == .guide ? .guide : .echo
        if page.kind == .guide { page.toolServers = [GuideToolServers.label] }
        return page
    }

    private static func service(
        _ provider: ModelProviderSetting, key: String?, _ signer: RequestSigner?,
        _ settings: ServeSettings
    ) -> any LanguageModel {
        var service = ModelService(baseURL: provider.url, apiKey: key)
        service.name = provider.name
        service.model = provider.model
        service.maxTokens = provider.maxTokens ?? settings.language.maxTokens
        service.tokenLimit = provider.tokenLimit
        service.streamOptions = provider.streamOptions
        service.thinksFirst = provider.thinksFirst
        service.hearsAudio = provider.hearsAudio
        service.seesImages = provider.seesImages
        service.namesUser = provider.namesUser
        service.keepsState = provider.keepsState
        service.jobs = provider.jobs
        service.signer = signer
        service.audience = provider.audience
        service.firstTokenTimeout = settings.language.firstTokenTimeout
        service.totalTimeout = settings.language.totalTimeout
        service.retries = retries(settings)
        return provider.kind.model(at: service)
    }

    /// Signs requests to models; nil where they are not to be signed.
    /// - Throws: `CommandFailure` where the file of keys cannot be used.
    static func signer(
        _ settings: LanguageModelSettings
    ) throws(CommandFailure) -> RequestSigner? {
        guard settings.signsRequests else { return nil }
        let wallSeconds: @Sendable () -> Int = { time(nil) }
        let makeTokenID: @Sendable () -> String = {
            String(UInt64.random(in: .min ... .max), radix: 36)
                + String(UInt64.random(in: .min ... .max), radix: 36)
        }
        guard let path = settings.signingKeyFile else {
            guard let signer = RequestSigner(wallSeconds: wallSeconds, makeTokenID: makeTokenID)
            else { throw CommandFailure(description: "sign-requests: no key can be made") }
            return signer
        }
        return RequestSigner(
            keys: try signingKeys(in: path), wallSeconds: wallSeconds, makeTokenID: makeTokenID)
    }

    /// The keys of `signing-key-file`, one or more.
    /// - Throws: `CommandFailure` where the file cannot be used.
    static func signingKeys(in path: String) throws(CommandFailure) -> [SigningKey] {
        let content: String
        do {
            content = try WholeFile.readText(path)
        } catch {
            throw CommandFailure(description: "signing-key-file: \(error.problem(of: path))")
        }
        do throws(SigningKeyError) { return try SigningKey.keys(pem: Array(content.utf8)) } catch {
            throw CommandFailure(description: "signing-key-file: \(path) \(error)")
        }
    }
}
