// Sends a fixed number of echoes, to count the server's instructions for each. A server under
// callgrind is 50 times slower, so no time is measured here.

import ArgumentParser
import CLinux

/// `parley-load echo-messages`: for scripts/count-instructions.sh.
struct EchoMessagesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "echo-messages", abstract: "Echo a number of messages.",
        shouldDisplay: false)

    @Option(help: "The server's port.") var port: UInt16
    @Option(help: "The server's process.") var process: Int32
    @Option(help: "The WebSocket's path.") var path = "/debug/echo"
    @Option(help: "Connections, which all send before the first receives.") var connections: Int
    @Option(help: "Bytes of a message.") var bytes: Int
    @Option(help: "Messages, all connections together.") var messages: Int

    func run() throws {
        let wire = EchoWire.webSocket(path: path)
        do throws(LoadFailure) {
            let echoes = try EchoLoop(
                to: EchoTarget(wire: wire, port: port, process: process), connections: connections)
            let exchange = EchoExchange(wire: wire, payloadBytes: bytes, depth: 1)
            for _ in 0..<messages / connections { try echoes.exchangeOnce(exchange) }
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }
}
