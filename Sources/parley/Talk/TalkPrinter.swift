// Prints a conversation of `parley talk`: the words of both sides as they stream, or the events as
// JSON lines. It decides nothing about the conversation.
//
// Invariant: text of a server or a model cannot control the terminal. Line feeds and tabs of a
// speaker stay, but every line begins with one of the program's labels or with as many blanks. No
// reply can look like a line of this program.

import Codec
import Glibc

/// Prints a conversation to standard output.
struct TalkPrinter {
    /// The speaker of the line that is being written.
    private enum Speaker { case user, agent }

    /// As wide as the labels of the speakers.
    private static let indent = "       "

    /// Whether events are printed in place of a conversation.
    let printsJSON: Bool
    private var open: Speaker?

    /// Creates a printer that has printed nothing.
    init(printsJSON: Bool) { self.printsJSON = printsJSON }

    /// More of the user's transcript.
    mutating func showTranscript(_ text: String) { stream(text, of: .user, label: "you:   ") }

    /// More of the reply.
    mutating func showReply(_ text: String) { stream(text, of: .agent, label: "agent: ") }

    /// Shows a line of its own about the conversation, such as timings.
    mutating func showNote(_ text: String) {
        if printsJSON { return }
        endLine()
        writeAll("\(Self.indent)(\(text.visible()))\n", to: STDOUT_FILENO)
    }

    /// Shows an error that does not end the conversation.
    mutating func showError(_ text: String) {
        endLine()
        reportLine(text)
    }

    /// Shows an event as the server sent it, on one line.
    func showEvent(_ json: String) {
        if printsJSON { writeAll(json.visibleJSON + "\n", to: STDOUT_FILENO) }
    }

    /// Asks for a line of input.
    mutating func showPrompt() {
        if printsJSON { return }
        endLine()
        writeAll("you> ", to: STDOUT_FILENO)
    }

    /// The user has pressed Enter at the terminal, which has ended the line that is being streamed.
    mutating func handleEnter() {
        if isatty(STDOUT_FILENO) == 1 { open = nil }
    }

    /// Ends the line that is being streamed.
    mutating func endLine() {
        if open != nil { writeAll("\n", to: STDOUT_FILENO) }
        open = nil
    }

    private mutating func stream(_ text: String, of speaker: Speaker, label: String) {
        if printsJSON { return }
        if open != speaker {
            endLine()
            writeAll(label, to: STDOUT_FILENO)
            open = speaker
        }
        let lines = text.visible(.lines).replacing("\n", with: "\n" + Self.indent)
        writeAll(lines, to: STDOUT_FILENO)
    }
}
