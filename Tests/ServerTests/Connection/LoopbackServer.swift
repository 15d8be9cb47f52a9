// The whole server on real sockets, for the tests that need the kernel.

import Session
import Simulation

@testable import Server

/// Starts a server of two shards on a free port of this machine, unless `change` says otherwise.
/// Its model is silent. The limits that a client of a busy machine could miss are out of its way.
func startServer(
    log: LogRecord = LogRecord(), _ change: (inout ServerConfiguration) -> Void = { _ in }
) throws -> ParleyServer {
    var configuration = ServerConfiguration()
    configuration.listener.port = 0
    configuration.shards = 2
    configuration.workers.threads = 1
    configuration.connection.http.headerTimeout = HangGuard.duration
    configuration.connection.closeTimeout = HangGuard.duration
    configuration.drain.timeout = HangGuard.duration
    change(&configuration)
    let server = ParleyServer(
        configuration: configuration, agents: AgentSet(model: SilentModel()),
        voiceActivityModel: nil, logger: log.logger)
    try server.start()
    return server
}
