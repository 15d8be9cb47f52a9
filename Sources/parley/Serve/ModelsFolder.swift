// Where the speech models are when no option says so: a server that is started from another folder
// than its checkout hears and speaks, too.

import Codec
import Foundation

/// The folder of the speech models.
struct ModelsFolder: Equatable {
    /// The weights of voice activity detection, by which such a folder is known.
    static let weights = "silero_vad.bin"

    /// The folder. Where none was found, the first of the places.
    let path: String
    /// Where models were looked for, in order, if they are nowhere.
    let tried: [String]

    /// - Parameters:
    ///   - named: what the option names; nothing else is tried then.
    ///   - exists: whether a file is there.
    init(
        named: String?, environment: [String: String], executable: String,
        exists: (String) -> Bool
    ) {
        let places = named.map { [$0] } ?? Self.places(environment, executable: executable)
        let found = places.first { exists("\($0)/\(Self.weights)") }
        path = found ?? places[0]
        tried = found == nil ? places : []
    }

    /// The folder for this process.
    init(named: String?) {
        self.init(
            named: named, environment: ProcessInfo.processInfo.environment,
            executable: (try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/exe"))
                ?? "",
            exists: { FileManager.default.isReadableFile(atPath: $0) })
    }

    /// The usual places: the working directory, beside the executable, the checkout that it was built
    /// in, and `parley/models` in the data folders of its prefix, the user and the system (XDG Base
    /// Directory Specification 0.8).
    private static func places(_ environment: [String: String], executable: String) -> [String] {
        var places = ["models"]
        if let slash = executable.lastIndex(of: "/") {
            let folder = executable[..<slash]
            places.append("\(folder)/models")
            if let build = executable.range(of: "/.build/") {
                places.append("\(executable[..<build.lowerBound])/models")
            }
            if folder.hasSuffix("/bin") {
                places.append("\(folder.dropLast("/bin".count))/share/parley/models")
            }
        }
        func value(_ name: String) -> String? {
            environment[name].flatMap { $0.isEmpty ? nil : $0 }
        }
        var data = [value("XDG_DATA_HOME") ?? value("HOME").map { "\($0)/.local/share" }].compactMap
        { $0 }
        data += (value("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share").split(separator: ":")
            .map(String.init)
        for place in data.map({ "\($0)/parley/models" })
        where place.hasPrefix("/") && !places.contains(place) {
            places.append(place)
        }
        return places
    }
}
