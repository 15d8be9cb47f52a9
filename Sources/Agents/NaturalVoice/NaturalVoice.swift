// Loads the natural voice when it is first needed, and checks its files before: a damaged library or
// model may end the process. NaturalVoiceModel is the loaded voice.

import CLinux
import Session
import Synchronization

/// The natural voice of a models directory. Any thread.
final class NaturalVoice: Sendable {
    /// Resident bytes of the loaded voice. 40 MB: the weights in the runtime's layout, the tables of
    /// phonemes, and the runtime's library, which the recogniser maps, too.
    static let loadedBytes = 40_000_000
    /// Additional bytes of each thread that runs it, at most. 35 MB: the work space of the longest
    /// clause, which the runtime keeps, and its spectra.
    static let runBytes = 35_000_000

    private typealias Files = NaturalVoiceModel.Files

    private enum State {
        case notLoaded
        case loaded(NaturalVoiceModel)
        /// The voice cannot be loaded. It is tried again once one of its files has changed.
        case faulty(stamps: [ModelChecksums.Stamp?])
    }

    private let directory: String
    private let report: @Sendable (String) -> Void
    /// Locked while the voice loads, so that it is loaded once.
    private let state = Mutex(State.notLoaded)
    private let ready = Mutex<NaturalVoiceModel?>(nil)
    private let loadedHeap = Atomic<Int>(0)

    /// Nothing is loaded yet.
    /// - Parameter report: gets the reason why the voice cannot be loaded, as a line for the operator,
    ///   once for each state of its files.
    init(modelsDirectory: String, report: @escaping @Sendable (String) -> Void) {
        directory = modelsDirectory
        self.report = report
    }

    private var folder: String { "\(directory)/\(Files.folder)" }
    private var paths: [String] {
        Files.own.map { "\(folder)/\($0)" } + ["\(directory)/\(Files.runtime)"]
    }

    /// The state of each file, and of the checksums.
    private var stamps: [ModelChecksums.Stamp?] {
        (paths + [folder, directory].map { "\($0)/\(ModelChecksums.fileName)" })
            .map { ModelChecksums.Stamp(path: $0) }
    }

    /// The first of its files that cannot be read, and why; nil when all can. They are not opened.
    var missingFile: String? {
        for path in paths where access(path, R_OK) != 0 {
            return "\(path): \(String(cString: strerror(parley_errno())))"
        }
        return nil
    }

    /// The heap that loading it has taken; 0 before.
    var loadedHeapBytes: Int { loadedHeap.load(ordering: .relaxed) }

    /// The voice, if it is loaded. Does not wait.
    var loadedModel: NaturalVoiceModel? { ready.withLock { $0 } }

    /// The voice, loaded by the first call: about 0.2 s. Nil where it cannot be loaded, of which the
    /// operator is told.
    func model() -> NaturalVoiceModel? {
        state.withLock { state in
            if case .loaded(let model) = state { return model }
            let stamps = stamps
            if case .faulty(stamps) = state { return nil }
            do throws(Fault) {
                let before = Self.heapBytes
                let model = try load()
                loadedHeap.store(max(0, Self.heapBytes - before), ordering: .relaxed)
                ready.withLock { $0 = model }
                state = .loaded(model)
                return model
            } catch {
                state = .faulty(stamps: stamps)
                report(error.reason)
                return nil
            }
        }
    }

    /// Why the voice cannot be loaded.
    private struct Fault: Error { let reason: String }

    /// Compares the files with their checksums, which takes about 0.03 s, and loads them. A folder
    /// without checksums is not checked.
    private func load() throws(Fault) -> NaturalVoiceModel {
        if let missing = missingFile { throw Fault(reason: missing) }
        let fault =
            ModelChecksums(directory: folder)?.firstFault(of: Files.own)
            ?? ModelChecksums(directory: directory)?.firstFault(of: [Files.runtime])
        switch fault {
        case nil: break
        case .unreadable(let file): throw Fault(reason: "\(file) cannot be read")
        case .damaged(let file): throw Fault(reason: "\(file) is damaged")
        }
        let (phonemizer, symbols) = try tables()
        do throws(ONNXError) {
            return try NaturalVoiceModel(
                directory: directory, phonemizer: phonemizer, symbols: symbols)
        } catch {
            throw Fault(reason: error.message)
        }
    }

    private func tables() throws(Fault) -> (Phonemizer, PhonemeSymbols) {
        do throws(PhonemeTableError) {
            let text = try PhonemeTableFile.bytes(of: Files.symbols, in: folder)
            guard let symbols = PhonemeSymbols(String(decoding: text, as: UTF8.self)) else {
                throw .damaged(file: Files.symbols)
            }
            return (try Phonemizer(folder: folder), symbols)
        } catch {
            switch error {
            case .unreadable(let file): throw Fault(reason: "\(file) cannot be read")
            case .damaged(let file): throw Fault(reason: "\(file) is damaged")
            }
        }
    }

    private static var heapBytes: Int {
        let heap = mallinfo2()
        return Int(heap.uordblks) + Int(heap.hblkhd)
    }
}
