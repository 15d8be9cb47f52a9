// What `parley talk` shows: who said what, as it streams, or the events themselves as JSON lines.
// It decides nothing about the conversation.

import Glibc

/// Prints a conversation to standard output.
struct TalkPrinter {
    /// Whose line is being written.
    private enum Speaker { case user, agent }

    /// Whether events are printed in place of a conversation.
    let printsJSON: Bool
    private var open: Speaker?

    /// Creates a printer that has printed nothing.
    init(printsJSON: Bool) { self.printsJSON = printsJSON }

    /// More of what the user was heard to say.
    mutating func showTranscript(_ text: String) { stream(text, of: .user, label: "you:   ") }

    /// More of the reply.
    mutating func showReply(_ text: String) { stream(text, of: .agent, label: "agent: ") }

    /// A line of its own about the conversation, such as timings.
    mutating func showNote(_ text: String) {
        if printsJSON { return }
        endLine()
        writeAll("       (\(text))\n", to: STDOUT_FILENO)
    }

    /// Something went wrong that does not end the conversation.
    mutating func showError(_ text: String) {
        endLine()
        writeAll("parley: \(text)\n", to: STDERR_FILENO)
    }

    /// An event as the server sent it.
    func showEvent(_ json: String) {
        if printsJSON { writeAll(json + "\n", to: STDOUT_FILENO) }
    }

    /// Asks for a line of input.
    mutating func showPrompt() {
        if printsJSON { return }
        endLine()
        writeAll("you> ", to: STDOUT_FILENO)
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
        writeAll(text, to: STDOUT_FILENO)
    }
}
