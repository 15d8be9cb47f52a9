// The inputs of a run of the claims: programs, recordings, descriptors. They are checked before it
// begins: a run takes half an hour, and a missing input would be found in its middle.

import CLinux
import Codec
import Foundation

/// The inputs of a run.
struct ClaimInputs {
    /// The missing inputs. A run begins only where the list is empty.
    var missing: [String] = []
    /// The unusual inputs, which do not stop a run.
    var warnings: [String] = []

    /// Debian's pocketsphinx-testdata.
    static let recordingsFolder = "/usr/share/pocketsphinx/test/data/librivox"
    /// Samples a second of the recordings.
    static let recordingHertz = 16_000

    /// Checks what the claims need.
    init(of claims: [Claim], paths: StackPaths) {
        checkPrograms(of: claims, paths)
        if claims.contains(where: { $0.name == "hot" }) {
            do throws(LoadFailure) {
                let found = try Self.recordings()
                warnings += found.others.map { "\($0); the hot session does without it" }
            } catch {
                missing.append(error.reason)
            }
        }
        if Machine.processors < 2 {
            missing.append("a second processor: one is for the server, one for the load")
        }
        let descriptors = raiseDescriptorLimit()
        if descriptors < 20_000 {
            warnings.append(
                "\(grouped(descriptors)) descriptors for a process: large claims need 20,000 "
                    + "(ulimit -Hn)")
        }
    }

    private mutating func checkPrograms(of claims: [Claim], _ paths: StackPaths) {
        var programs = ["/usr/bin/taskset": "util-linux", "/usr/bin/setpriv": "util-linux"]
        if claims.contains(where: { $0.name == "hello" }) { programs["/usr/bin/wrk"] = "wrk" }
        let stacks = Set(claims.flatMap { $0.contenders.map(\.stack) })
        let setUp = "scripts/setup-peers.sh nio"
        for stack in stacks {
            switch stack {
            case .parley: programs[paths.parley] = "make build"
            case .node, .nodeHTTP: programs["\(paths.environment)/bin/node"] = setUp
            case .fastapi, .picows: programs["\(paths.environment)/bin/python"] = setUp
            case .bun:
                programs["\(paths.environment)/bin/bun"] = setUp
                programs["\(paths.built)/long_backlog.so"] = setUp
            case .nio: programs[paths.nio] = setUp
            }
        }
        for (program, source) in programs.sorted(by: { $0.key < $1.key })
        where !FileManager.default.isExecutableFile(atPath: program) {
            missing.append("\(program) (\(source))")
        }
    }

    /// The recordings for the hot session: WAV files of one channel and 16 kHz.
    /// - Parameter folder: where they are.
    /// - Returns: their paths in the order of their names; and for every other WAV file what is wrong
    ///   with it.
    /// - Throws: `LoadFailure` when there is none.
    static func recordings(
        in folder: String = recordingsFolder
    ) throws(LoadFailure) -> (files: [String], others: [String]) {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        var (files, others): ([String], [String]) = ([], [])
        for name in names.sorted() where name.hasSuffix(".wav") {
            let path = "\(folder)/\(name)"
            do {
                let file = try WAVFile(parsing: readWholeFile(path))
                if file.rate.hertz == recordingHertz, file.channels == 1 {
                    files.append(path)
                } else {
                    others.append(
                        "\(path) has \(file.channels) channels of \(grouped(file.rate.hertz)) Hz "
                            + "instead of one of \(grouped(recordingHertz)) Hz")
                }
            } catch {
                others.append("\(path) is no usable WAV file: \(error)")
            }
        }
        guard !files.isEmpty else {
            throw LoadFailure(
                "a recording of one channel and 16 kHz in \(folder) (pocketsphinx-testdata)"
                    + (others.isEmpty ? "" : ": " + others.joined(separator: ", ")))
        }
        return (files, others)
    }
}
