// What a fuzz target is, and the list of all. Two things run them: `make fuzz` under libFuzzer and the
// address sanitizer (Tests/FuzzProgram), and every run of the Swift tests on their samples and on fixed
// mutations of them (Tests/FuzzTests).
//
// The targets' files say what is fuzzed and checked.

/// A target: runs the code under test on the bytes of one input. All targets require a value or a
/// typed error, the same for any split, and never a trap.
package protocol FuzzTarget: SendableMetatype {
    /// Its name in PARLEY_FUZZ_TARGET.
    static var name: String { get }

    /// Inputs to start from, by name: a valid case of everything that the target reads.
    static var seeds: [(name: String, bytes: [UInt8])] { get }

    /// Runs one input; a failed check ends the process.
    static func run(_ input: FuzzInput)
}

/// The targets.
package enum FuzzTargets {
    /// All of them.
    package static let all: [any FuzzTarget.Type] = [
        HTTPMessageTarget.self, WebSocketFramesTarget.self, DeflateTarget.self,
        ClientEventTarget.self, OpusPacketsTarget.self, OggOpusTarget.self,
        OggOpusRecoveryTarget.self, ConnectionBytesTarget.self, SavedSessionTarget.self,
        TelephoneTarget.self,
    ]

    /// The target of a name; nil: there is none.
    package static func named(_ name: String) -> (any FuzzTarget.Type)? {
        all.first { $0.name == name }
    }
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
