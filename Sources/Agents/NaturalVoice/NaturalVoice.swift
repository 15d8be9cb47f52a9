// Loads the natural voice when it is first needed, and checks its files before: a damaged library or
// model may end the process. NaturalVoiceModel is the loaded voice.

import CLinux
import Session
import Synchronization

/// The natural voice of a models directory. Any thread.
final class NaturalVoice: Sendable {
    /// Resident bytes of the loaded voice. 110 MB: the weights in the runtime's layout, and its
    /// library; 99 MB were measured.
    static let loadedBytes = 110_000_000
    /// Additional bytes of each thread that runs it, at most. They are 60 MB, the work space of the
    /// longest clause, which the runtime keeps. 49 to 56 MB were measured with one to four threads.
    static let runBytes = 60_000_000

    /// The error of a server without the voice.
    static let notInstalled = AgentError.unavailable(
        message: "The natural voice is not installed: run `make voice`.")

    private enum State {
        case notLoaded
        case loaded(NaturalVoiceModel)
        /// A file is damaged. The files are checked again once one of them has changed.
        case damaged(file: String, stamps: [ModelChecksums.Stamp?])
    }

    private let directory: String
    /// Locked while the voice loads, so that it is loaded once.
    private let state = Mutex(State.notLoaded)
    private let loaded = Atomic<Int>(0)
    private let loading = Atomic<Bool>(false)

    /// Nothing is loaded yet.
    init(modelsDirectory: String) { directory = modelsDirectory }

    private typealias Files = NaturalVoiceModel.Files
    private var folder: String { "\(directory)/\(Files.folder)" }
    private var paths: [String] {
        Files.own.map { "\(folder)/\($0)" } + ["\(directory)/\(ONNXRuntime.library)"]
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
    var loadedHeapBytes: Int { loaded.load(ordering: .relaxed) }

    /// Whether a thread is loading the voice. Others would wait for it.
    var isLoading: Bool { loading.load(ordering: .relaxed) }

    /// The voice, loaded by the first call: about a second.
    /// - Throws: `AgentError.unavailable`; a later call tries again.
    func model() throws(AgentError) -> NaturalVoiceModel {
        try state.withLock { state throws(AgentError) in
            if case .loaded(let model) = state { return model }
            guard missingFile == nil else { throw Self.notInstalled }
            loading.store(true, ordering: .relaxed)
            defer { loading.store(false, ordering: .relaxed) }
            let stamps = stamps
            if case .damaged(let file, stamps) = state { throw Self.damaged(file) }
            state = .notLoaded
            switch firstFault {
            case nil: break
            case .unreadable(let file): throw Self.unusable("cannot be read", file)
            case .damaged(let file):
                state = .damaged(file: file, stamps: stamps)
                throw Self.damaged(file)
            }
            let before = Self.heapBytes
            let model = try load()
            loaded.store(max(0, Self.heapBytes - before), ordering: .relaxed)
            state = .loaded(model)
            return model
        }
    }

    /// Compares the files with their checksums, which takes about 0.1 s. A folder without checksums
    /// is not checked.
    private var firstFault: ModelChecksums.Fault? {
        ModelChecksums(directory: folder)?.firstFault(of: Files.own)
            ?? ModelChecksums(directory: directory)?.firstFault(of: [ONNXRuntime.library])
    }

    private func load() throws(AgentError) -> NaturalVoiceModel {
        guard let text = Self.text(at: "\(folder)/\(Files.phonemes)"),
            let phonemes = PhonemeTable(text)
        else { throw Self.unusable("cannot be read", Files.phonemes) }
        do throws(ONNXError) {
            return try NaturalVoiceModel(directory: directory, phonemes: phonemes)
        } catch {
            // The runtime names files by their whole path, which the client must not learn.
            throw Self.unusable(
                "cannot be loaded", error.message.replacing(directory + "/", with: ""))
        }
    }

    private static func damaged(_ file: String) -> AgentError { unusable("is damaged", file) }

    private static func unusable(_ fault: String, _ detail: String) -> AgentError {
        .unavailable(message: "The natural voice \(fault) (\(detail)): run `make voice`.")
    }

    private static func text(at path: String) -> String? {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: PhonemeTable.maxFileBytes)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 0, count < bytes.count else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    private static var heapBytes: Int {
        let heap = mallinfo2()
        return Int(heap.uordblks) + Int(heap.hblkhd)
    }
}
