// The entry points of libFuzzer. One program contains all targets, so that the instrumented build
// is linked once. The environment variable PARLEY_FUZZ_TARGET names the target to run, because
// libFuzzer restarts itself with other arguments (`-merge`, `-fork`, `-minimize_crash`). With
// PARLEY_FUZZ_SEEDS the program writes the target's first corpus into that folder and exits.
//
// The targets are in Tests/Fuzz; `make fuzz` runs all of them.

import CLinux
import Foundation
import Fuzz
import TestMaterial

/// The target that this process runs.
private let chosen: any FuzzTarget.Type = {
    let name = ProcessInfo.processInfo.environment["PARLEY_FUZZ_TARGET"] ?? ""
    if let target = FuzzTargets.named(name) { return target }
    let names = FuzzTargets.all.map { $0.name }.joined(separator: ", ")
    FileHandle.standardError.write(
        Data("parley-fuzz: PARLEY_FUZZ_TARGET is to be one of \(names)\n".utf8))
    exit(2)
}()

private func writeSeeds(of target: any FuzzTarget.Type, into folder: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    for seed in target.seeds {
        try Data(seed.bytes).write(to: URL(filePath: folder).appending(path: seed.name))
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
    let target = chosen
    _ = (RealtimeSchema.shared, RealtimeSchema.beta)
    enableLeakDetection()
    guard let folder = ProcessInfo.processInfo.environment["PARLEY_FUZZ_SEEDS"] else { return 0 }
    do {
        try writeSeeds(of: target, into: folder)
        // Exits at once, because memory that this function still holds is not a leak.
        _exit(0)
    } catch {
        fatalError("cannot write the seeds: \(error)")
    }
}

/// libFuzzer calls this for every input.
@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ data: UnsafePointer<UInt8>, _ size: Int) -> Int32 {
    chosen.run(FuzzInput(UnsafeRawBufferPointer(start: data, count: size)))
    return 0
}
