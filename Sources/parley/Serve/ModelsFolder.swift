// Where the speech models are when no option says so: a server that is started from another folder
// than its checkout hears and speaks, too.

import Glibc

/// The folder of the speech models.
struct ModelsFolder: Equatable {
    /// The weights of voice activity detection, by which such a folder is recognised.
    static let weights = "silero_vad.bin"

    /// The folder. Where none was found, the first of the places.
    let path: String
    /// Where models were looked for, in order, up to where they were found.
    let tried: [String]

    /// - Parameters:
    ///   - named: the folder that the option names. Nothing else is tried then.
    ///   - variable: the value of a variable of the environment.
    ///   - exists: whether a file is there.
    init(
        named: String?, variable: (String) -> String?, executable: String,
        exists: (String) -> Bool
    ) {
        let places = named.map { [$0] } ?? Self.places(variable, executable: executable)
        let found = places.firstIndex { exists("\($0)/\(Self.weights)") }
        path = places[found ?? 0]
        tried = Array(places[...(found ?? places.count - 1)])
    }

    /// The folder for this process.
    init(named: String?) {
        let executable = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) {
            let count = readlink("/proc/self/exe", $0.baseAddress!, $0.count)
            return String(
                decoding: $0.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
        self.init(
            named: named, variable: environmentValue,
            executable: executable, exists: { access($0, R_OK) == 0 })
    }

    /// The usual places. `models` is looked for in the working directory, beside the executable, and
    /// in the checkout that it was built in. `parley/models` is looked for in the data folders of its
    /// prefix, the user and the system (XDG Base Directory Specification 0.8).
    private static func places(
        _ variable: (String) -> String?, executable: String
    ) -> [String] {
        var places = ["models"]
        if let slash = executable.lastIndex(of: "/") {
            let folder = executable[..<slash]
            places.append("\(folder)/models")
            let parts = executable.split(separator: "/")
            if let build = parts.firstIndex(of: ".build") {
                places.append("/" + (parts[..<build] + ["models"]).joined(separator: "/"))
            }
            if folder.hasSuffix("/bin") {
                places.append("\(folder.dropLast("/bin".count))/share/parley/models")
            }
        }
        func value(_ name: String) -> String? { variable(name).flatMap { $0.isEmpty ? nil : $0 } }
        var data = value("XDG_DATA_HOME") ?? value("HOME").map { "\($0)/.local/share" } ?? ""
        data += ":" + (value("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share")
        for place in data.split(separator: ":").map({ "\($0)/parley/models" })
        where place.hasPrefix("/") && !places.contains(place) {
            places.append(place)
        }
        return places
    }
}
