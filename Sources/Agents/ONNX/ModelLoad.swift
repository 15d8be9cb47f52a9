// Loads a model of the ONNX runtime when it is first needed, after its files were compared with their
// checksums: a damaged library or model may end the process. A fault is kept until a file changes.

import CLinux
import Synchronization

/// Why a model cannot be loaded.
enum ModelFault: Error, Equatable {
    /// Not there, or not readable: the whole path, and why.
    case missing(String)
    /// The file could not be read now, for example because the process has no descriptor left. A
    /// later attempt may succeed.
    case unreadable(String)
    /// The file has another checksum.
    case damaged(String)
    /// What the runtime or a reader says. It may name files by their whole path.
    case refused(String)

    /// The fault in one line, for the operator.
    var reason: String {
        switch self {
        case .missing(let reason), .refused(let reason): reason
        case .unreadable(let file): "\(file) cannot be read"
        case .damaged(let file): "\(file) is damaged"
        }
    }

    /// Whether a later attempt may succeed with the same files.
    fileprivate var mayPass: Bool {
        if case .unreadable = self { return true }
        return false
    }

    /// The fault that checksums have found.
    init(_ fault: ModelChecksums.Fault) {
        switch fault {
        case .unreadable(let file): self = .unreadable(file)
        case .damaged(let file): self = .damaged(file)
        }
    }
}

/// The files of a model.
struct ModelFiles: Sendable {
    /// The models directory, with the runtime's library.
    let directory: String
    /// The folder of the model and of its SHA256SUMS within the directory. Nil for a model whose
    /// checksums are those of the directory.
    let folder: String?
    /// The model's own files, as paths in the folder.
    let names: [String]

    private var own: String { folder.map { "\(directory)/\($0)" } ?? directory }
    private var paths: [String] { names.map(path) + ["\(directory)/\(ONNXRuntime.library)"] }

    /// The whole path of a file of the folder.
    func path(_ name: String) -> String { "\(own)/\(name)" }

    /// A text in which files are named by their paths in the models directory.
    func withoutDirectory(_ text: String) -> String {
        text.replacing(directory + "/", with: "")
    }

    /// The sizes of the model's own files together; a missing one counts as empty.
    var bytes: Int {
        names.reduce(0) { sum, name in
            var status = stat()
            return stat(path(name), &status) == 0 ? sum + Int(status.st_size) : sum
        }
    }

    /// The first file that cannot be read, and why, in one line; nil when all can. They are not
    /// opened.
    var missing: String? {
        for path in paths where access(path, R_OK) != 0 {
            return "\(path): \(String(cString: strerror(parley_errno())))"
        }
        return nil
    }

    /// The state of each file, and of the checksums.
    fileprivate var stamps: [ModelChecksums.Stamp?] {
        (paths + [own, directory].map { "\($0)/\(ModelChecksums.fileName)" })
            .map { ModelChecksums.Stamp(path: $0) }
    }

    /// Throws where a file is missing, or is not what its checksum says. A folder without checksums
    /// is not checked.
    fileprivate func check() throws(ModelFault) {
        if let missing { throw .missing(missing) }
        if let fault = ModelChecksums(directory: own)?.firstFault(of: names) {
            throw ModelFault(fault)
        }
    }
}

/// A model that is loaded once. Any thread.
final class ModelLoad<Model: Sendable>: Sendable {
    private struct Known {
        let fault: ModelFault
        let stamps: [ModelChecksums.Stamp?]
    }

    let files: ModelFiles
    private let report: @Sendable (String) -> Void
    private let ready = Mutex<Model?>(nil)
    /// Locked while the model loads. Jobs that need it meanwhile wait on worker threads.
    private let known = Mutex<Known?>(nil)
    private let heap = Atomic<Int>(0)
    private let isAsked = Atomic(false)

    /// Nothing is loaded yet.
    /// - Parameter report: gets the reason why the model cannot be loaded, as a line for the operator,
    ///   once for each state of its files.
    init(_ files: ModelFiles, report: @escaping @Sendable (String) -> Void = { _ in }) {
        self.files = files
        self.report = report
    }

    /// The model, if it is loaded. Does not wait.
    var loaded: Model? { ready.withLock { $0 } }

    /// The heap that loading it has taken, in bytes; 0 before. It includes what threads that load no
    /// model allocated meanwhile.
    var heapBytes: Int { heap.load(ordering: .relaxed) }

    /// True for the first call: one event loop of all has the model loaded ahead of its use. A job of
    /// a second one would only wait on a worker thread.
    func isFirstToAsk() -> Bool { !isAsked.exchange(true, ordering: .relaxed) }

    /// The model, loaded by the first call. Call it on a worker thread.
    func model(
        _ load: (ModelFiles, ONNXRuntime) throws(ModelFault) -> Model
    ) throws(ModelFault) -> Model {
        if let loaded { return loaded }
        return try known.withLock { known throws(ModelFault) in
            if let loaded { return loaded }
            let stamps = files.stamps
            let isKnown = known?.stamps == stamps
            if isKnown, let fault = known?.fault, !fault.mayPass { throw fault }
            do throws(ModelFault) {
                try files.check()
                let model = try LoadedHeap.measured(heap) { () throws(ModelFault) in
                    try load(files, .opened(modelsDirectory: files.directory))
                }
                ready.withLock { $0 = model }
                known = nil
                return model
            } catch {
                if !isKnown { report(error.reason) }
                known = Known(fault: error, stamps: stamps)
                throw error
            }
        }
    }
}

/// What models take on the heap. One loads at a time in the process, so that none counts another.
private enum LoadedHeap {
    private static let one = Mutex(())

    static func measured<Model>(
        _ growth: borrowing Atomic<Int>, _ load: () throws(ModelFault) -> Model
    ) throws(ModelFault) -> Model {
        try one.withLock { _ throws(ModelFault) in
            let before = bytes
            let model = try load()
            growth.store(max(0, bytes - before), ordering: .relaxed)
            return model
        }
    }

    private static var bytes: Int {
        let heap = mallinfo2()
        return Int(heap.uordblks) + Int(heap.hblkhd)
    }
}
