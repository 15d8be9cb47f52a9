// Redis or Valkey as agents use it. The server implements it on the session's own shard
// (Server/Redis); tests implement it with a script. Which commands are sent is the agent's matter.

import Codec

/// A connection to a Redis server that agents share. All methods may be called from any async
/// context.
public protocol RedisCommands: Sendable {
    /// Sends a command and returns its reply. Commands of one task are carried out in their order.
    /// A script is loaded before its first use on a connection.
    /// - Parameter timeout: the longest wait for the reply. Nil is 1 s. `.zero` sets no limit, for
    ///   commands that wait, such as `XREAD` with `BLOCK`. Replies come in order: a command that
    ///   waits delays every later one on the same connection.
    /// - Throws: `RedisError`; `.unavailable` and `.overloaded` at once.
    func send(_ command: RedisCommand, timeout: Duration?) async throws(RedisError) -> RedisValue
}

extension RedisCommands {
    /// The same with the usual time limit.
    public func send(_ command: RedisCommand) async throws(RedisError) -> RedisValue {
        try await send(command, timeout: nil)
    }
}
