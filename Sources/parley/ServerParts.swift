// Which agents and models a server runs with, chosen by its settings. Models of hundreds of
// megabytes are not read here: the recogniser loads its own when it is first needed.

import Agents
import CLinux
import Logging
import Server
import Session

/// The parts that `parley serve` hands to the server.
struct ServerParts {
    /// The language model, the recogniser and the synthesiser.
    let agents: AgentSet
    /// The weights of voice activity detection, or nil when they are not installed.
    let voiceActivityModel: VoiceActivityModel?

    /// Chooses the parts. A missing model is a warning that says what will not work.
    init(settings: ServeSettings, logger: Logger) {
        // Large messages live outside the heap, and their memory goes back to the kernel with them.
        // By itself malloc moves the limit to 32 MiB after the first, and then keeps holes of
        // hundreds of megabytes behind clients that are long gone. 1 MiB: no event of a call.
        mallopt(M_MMAP_THRESHOLD, 1 << 20)
        let model: any LanguageModel
        if let url = settings.modelURL {
            model = ChatCompletions(
                baseURL: url, apiKey: settings.modelKey, model: settings.modelName)
        } else {
            model = DemoAgent()
        }
        let recognizer = MoonshineRecognizer(modelsDirectory: settings.modelsDirectory)
        if !recognizer.isInstalled {
            logger.warning(
                "no speech recognition: what is said is not understood; run `make models`",
                metadata: ["models": "\(settings.modelsDirectory)"])
        }
        agents = AgentSet(
            model: model, recognizer: recognizer.isInstalled ? recognizer : nil,
            synthesizer: FliteSynthesizer())
        voiceActivityModel = Self.voiceActivityModel(in: settings.modelsDirectory, logger: logger)
        // The weights were read, checked and laid out anew; what that took goes back (1 MB).
        malloc_trim(0)
    }

    private static func voiceActivityModel(
        in directory: String, logger: Logger
    ) -> VoiceActivityModel? {
        let path = "\(directory)/silero_vad.bin"
        guard let content = try? readWholeFile(path) else {
            logger.warning(
                "no voice activity model: turns must be committed by the client; run `make models`",
                metadata: ["path": "\(path)"])
            return nil
        }
        do {
            return try VoiceActivityModel(weights: content)
        } catch {
            logger.warning(
                "the voice activity model cannot be used: turns must be committed by the client",
                metadata: ["path": "\(path)", "reason": "\(error)"])
            return nil
        }
    }
}
