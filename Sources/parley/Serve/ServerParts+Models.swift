// Which language models a server asks: the demo agent, or a router over the servers that the
// settings name.

import Agents
import Logging
import Session

extension ServerParts {
    /// The model that answers turns.
    static func model(_ settings: ServeSettings, _ logger: Logger) -> any LanguageModel {
        var providers = settings.providers
        if let url = settings.modelURL {
            var standard = ModelProviderSetting(name: ServeSettings.standardProvider, url: url)
            standard.kind = settings.modelKind
            standard.model = settings.modelName
            standard.seesImages = settings.modelSeesImages
            standard.hearsAudio = settings.modelHearsAudio
            standard.fallback = settings.modelFallback
            providers.append(standard)
        }
        guard !providers.isEmpty else { return DemoAgent() }
        return ModelRouter(
            providers: providers.map { provider in
                let key =
                    provider.name == ServeSettings.standardProvider
                    ? settings.modelKey : provider.keyVariable.flatMap(environmentValue)
                return ModelProvider(
                    name: provider.name, patterns: provider.models,
                    model: service(provider, key: key, settings), fallback: provider.fallback,
                    health: ProviderHealth(
                        maxFailures: settings.failuresBeforePause, pause: settings.providerPause))
            },
            standard: ServeSettings.standardProvider,
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
        let limits = AnswerTimeLimits(
            firstToken: settings.firstTokenTimeout, total: settings.modelTotalTimeout)
        switch provider.kind {
        case .chat:
            return ChatCompletions(
                baseURL: provider.url, apiKey: key, model: provider.model,
                hearsAudio: provider.hearsAudio, seesImages: provider.seesImages, limits: limits,
                retries: retries(settings))
        case .anthropic:
            return AnthropicMessages(
                baseURL: provider.url, apiKey: key, model: provider.model,
                maxTokens: provider.maxTokens ?? settings.modelMaxTokens,
                seesImages: provider.seesImages, limits: limits, retries: retries(settings))
        case .responses:
            return OpenAIResponses(
                baseURL: provider.url, apiKey: key, model: provider.model,
                seesImages: provider.seesImages, limits: limits, retries: retries(settings))
        }
    }
}
