// libFuzzer's way in. One program holds all targets, so that the instrumented build is linked once;
// the environment variable PARLEY_FUZZ_TARGET names the one to run, because libFuzzer starts itself
// again with other arguments (`-merge`, `-fork`, `-minimize_crash`). With PARLEY_FUZZ_SEEDS it
// writes the first corpus of the target into that folder and ends.
//
// What is fuzzed, and with which oracle, is in the targets' files; `make fuzz` runs them all.

import CLinux
import Foundation
import Simulation

/// A target: what to do with the bytes of one run. Every one of them has the same oracle: a value
/// or a typed error, the same for any chunking, never a trap.
protocol FuzzTarget: SendableMetatype {
    /// What PARLEY_FUZZ_TARGET calls it.
    static var name: String { get }

    /// Inputs to start from, by name: a good case of everything that the target reads.
    static var seeds: [(name: String, bytes: [UInt8])] { get }

    /// Runs one input; a finding ends the process.
    static func run(_ input: FuzzInput)
}

/// The targets, and the one that this process runs.
enum FuzzTargets {
    static let all: [any FuzzTarget.Type] = [
        HTTPMessageTarget.self, WebSocketFramesTarget.self, DeflateTarget.self,
        ClientEventTarget.self, OpusPacketsTarget.self, OggOpusTarget.self,
        ConnectionBytesTarget.self,
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

/// libFuzzer calls it once, before it reads its arguments.
@_cdecl("LLVMFuzzerInitialize")
func initialize(_ argumentCount: UnsafeMutableRawPointer, _ arguments: UnsafeRawPointer) -> Int32 {
    // Tables that last as long as the process. Swift marks the kind of an enum in the upper bits of
    // the pointer to its content, which the leak detector then takes for lost.
    disableLeakDetection()
    let target = FuzzTargets.chosen
    _ = RealtimeSchema.shared
    enableLeakDetection()
    guard let folder = ProcessInfo.processInfo.environment["PARLEY_FUZZ_SEEDS"] else { return 0 }
    do {
        try FuzzTargets.writeSeeds(of: target, into: folder)
        // At once: what this function still holds is no leak.
        _exit(0)
    } catch {
        fatalError("cannot write the seeds: \(error)")
    }
}

/// libFuzzer calls it for every input.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> Int32 {
    FuzzTargets.chosen.run(FuzzInput(UnsafeRawBufferPointer(start: data, count: size)))
    return 0
}

/// Ends the process with a message when an expectation of a target does not hold; unlike
/// `precondition`, it says what was wrong in an optimised build too.
@inline(__always)
func require(
    _ condition: Bool, _ message: @autoclosure () -> String, line: UInt = #line,
    file: StaticString = #fileID
) {
    if !condition { fatalError(message(), file: file, line: line) }
}
