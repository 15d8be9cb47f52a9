// A program of alsa-utils at the other end of a pipe: arecord to read from, or aplay to write to.
// MicrophoneConversation decides what is written to the pipe.

import CLinux
import Codec
import Glibc

/// A running program whose standard input or output is `descriptor`'s other end; ends with this
/// object.
final class SoundProgram {
    /// Which stream of the program is connected.
    enum Stream { case input, output }

    /// The end of the pipe that is ours.
    let descriptor: Int32
    private let process: pid_t

    /// Starts a program of `PATH` that takes or gives raw mono samples.
    /// - Returns: nil when it cannot be started.
    init?(_ name: String, _ stream: Stream, rate: SampleRate) {
        guard let ends = Self.makePipe() else { return nil }
        let (theirs, ours) = stream == .input ? (ends.read, ends.write) : (ends.write, ends.read)
        defer { close(theirs) }
        let arguments = [
            name, "-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", String(rate.hertz),
        ]
        let target = stream == .input ? STDIN_FILENO : STDOUT_FILENO
        guard let process = Self.spawn(arguments, connecting: theirs, to: target) else {
            close(ours)
            return nil
        }
        self.process = process
        descriptor = ours
    }

    deinit {
        close(descriptor)
        kill(process, SIGTERM)
        // Both programs end at once on the signal. An exit status that is not read leaves a zombie.
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    }

    /// Whether `PATH` has a program.
    static func isInstalled(_ name: String) -> Bool {
        (environmentValue("PATH") ?? "").split(separator: ":")
            .contains { access("\($0)/\(name)", X_OK) == 0 }
    }

    private static func makePipe() -> (read: Int32, write: Int32)? {
        var ends: [Int32] = [-1, -1]
        // Closed in programs that start later: a pipe ends when its last descriptor does.
        return pipe2(&ends, O_CLOEXEC) == 0 ? (ends[0], ends[1]) : nil
    }

    private static func spawn(
        _ arguments: [String], connecting descriptor: Int32, to stream: Int32
    ) -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, descriptor, stream)
        var texts = arguments.map { strdup($0) } + [nil]
        defer { texts.forEach { free($0) } }
        var process: pid_t = 0
        let status = posix_spawnp(
            &process, arguments[0], &actions, nil, &texts, parley_environment())
        return status == 0 ? process : nil
    }
}
