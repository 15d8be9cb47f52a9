// The memory of a part that may keep a model in this process. A part that is a recogniser and a
// synthesiser at once has one answer for both ports, so both refine this one.

/// The memory that a part adds to the process apart from any session.
public protocol ModelMemory: Sendable {
    /// Bytes that it adds to the process, at most: a model and what its runs take. They are the server's
    /// own memory, for which no client is refused or closed where the server's limit has room for them.
    /// 0, the default, where another machine does the work.
    /// - Parameter workers: threads that may run `AgentHost.compute` at once.
    func serverBytes(workers: Int) -> Int

    /// Bytes on the heap that it takes now: its model, once that is loaded. Any thread. 0, the default,
    /// where another machine does the work.
    var loadedBytes: Int { get }
}

extension ModelMemory {
    /// Nothing is kept in this process.
    public func serverBytes(workers: Int) -> Int { 0 }

    /// Nothing is kept in this process.
    public var loadedBytes: Int { 0 }
}
