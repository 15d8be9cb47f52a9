// Valid samples of everything that a peer may send. They form the first corpus of the fuzz targets,
// so that fuzzing starts at the parsers' success paths instead of having to find them. Known
// invalid cases are in named tests elsewhere.

import Codec

/// Text under a name.
struct TextSample {
    let name: String
    let text: String

    init(_ name: String, _ text: String) {
        self.name = name
        self.text = text
    }
}

/// Messages of HTTP/1.1.
enum HTTPSamples {
    /// The key of RFC 6455 §1.3.
    static let key = "dGhlIHNhbXBsZSBub25jZQ=="

    static let requests = [
        TextSample("get", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        TextSample("head", "HEAD / HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n"),
        TextSample("old", "GET /metrics HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        TextSample("asterisk", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        TextSample(
            "absolute", "GET http://localhost/x?y=1%20z HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        TextSample("body", "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"),
        TextSample(
            "chunked",
            "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "3;q=1\r\nabc\r\n0\r\nT: u\r\n\r\n"),
        TextSample(
            "continue",
            "PUT /x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                + "Content-Length: 1\r\n\r\nz"
        ),
        TextSample(
            "pipelined",
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\n"
                + "Host: localhost\r\nConnection: close\r\n\r\n"),
        TextSample("session", upgrade(to: "/v1/realtime?model=m")),
        TextSample("echo", upgrade(to: "/debug/echo")),
    ]

    /// Headers of the PROXY protocol: an IPv4 client, an IPv6 client, a health check.
    static let proxyHeaders: [(name: String, bytes: [UInt8])] = {
        let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]
        let address: [UInt8] = [203, 0, 113, 9, 127, 0, 0, 1, 200, 1, 31, 144]
        let wide = [0x20, 1, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 27) + [1, 0, 80, 1, 187]
        return [
            ("v4", signature + [0x21, 0x11, 0, 12] + address),
            ("v6", signature + [0x21, 0x21, 0, 36] + wide),
            ("local", signature + [0x20, 0, 0, 0]),
        ]
    }()

    /// A request for a WebSocket as browsers send it.
    /// - Parameter isForwarded: whether a proxy has passed it on.
    static func upgrade(to target: String, isForwarded: Bool = true) -> String {
        "GET \(target) HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Origin: http://localhost\r\n"
            + (isForwarded ? "X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\n" : "")
            + "Sec-WebSocket-Key: \(key)\r\nSec-WebSocket-Version: 13\r\n"
            + "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.x\r\n"
            + "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
    }

    static let responses = [
        TextSample("ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        TextSample("interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        TextSample(
            "chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nrest"),
        TextSample("until-close", "HTTP/1.0 200\r\nServer: s\r\n\r\nbody"),
        TextSample(
            "switching",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                + "Sec-WebSocket-Protocol: realtime\r\n\r\n"),
    ]

    static let eventStreams = [
        TextSample("data", "data: {\"a\":1}\n\ndata: [DONE]\n\n"),
        TextSample("typed", "\u{FEFF}event: add\r\ndata: one\r\ndata:two\r\n\r\n: comment\n\r"),
        TextSample("other-fields", "id: 1\rretry: 2\rdata\r\r"),
    ]
}

/// Frames of RFC 6455.
enum WebSocketSamples {
    /// All four bytes differ, so that a wrong offset shows.
    static let mask: UInt32 = 0x3D21_FA37

    /// Frames under a name.
    struct Stream {
        let name: String
        let frames: [(opcode: WebSocketOpcode, isFinal: Bool, payload: [UInt8])]

        /// The frames as a client (with a mask) or a server sends them.
        func bytes(mask: UInt32?) -> [UInt8] {
            var wire = ByteWriter(capacity: 256)
            for frame in frames {
                frame.payload.withUnsafeBytes {
                    WebSocketFrame.write(
                        frame.opcode, payload: $0, isFinal: frame.isFinal, mask: mask, into: &wire)
                }
            }
            return wire.copiedBytes
        }
    }

    static let streams = [
        Stream(name: "text", frames: [(.text, true, Array("héllo €".utf8))]),
        Stream(name: "empty", frames: [(.text, true, []), (.binary, true, [])]),
        Stream(name: "medium", frames: [(.binary, true, [UInt8](repeating: 7, count: 200))]),
        Stream(
            name: "fragments",
            frames: [
                (.text, false, Array("a".utf8)), (.ping, true, [1, 2]),
                (.continuation, false, [0xE2, 0x82]), (.pong, true, []),
                (.continuation, true, [0xAC]),
            ]),
        Stream(
            name: "close",
            frames: [(.text, true, [65]), (.close, true, [3, 232] + Array("bye".utf8))]),
        Stream(name: "plain-close", frames: [(.close, true, [])]),
    ]
}

/// Messages of an operator's page.
enum OperatorSamples {
    /// A request for its WebSocket, from the server's own machine.
    static let upgrade = HTTPSamples.upgrade(to: "/admin/live", isForwarded: false)

    /// Every command.
    /// - Parameter id: of the session that is watched and closed.
    static func all(naming id: String) -> [TextSample] {
        [
            TextSample("sessions", #"{"type":"sessions.watch"}"#),
            TextSample(
                "sessions-full",
                #"{"type":"sessions.watch","sort":"latency","order":"ascending","state":"idle","#
                    + #""limit":100,"search":"m","after":"-7:\#(id)"}"#),
            TextSample(
                "sessions-before",
                #"{"type":"sessions.watch","sort":"id","limit":1,"before":"0:\#(id)"}"#),
            TextSample(
                "sessions-last",
                #"{"type":"sessions.watch","sort":"age","state":"connection","before":""}"#),
            TextSample("sessions-none", #"{"type":"sessions.unwatch"}"#),
            TextSample("watch", #"{"type":"session.watch","id":"\#(id)"}"#),
            TextSample("unwatch", #"{"type":"session.unwatch"}"#),
            TextSample("close", #"{"type":"session.close","id":"\#(id)"}"#),
            TextSample("drain", #"{"type":"server.drain"}"#),
        ]
    }
}

/// Events of a client.
enum EventSamples {
    static let muLaw =
        #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
        + #""format":{"type":"audio/pcmu"},"turn_detection":null},"#
        + #""output":{"format":{"type":"audio/pcmu"},"transport":"binary"}}}}"#

    /// A session in the beta's dialect.
    static let beta =
        #"{"type":"session.update","session":{"modalities":["text","audio"],"voice":"alloy","#
        + #""input_audio_format":"g711_ulaw","temperature":0.8,"tool_choice":"f","#
        + #""max_response_output_tokens":"inf"}}"#

    static let textOnly =
        #"{"type":"session.update","session":{"type":"realtime","#
        + #""output_modalities":["text"],"instructions":"Be brief."}}"#

    static let question =
        #"{"type":"conversation.item.create","item":{"id":"q","type":"message","role":"user","#
        + #""content":[{"type":"input_text","text":"h\u00e9"}]},"previous_item_id":"root"}"#

    static let all = [
        TextSample("append", #"{"type":"input_audio_buffer.append","audio":"AQIDBA=="}"#),
        TextSample("commit", #"{"type":"input_audio_buffer.commit","event_id":"e1"}"#),
        TextSample("clear", #"{"type":"input_audio_buffer.clear"}"#),
        TextSample("clear-output", #"{"type":"output_audio_buffer.clear"}"#),
        TextSample("ping", #"{"type":"parley.ping"}"#),
        TextSample(
            "played",
            #"{"type":"output_audio_buffer.played","item_id":"i","content_index":0,"#
                + #""audio_end_ms":20}"#),
        TextSample("delete", #"{"type":"conversation.item.delete","item_id":"q"}"#),
        TextSample("retrieve", #"{"type":"conversation.item.retrieve","item_id":"q"}"#),
        TextSample(
            "truncate",
            #"{"type":"conversation.item.truncate","item_id":"q","content_index":0,"#
                + #""audio_end_ms":1500}"#),
        TextSample("cancel", #"{"type":"response.cancel","response_id":"r"}"#),
        TextSample("create", #"{"type":"response.create"}"#),
        TextSample(
            "create-full",
            #"{"type":"response.create","response":{"conversation":"none","#
                + #""instructions":"i","metadata":{"k":"v"},"output_modalities":["text"],"#
                + #""max_output_tokens":"inf","tool_choice":"auto","input":[]}}"#),
        TextSample("question", question),
        TextSample("text-only", textOnly),
        TextSample("mu-law", muLaw),
        TextSample(
            "rates",
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
                + #""format":{"type":"audio/pcm","rate":16000}},"#
                + #""output":{"format":{"type":"audio/pcm","rate":48000}}}}}"#),
        TextSample(
            "session-full",
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
                + #""format":{"type":"audio/pcm","rate":24000},"noise_reduction":null,"#
                + #""transcription":{"model":"w","language":"en","prompt":"p"},"#
                + #""turn_detection":{"type":"server_vad","threshold":0.5,"#
                + #""prefix_padding_ms":300,"silence_duration_ms":500,"#
                + #""create_response":true,"interrupt_response":true,"idle_timeout_ms":6000}},"#
                + #""output":{"format":{"type":"audio/opus"},"voice":"marin","speed":1.25}},"#
                + #""tools":[{"type":"function","name":"f","description":"d","#
                + #""parameters":{"type":"object"}}],"tool_choice":"auto","#
                + #""max_output_tokens":100,"truncation":"auto","tracing":"auto"}}"#),
        TextSample(
            "call",
            #"{"type":"conversation.item.create","item":{"type":"function_call","#
                + #""name":"f","call_id":"c","arguments":"{}"}}"#),
        TextSample(
            "call-output",
            #"{"type":"conversation.item.create","item":{"type":"function_call_output","#
                + #""call_id":"c","output":"42"}}"#),
    ]

    /// A conversation in order.
    static let conversation = [
        textOnly, question, #"{"type":"response.create"}"#, #"{"type":"response.cancel"}"#,
        #"{"type":"conversation.item.retrieve","item_id":"q"}"#,
        #"{"type":"conversation.item.delete","item_id":"q"}"#,
    ]
}
