// Which recogniser hears which language, by what is installed in the folder of models:
//
//   moonshine-base-en/                      English (`make models`)
//   whisper-base/                           99 languages (`make languages`)
//   recognizers/LANGUAGE/                   one language, from elsewhere: a Whisper model
//   recognizers/multilingual/               a larger Whisper model, instead of whisper-base/
//
// docs/speech.md has the names of the files in these folders.

import Agents
import CLinux
import Logging
import Session

extension ServerParts {
    /// The recogniser of the embedded models, or nil where English cannot be heard, with a warning.
    /// - Throws: `CommandFailure` where a language that the settings name has no model.
    static func embeddedRecognizer(
        _ settings: ServeSettings, _ models: ModelsFolder, _ voiceActivity: VoiceActivityModel?,
        _ logger: Logger
    ) throws(CommandFailure) -> (any SpeechRecognizer)? {
        let named = settings.recognizerLanguages.map(\.description)
        let languages = named.isEmpty ? ["en"] : named
        let installed = InstalledRecognizers(
            models: models.path, voiceActivity: voiceActivity, logger)
        if languages == ["en"], installed.folder(of: "en") == nil {
            return english(models, voiceActivity, logger)
        }
        var single: [String: any SpeechRecognizer] = [:]
        for language in languages { single[language] = installed.recognizer(of: language) }
        let whisper = installed.multilingual
        if let missing = whisper.missingFile,
            let language = languages.first(where: { single[$0] == nil })
                ?? (languages.count > 1 ? languages[1] : nil)
        {
            throw CommandFailure(
                description: "recognizer-languages: \(language) is not installed; run "
                    + "`make languages` (\(missing))")
        }
        return LanguageRecognizer(languages: languages, single: single, whisper: whisper)
    }

    private static func english(
        _ models: ModelsFolder, _ voiceActivity: VoiceActivityModel?, _ logger: Logger
    ) -> MoonshineRecognizer? {
        let recognizer = MoonshineRecognizer(
            modelsDirectory: models.path, voiceActivity: voiceActivity)
        if let missing = recognizer.missingFile {
            logger.warning(
                "no speech recognition: speech is not transcribed; run `make models`",
                metadata: ["reason": "\(missing)"])
            return nil
        }
        if !recognizer.hasChecksums {
            logger.warning(
                "no checksums: a damaged speech model may end the server; run `make models`",
                metadata: ["models": "\(models.path)"])
        }
        return recognizer
    }
}

/// The recognisers in a folder of models.
struct InstalledRecognizers {
    private static let foreign = "recognizers"
    private static let multilingualName = "multilingual"

    let models: String
    let voiceActivity: VoiceActivityModel?
    let logger: Logger

    init(models: String, voiceActivity: VoiceActivityModel?, _ logger: Logger) {
        self.models = models
        self.voiceActivity = voiceActivity
        self.logger = logger
    }

    /// The folder of a language's own model within `models`, or nil where there is none.
    func folder(of name: String) -> String? {
        let folder = "\(Self.foreign)/\(name)"
        return access("\(models)/\(folder)", F_OK) == 0 ? folder : nil
    }

    /// The recogniser that hears one language, or nil where it has no model of its own.
    func recognizer(of language: String) -> (any SpeechRecognizer)? {
        if let folder = folder(of: language) { return elsewhere(in: folder) }
        guard language == "en" else { return nil }
        let moonshine = MoonshineRecognizer(
            modelsDirectory: models, voiceActivity: voiceActivity)
        return moonshine.isInstalled ? moonshine : nil
    }

    /// The recogniser of many languages: the one from elsewhere, or the one of `make languages`.
    var multilingual: WhisperRecognizer {
        folder(of: Self.multilingualName).flatMap(elsewhere)
            ?? whisper(in: WhisperRecognizer.baseFolder)
    }

    /// The model in a folder of `recognizers/`. A folder without one is nil and a warning.
    private func elsewhere(in folder: String) -> WhisperRecognizer? {
        let recognizer = whisper(in: folder)
        guard let missing = recognizer.missingFile else { return recognizer }
        logger.warning(
            "a folder of recognizers/ has no Whisper model (docs/speech.md)",
            metadata: ["folder": "\(folder)", "reason": "\(missing)"])
        return nil
    }

    private func whisper(in folder: String) -> WhisperRecognizer {
        WhisperRecognizer(folder: folder, modelsDirectory: models, voiceActivity: voiceActivity)
    }
}
