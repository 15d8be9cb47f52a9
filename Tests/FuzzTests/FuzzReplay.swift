// Runs a target on inputs that are the same in every run: its samples, then mutations drawn from each
// seed. This happens in a process of its own, because a failed check or a trap ends it. The process
// announces every input, so that the test knows the one that ended it.

import Foundation
import Fuzz
import TestMaterial
import Testing

/// A target and its inputs, in order.
struct FuzzReplay {
    /// One input.
    struct Input: Equatable {
        /// What it is: `the sample "text"`, or `mutation 17 of seed 3`.
        let origin: String
        let bytes: [UInt8]
        /// The seed that it was drawn from; nil: it is a sample.
        var seed: UInt64?
    }

    /// What a test observes of the process.
    static let streams: [any PartialKeyPath<ExitTest.Result> & Sendable] = [
        \.standardOutputContent, \.standardErrorContent,
    ]
    /// The status of a process that has run all inputs. It is one of a failure, because the test
    /// expects a failure: it is given what a process has written only if that ends as expected.
    static let finished: CInt = 42
    /// Processor seconds after which a process counts as endless, and gets SIGXCPU. A target takes two.
    private static let maxProcessorSeconds: UInt = 120

    /// Mutations of a seed. All targets together take ten seconds of a core.
    private static let usualMutations = 500
    /// Those of the targets whose inputs take a tenth of a millisecond, and of the one whose inputs take
    /// three.
    private static let mutations = [
        "http_message": 1_500, "websocket_frames": 1_500, "deflate": 1_500,
        "connection_bytes": 150,
    ]

    let target: any FuzzTarget.Type
    let inputs: [Input]

    /// The replay of a target, with the words of a dictionary.
    init(_ target: any FuzzTarget.Type, words: [[UInt8]]) {
        self.target = target
        let samples = target.seeds
        var inputs = samples.map { Input(origin: "the sample \"\($0.name)\"", bytes: $0.bytes) }
        let mutator = FuzzMutator(samples: samples.map { $0.bytes }, words: words)
        for seed in Seeds.chosen(from: 0..<4) {
            var streams = SeededGenerator(seed: seed)
            for number in 0..<(Self.mutations[target.name] ?? Self.usualMutations) {
                var draw = streams.makeStream()
                inputs.append(
                    Input(
                        origin: "mutation \(number) of seed \(seed)",
                        bytes: mutator.mutation(&draw), seed: seed))
            }
        }
        self.inputs = inputs
    }

    /// The replay of the target with a name.
    init(named name: String) throws {
        self.init(
            try #require(FuzzTargets.named(name)), words: try FuzzDictionary.words(of: name))
    }

    /// Runs all inputs, and ends the process.
    func run() {
        var limit = rlimit(
            rlim_cur: Self.maxProcessorSeconds, rlim_max: Self.maxProcessorSeconds + 10)
        setrlimit(__rlimit_resource_t(RLIMIT_CPU.rawValue), &limit)
        for (number, input) in inputs.enumerated() {
            // Not through a buffer, whose bytes a trap loses.
            let line = "\(target.name) \(number)\n"
            _ = write(STDOUT_FILENO, line, line.utf8.count)
            input.bytes.withUnsafeBytes { target.run(FuzzInput($0)) }
        }
        exit(Self.finished)
    }
}

/// How a process ended before it had run all inputs.
struct ReplayFailure {
    /// Most characters of its last words that are shown.
    private static let maxShown = 2_000
    /// Where Swift begins a stack without names; the sanitizer's has them.
    private static let stack = "Current stack trace:"

    let target: String
    /// The input that ended it; nil: it had none yet.
    let input: FuzzReplay.Input?
    private let status: ExitStatus
    private let errors: String

    /// The failure of a process, or nil if it ran all inputs.
    /// - Parameter replay: makes what the process has run, by the name of its target.
    init?(
        _ result: ExitTest.Result,
        of replay: (String) throws -> FuzzReplay = { try FuzzReplay(named: $0) }
    ) throws {
        guard result.exitStatus != .exitCode(FuzzReplay.finished) else { return nil }
        let lines = String(decoding: result.standardOutputContent, as: UTF8.self)
            .split(separator: "\n")
        let words = lines.last?.split(separator: " ") ?? []
        let name = words.first.map(String.init) ?? "?"
        input = try words.last.flatMap { Int($0) }.map { try replay(name).inputs[$0] }
        target = name
        status = result.exitStatus
        let written = String(decoding: result.standardErrorContent, as: UTF8.self)
        errors = String(
            written.prefix(upTo: written.range(of: Self.stack)?.lowerBound ?? written.endIndex))
    }

    /// What happened, and how to run it again.
    /// - Parameter file: the file that holds the input, from the package's root.
    func explained(file: String) -> String {
        let seed = input?.seed.map { "PARLEY_SEED=\($0) " } ?? ""
        return """
            \(target): \(status) in \(input?.origin ?? "no input"), \(input?.bytes.count ?? 0) bytes
            \(errors.prefix(Self.maxShown).trimmingCharacters(in: .whitespacesAndNewlines))
            again: \(seed)make unit T=FuzzTests
            with a stack: make fuzz TARGET=\(target) INPUT=\(file)
            """
    }
}
