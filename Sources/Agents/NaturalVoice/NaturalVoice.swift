// Loads the natural voice when it is first needed. NaturalVoiceModel is the loaded voice.

/// The natural voice of a models directory. Any thread.
final class NaturalVoice: Sendable {
    /// Resident bytes of the loaded voice. 40 MB: the weights in the runtime's layout, the tables of
    /// phonemes, and the runtime's library (27 MB), which all models of a process share.
    static let loadedBytes = 40_000_000
    /// Additional bytes of each thread that runs it, at most. 35 MB: the work space of the longest
    /// clause, which the runtime keeps, and its spectra.
    static let runBytes = 35_000_000

    private typealias Files = NaturalVoiceModel.Files

    private let load: ModelLoad<NaturalVoiceModel>

    /// Nothing is loaded yet.
    /// - Parameter report: gets the reason why the voice cannot be loaded, as a line for the operator,
    ///   once for each state of its files.
    init(modelsDirectory: String, report: @escaping @Sendable (String) -> Void) {
        load = ModelLoad(
            ModelFiles(directory: modelsDirectory, folder: Files.folder, names: Files.all),
            report: report)
    }

    /// The first of its files that cannot be read, and why; nil when all can. They are not opened.
    var missingFile: String? { load.files.missing }

    /// The heap that loading it has taken; 0 before.
    var loadedHeapBytes: Int { load.heapBytes }

    /// The voice, if it is loaded. Does not wait.
    var loadedModel: NaturalVoiceModel? { load.loaded }

    /// True for the first call.
    func isFirstToAsk() -> Bool { load.isFirstToAsk() }

    /// The voice, loaded by the first call: about 0.2 s. Nil where it cannot be loaded, of which the
    /// operator is told.
    func model() -> NaturalVoiceModel? { try? load.model(Self.read) }

    private static func read(
        _ files: ModelFiles, _ runtime: ONNXRuntime
    ) throws(ModelFault) -> NaturalVoiceModel {
        let (phonemizer, symbols) = try tables(in: "\(files.directory)/\(Files.folder)")
        do throws(ONNXError) {
            return try NaturalVoiceModel(
                path: files.path(Files.model), phonemizer: phonemizer, symbols: symbols,
                runtime: runtime)
        } catch {
            throw .refused(error.message)
        }
    }

    private static func tables(
        in folder: String
    ) throws(ModelFault) -> (Phonemizer, PhonemeSymbols) {
        do throws(PhonemeTableError) {
            let text = try PhonemeTableFile.bytes(of: Files.symbols, in: folder)
            guard let symbols = PhonemeSymbols(String(decoding: text, as: UTF8.self)) else {
                throw .damaged(file: Files.symbols)
            }
            return (try Phonemizer(folder: folder), symbols)
        } catch {
            switch error {
            case .unreadable(let file): throw .unreadable(file)
            case .damaged(let file): throw .damaged(file)
            }
        }
    }
}
