// Options of `parley serve` for what connections make the process hold. What is counted, and who is
// given up beyond a limit, is the server's business; the ranges here are held against
// SettingRange's by a test.

extension ServeOptionTable {
    static let memory: [ServeOption] = [
        .integer(
            "max-connection-memory-bytes", \.server.maxConnectionMemoryBytes,
            0...((4 << 30) - 1), unit: "bytes", in: .limits,
            """
            What one connection, or one turn over HTTP, may make the server hold in all; more \
            closes it with 1008. 0 is no limit. The default is above all that the other limits \
            allow of one kind.
            """),
        .integer(
            "max-memory-bytes", \.server.maxMemoryBytes, 0...(65_536 << 30), unit: "bytes",
            in: .limits,
            """
            What the whole process may hold, by its own count or the kernel's, whichever is more. \
            The server's own memory and its models are part of it; once clients hold nine tenths \
            of the rest, new sessions get 503, and beyond the limit those that hold the most are \
            closed with 1013. 0 is no limit. The default is four fifths of what its control group \
            or the machine has.
            """),
    ]
}
