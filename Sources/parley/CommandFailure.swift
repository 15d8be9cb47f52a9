// How a command ends when it cannot do its job: one line on standard error, one exit status.
// Argument mistakes that swift-argument-parser finds itself (talk's options) do not come here.

import ArgumentParser
import Codec
import Glibc

/// Why a command failed, as one line for a person.
struct CommandFailure: Error, Equatable, CustomStringConvertible {
    /// One line without the command's name: what failed, and what to do about it.
    var description: String
    /// Exit status. 1: it failed; 64 (`EX_USAGE` of sysexits.h): its arguments were wrong.
    var status: Int32 = 1
    /// The HTTP status with which a server has refused a request, or nil where something else
    /// failed.
    var httpStatus: Int?

    /// A failure because of a wrong option or configuration file.
    static func usage(_ description: String) -> CommandFailure {
        CommandFailure(description: description, status: 64)
    }
}

/// Runs a command's body and turns its `CommandFailure` into a line and an exit status.
func reportingFailure(_ body: () throws -> Void) throws {
    do {
        try body()
    } catch let failure as CommandFailure {
        reportLine(failure.description)
        throw ExitCode(failure.status)
    }
}

/// Writes one line for a person to standard error. Control characters are escaped: the text may
/// come from a server, a file or a model.
func reportLine(_ text: String) {
    writeAll("parley: \(text.visible())\n", to: STDERR_FILENO)
}

/// Writes text to a descriptor, and goes on after interruptions. When the reader or the terminal is
/// gone (EPIPE, EIO) the rest is dropped.
///
/// The text is written as it is: the caller makes text of others `visible` before.
func writeAll(_ text: String, to descriptor: Int32) {
    var text = text
    text.withUTF8 { writeAll(UnsafeRawBufferPointer($0), to: descriptor) }
}

/// Writes as much of a line as there is room for, and drops the rest: a log without a reader must
/// not delay the sessions of the thread that writes it.
func writeIfRoom(_ text: String, to descriptor: Int32) {
    var text = text
    text.withUTF8 { bytes in
        var rest = UnsafeRawBufferPointer(bytes)
        var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        while !rest.isEmpty, poll(&room, 1, 0) > 0, room.revents & Int16(POLLOUT) != 0 {
            // Up to PIPE_BUF bytes a pipe with room takes at once (pipe(7)).
            let written = write(descriptor, rest.baseAddress, min(rest.count, Int(PIPE_BUF)))
            guard written > 0 else { return }
            rest = UnsafeRawBufferPointer(rebasing: rest[written...])
        }
    }
}

/// Writes bytes as `writeAll` writes text.
func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) {
    var rest = bytes
    while !rest.isEmpty {
        let written = write(descriptor, rest.baseAddress, rest.count)
        if written > 0 {
            rest = UnsafeRawBufferPointer(rebasing: rest[written...])
        } else if errno != EINTR {
            return
        }
    }
}
