// Makes the language model of a server: the demo agent, or a router over the servers that the
// settings name.

import Agents
import Logging
import Session

extension ServerParts {
    /// The model that answers turns.
    static func model(_ settings: ServeSettings, _ logger: Logger) -> any LanguageModel {
        let language = settings.language
        var providers = language.providers
        if let url = language.url {
            var standard = ModelProviderSetting(
                name: LanguageModelSettings.standardProvider, url: url)
            standard.kind = language.kind
            standard.model = language.name
            standard.seesImages = language.seesImages
            standard.hearsAudio = language.hearsAudio
            standard.fallback = language.fallback
            providers.append(standard)
        }
        guard !providers.isEmpty else { return DemoAgent() }
        return ModelRouter(
            providers: providers.map { provider in
                let key =
                    provider.name == LanguageModelSettings.standardProvider
                    ? language.key : provider.keyVariable.flatMap(environmentValue)
                return ModelProvider(
                    name: provider.name, patterns: provider.models,
                    model: service(provider, key: key, settings), fallback: provider.fallback,
                    health: ProviderHealth(
                        maxFailures: language.failuresBeforePause, pause: language.pause))
            },
            standard: LanguageModelSettings.standardProvider,
            report: { failed, next, error in
                let detail = (error as? AgentError)?.detail ?? "\(error)"
                logger.warning(
                    "model provider failed, another takes over",
                    metadata: ["provider": "\(failed)", "next": "\(next)", "error": "\(detail)"])
            })
    }

    private static func service(
        _ provider: ModelProviderSetting, key: String?, _ settings: ServeSettings
    ) -> any LanguageModel {
        var service = ModelService(baseURL: provider.url, apiKey: key)
        service.model = provider.model
        service.maxTokens = provider.maxTokens ?? settings.language.maxTokens
        service.hearsAudio = provider.hearsAudio
        service.seesImages = provider.seesImages
        service.firstTokenTimeout = settings.language.firstTokenTimeout
        service.totalTimeout = settings.language.totalTimeout
        service.retries = retries(settings)
        return provider.kind.model(at: service)
    }
}
