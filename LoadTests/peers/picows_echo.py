# The echo server of picows' README (the core API, the faster of its two), on uvloop as in its
# benchmark. python picows_echo.py PORT
import sys

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server


class Echo(WSListener):
    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        else:
            transport.send(frame.msg_type, frame.get_payload_as_memoryview())


async def main() -> None:
    def make_listener(request: WSUpgradeRequest) -> WSListener:
        return Echo()

    server = await ws_create_server(make_listener, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()


uvloop.run(main())
