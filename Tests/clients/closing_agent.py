"""A chat-completions agent on plain asyncio that says one sentence, never another word, and waits until
its caller closes the connection. `closed` gets the time of that, on the clock of `time.monotonic`.

Where the server closed a connection only once a write to it failed, the agent would wait for ever."""

import asyncio
import json
import re
import time

SENTENCE = "Once upon a time there was a server that never slept. "


class ClosingAgent:
    """Listens from `async with` to its end, on the clients' event loop."""

    def __init__(self):
        self.closed = asyncio.Queue()
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def serve(self, reader, writer):
        """Serves one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await reader.readexactly(int(re.search(r"content-length: *(\d+)", head, re.I)[1]))
            event = {"choices": [{"index": 0, "delta": {"content": SENTENCE}}]}
            data = f"data: {json.dumps(event)}\n\n".encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n" + f"{len(data):x}\r\n".encode() + data
                + b"\r\n")
            await writer.drain()
            await reader.read()
            self.closed.put_nowait(time.monotonic())
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.put_nowait(time.monotonic())
        finally:
            writer.close()
