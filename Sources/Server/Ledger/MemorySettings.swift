// How much memory a connection may make a server hold, and how much the process may take.

import Session

/// Limits of memory.
public struct MemorySettings: Sendable {
    /// 64 MiB: more than the largest message (21 MiB), a full conversation with its images (9) and
    /// the output of a client that stalls (8) together.
    public var maxConnectionBytes = 64 << 20
    /// Four fifths of what the control group or the machine has: the kernel needs the rest for its
    /// sockets. Each process counts alone: several in one group need a share each.
    public var maxBytes = Self.standardBytes

    static let settings: [Setting<Self>] = [
        .integer(
            "max-connection-memory-bytes", \.maxConnectionBytes, 0...((4 << 30) - 1),
            unit: "bytes",
            """
            Memory that the server may hold for one connection or one text request over HTTP; \
            more closes it with 1008. 0 is no limit. The default is above all that the \
            other limits allow.
            """),
        .integer(
            "max-memory-bytes", \.maxBytes, 0...(65_536 << 30), unit: "bytes",
            """
            Memory of the whole process, by its own count or the kernel's, whichever is more. \
            The server's own memory and its models are part of it. Once clients hold \
            nine tenths of the rest, new sessions are answered with 503; beyond the limit the \
            connections that hold the most are closed with 1013. 0 is no limit. The default \
            is four fifths of what the control group or the machine has.
            """),
    ]

    /// The default limit: four fifths of the memory that the control group or the machine gives
    /// the process. The rest is for a burst between two looks, and for the kernel: it takes some
    /// 4 kB for every idle connection, and buffers bytes in sockets. Where the available memory is
    /// not known, the limit is 0, which is none.
    private static let standardBytes = (ProcessMemory.available ?? 0) / 5 * 4
}
