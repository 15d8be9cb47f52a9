// A terminal for a full-screen program: keys are read at once and without echo, lines are shown on
// the alternate screen, and the terminal is restored at the end. The caller makes the lines.
// Sequences: ECMA-48 and xterm's private modes, which every terminal emulator knows.
//
// Invariant: the screen is restored when the object goes, also when a signal ends the program.

import CLinux
import Glibc
import Synchronization

/// The terminal of standard input and output, as a screen of its own while this object lives.
final class Terminal {
    /// Whether a signal has asked for the end.
    private static let isInterrupted = Atomic<Bool>(false)

    private let original: termios

    /// Takes control of the terminal.
    /// - Throws: a `CommandFailure` when there is none.
    init() throws(CommandFailure) {
        var settings = termios()
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1,
            tcgetattr(STDIN_FILENO, &settings) == 0
        else { throw .usage("top needs a terminal; --once prints one table without") }
        original = settings
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal(number) { _ in Terminal.isInterrupted.store(true, ordering: .relaxed) }
        }
        // Waiting ends with any signal (poll(2)); the new size is then read like any other.
        signal(SIGWINCH) { _ in }
        cfmakeraw(&settings)
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings)
        // The alternate screen, without a cursor.
        writeAll("\u{1B}[?1049h\u{1B}[?25l", to: STDOUT_FILENO)
    }

    deinit {
        writeAll("\u{1B}[0m\u{1B}[?25h\u{1B}[?1049l", to: STDOUT_FILENO)
        var settings = original
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings)
    }

    /// Whether a signal has asked for the end.
    var isInterrupted: Bool { Self.isInterrupted.load(ordering: .relaxed) }

    /// The size in characters and lines; 80 by 24 where the terminal does not report it.
    var size: (width: Int, height: Int) {
        let packed = parley_terminal_size(STDOUT_FILENO)
        let (width, height) = (Int(packed >> 16), Int(packed & 0xFFFF))
        return (width > 0 ? width : 80, height > 0 ? height : 24)
    }

    /// Replaces the screen's lines.
    func show(_ lines: [TopLine]) {
        var text = "\u{1B}[H"
        for (index, line) in lines.enumerated() {
            if index > 0 { text += "\r\n" }
            switch line.style {
            case .plain: text += line.text
            case .bold: text += "\u{1B}[1m\(line.text)\u{1B}[0m"
            case .reversed: text += "\u{1B}[7m\(line.text)\u{1B}[0m"
            }
            text += "\u{1B}[K"
        }
        writeAll(text + "\u{1B}[J", to: STDOUT_FILENO)
    }

    /// The bytes that were typed until a time on `monotonicSeconds()`; empty where none were typed
    /// or a signal came. The result is nil where the input has ended.
    func read(until deadline: Double) -> [UInt8]? {
        var entry = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        let left = min(max(0, deadline - monotonicSeconds()), 3_600)
        guard poll(&entry, 1, Int32((left * 1_000).rounded(.up))) > 0 else { return [] }
        return withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            let count = Glibc.read(STDIN_FILENO, buffer.baseAddress, buffer.count)
            if count < 0, errno == EINTR { return [] }
            return count > 0 ? Array(buffer[..<count]) : nil
        }
    }
}
