// The Prometheus text of the providers of models: turns by outcome, fallbacks, pauses. They are
// counted in Agents; their names are the operator's, checked when the configuration is read.

import Codec
import Session

extension MetricsText {
    /// Writes the outcomes of each provider's turns; nothing where there is no provider.
    func write(_ providers: [ModelProviderCounts], into text: inout ByteWriter) {
        guard !providers.isEmpty else { return }
        let turns = "parley_model_turns_total"
        writeHead(turns, "counter", "Turns of model providers, by outcome.", into: &text)
        for provider in providers {
            let outcomes = [
                ("completed", provider.completed), ("failed", provider.failed),
                ("cancelled", provider.cancelled), ("skipped", provider.skipped),
            ]
            for (outcome, count) in outcomes {
                let label = "provider=\"\(provider.name)\",outcome=\"\(outcome)\""
                writeLine(turns, label, "\(count)", into: &text)
            }
        }
        let fallbacks = "parley_model_fallbacks_total"
        writeHead(
            fallbacks, "counter", "Turns that a provider took over from another that had failed.",
            into: &text)
        for provider in providers {
            writeLine(
                fallbacks, "provider=\"\(provider.name)\"", "\(provider.fallbacks)", into: &text)
        }
        let pauses = "parley_model_provider_paused"
        writeHead(
            pauses, "gauge", "1 while a provider is left alone after failures in a row.",
            into: &text)
        for provider in providers {
            writeLine(
                pauses, "provider=\"\(provider.name)\"", provider.isPaused ? "1" : "0",
                into: &text)
        }
    }
}
