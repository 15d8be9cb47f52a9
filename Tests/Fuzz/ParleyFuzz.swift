// The entry points of libFuzzer. One program contains all targets, so that the instrumented build
// is linked once. The environment variable PARLEY_FUZZ_TARGET names the target to run, because
// libFuzzer restarts itself with other arguments (`-merge`, `-fork`, `-minimize_crash`). With
// PARLEY_FUZZ_SEEDS the program writes the target's first corpus into that folder and exits.
//
// The targets' files say what is fuzzed and checked; `make fuzz` runs all of them.

import CLinux
import Foundation
import Simulation

/// A target: runs the code under test on the bytes of one input. All targets require a value or a
/// typed error, the same for any split, and never a trap.
protocol FuzzTarget: SendableMetatype {
    /// Its name in PARLEY_FUZZ_TARGET.
    static var name: String { get }

    /// Inputs to start from, by name: a valid case of everything that the target reads.
    static var seeds: [(name: String, bytes: [UInt8])] { get }

    /// Runs one input; a failed check ends the process.
    static func run(_ input: FuzzInput)
}

/// All targets, and the one that this process runs.
enum FuzzTargets {
    static let all: [any FuzzTarget.Type] = [
        HTTPMessageTarget.self, WebSocketFramesTarget.self, DeflateTarget.self,
        ClientEventTarget.self, OpusPacketsTarget.self, OggOpusTarget.self,
        OggOpusRecoveryTarget.self, ConnectionBytesTarget.self, SavedSessionTarget.self,
        TelephoneTarget.self,
    ]

    static let chosen: any FuzzTarget.Type = choose()

    private static func choose() -> any FuzzTarget.Type {
        let name = ProcessInfo.processInfo.environment["PARLEY_FUZZ_TARGET"] ?? ""
        for target in all where target.name == name { return target }
        let names = all.map { $0.name }.joined(separator: ", ")
        FileHandle.standardError.write(
            Data("parley-fuzz: PARLEY_FUZZ_TARGET is to be one of \(names)\n".utf8))
        exit(2)
    }

    static func writeSeeds(of target: any FuzzTarget.Type, into folder: String) throws {
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true)
        for seed in target.seeds {
            try Data(seed.bytes).write(to: URL(filePath: folder).appending(path: seed.name))
        }
    }
}

@_silgen_name("__lsan_disable") private func disableLeakDetection()
@_silgen_name("__lsan_enable") private func enableLeakDetection()

/// libFuzzer calls this once, before it parses its arguments.
@_cdecl("LLVMFuzzerInitialize")
func initialize(_ argumentCount: UnsafeMutableRawPointer, _ arguments: UnsafeRawPointer) -> Int32 {
    // These tables live as long as the process. Swift marks the case of an enum in the upper bits
    // of its payload pointer, so the leak detector reports the payload as lost.
    disableLeakDetection()
    let target = FuzzTargets.chosen
    _ = (RealtimeSchema.shared, RealtimeSchema.beta)
    enableLeakDetection()
    guard let folder = ProcessInfo.processInfo.environment["PARLEY_FUZZ_SEEDS"] else { return 0 }
    do {
        try FuzzTargets.writeSeeds(of: target, into: folder)
        // Exits at once, because memory that this function still holds is not a leak.
        _exit(0)
    } catch {
        fatalError("cannot write the seeds: \(error)")
    }
}

/// libFuzzer calls this for every input.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> Int32 {
    FuzzTargets.chosen.run(FuzzInput(UnsafeRawBufferPointer(start: data, count: size)))
    return 0
}

/// Ends the process with a message if a check fails. Unlike `precondition`, it prints the message
/// in an optimised build too.
@inline(__always)
func require(
    _ condition: Bool, _ message: @autoclosure () -> String, line: UInt = #line,
    file: StaticString = #fileID
) {
    if !condition { fatalError(message(), file: file, line: line) }
}
