// The two ways to type: one line given on the command line, and a chat at the terminal.

import Glibc

/// One line, and its answer.
struct TypedTurn {
    private let line: String
    private let conversation: TalkConversation

    /// Creates a turn that has not been sent.
    init(_ line: String, in conversation: TalkConversation) {
        self.line = line
        self.conversation = conversation
    }

    /// Sends the line and follows the answer to its end.
    /// - Throws: a `CommandFailure` when the turn failed or took longer than 120 s.
    func run() throws {
        let start = monotonicSeconds()
        try conversation.send(line: line)
        while !conversation.isTurnOver(at: monotonicSeconds()) && conversation.failures.isEmpty {
            guard monotonicSeconds() - start < 120 else {
                throw CommandFailure(description: "no complete reply within 120 s")
            }
            try conversation.step(
                until: conversation.progress.isTurnOver ? conversation.playedOut : start + 120)
        }
        conversation.showTimings(since: start, of: "the line was sent")
        try conversation.checkTurn()
    }
}

/// A chat at the terminal, until the end of standard input.
struct TypedChat {
    private let conversation: TalkConversation
    /// Whether a person types, and not a program through a pipe.
    private let isTerminal = isatty(STDIN_FILENO) == 1
    private var typed: [UInt8] = []
    /// The line that has interrupted the reply, until the reply has ended.
    private var interruption: String?
    private var isInputOver = false

    /// Creates a chat in a conversation that has begun.
    init(_ conversation: TalkConversation) { self.conversation = conversation }

    /// Reads lines and answers. A line that a person types during a reply interrupts it; lines from
    /// a pipe wait for the end of the reply, so that each has its whole answer.
    /// - Throws: a `CommandFailure` when the connection is lost.
    consuming func run() throws {
        conversation.endsWithSession = false
        if isTerminal {
            conversation.printer.showNote("type and press Enter; Ctrl-D ends")
        }
        conversation.printer.showPrompt()
        while true {
            if !isWaitingForReply {
                if let line = interruption.take() {
                    conversation.printer.showTranscript(line)
                    conversation.printer.endLine()
                    try conversation.send(line: line)
                    continue
                }
                if let line = nextLine() {
                    try say(line)
                    continue
                }
                if isInputOver { break }
            } else if isTerminal, interruption == nil, conversation.progress.isResponding,
                let line = nextLine()
            {
                try interrupt(with: line)
                continue
            }
            let isReadable = try conversation.client.wait(
                alsoFor: isInputOver ? nil : STDIN_FILENO, until: monotonicSeconds() + 3_600)
            if isReadable { readInput() }
            try followWaitingMessages()
        }
        conversation.printer.endLine()
        if isTerminal { writeAll("\n", to: STDOUT_FILENO) }
    }

    private var isWaitingForReply: Bool {
        conversation.progress.turnCount > 0 && !conversation.progress.isTurnOver
            && conversation.failures.isEmpty
    }

    private func say(_ line: String) throws {
        if line.allSatisfy(\.isWhitespace) {
            conversation.printer.showPrompt()
        } else {
            try conversation.send(line: line)
        }
    }

    private mutating func interrupt(with line: String) throws {
        conversation.printer.handleEnter()
        if line.allSatisfy(\.isWhitespace) { return }
        interruption = line
        try conversation.interrupt()
    }

    private func followWaitingMessages() throws {
        let wasWaiting = isWaitingForReply
        while conversation.client.hasMessage { try conversation.step(until: 0) }
        if wasWaiting && !isWaitingForReply && interruption == nil {
            conversation.printer.showPrompt()
        }
    }

    /// The next whole typed line. At the end of input, it may be one without a newline.
    private mutating func nextLine() -> String? {
        if let end = typed.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: typed[..<end], as: UTF8.self)
            typed.removeSubrange(...end)
            return line
        }
        guard isInputOver, !typed.isEmpty else { return nil }
        defer { typed = [] }
        return String(decoding: typed, as: UTF8.self)
    }

    private mutating func readInput() {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = read(STDIN_FILENO, &buffer, buffer.count)
        if count > 0 {
            typed.append(contentsOf: buffer[..<count])
        } else if count == 0 || errno != EINTR {
            isInputOver = true
        }
    }
}
