// A front for tests alone: a message is a line that the user says, and a reply is a line. It shows what a
// protocol takes, and that nothing of the server but the table of routes has to know of it.

import Codec
import Session

@testable import Server

/// Says each line that comes, and sends each reply as one line.
final class LineFront: Front {
    static let route = Route(
        path: "/line", methods: [.get], access: .session, pages: .sameOrigin,
        summary: "A session in lines of text.", service: .webSocket(.front { _ in LineFront() }),
        content: { RouteContent(answers: []) })

    let subprotocol = "line"
    private var reply = ""

    var heldBytes: Int { HeapBlock.object(LineFront.self) + reply.heapBytes }

    func adapt(_ parameters: inout SessionParameters) {
        parameters.outputModality = .text
        parameters.turnDetection = nil
    }

    func receive(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection,
        _ host: any FrontHost
    ) -> Int {
        guard opcode == .text else {
            host.closeWebSocket(connection, .unsupportedData, reason: "Lines are text.")
            return 1
        }
        guard let live = connection.live, host.admitsEvent(of: live) else { return 1 }
        let line = String(decoding: message, as: UTF8.self)
        host.step(live) { $0.handleTypedTurn(line, at: host.now) }
        return host.spendWork(WorkPrice.turn, byteCount: message.count, of: connection)
    }

    func show(_ event: ServerEvent, on connection: Connection, _ host: any FrontHost) {
        switch event {
        case .responseOutputTextDelta(_, let delta): reply += delta
        case .responseDone(let response):
            if case .failed(_, _, let message, _) = response.status { reply = message }
            host.send(as: .text, on: connection) { $0.append(reply) }
            reply = ""
        default: break
        }
    }

    func play(_ packet: OutputAudioPacket, on connection: Connection, _ host: any FrontHost) {}
}
