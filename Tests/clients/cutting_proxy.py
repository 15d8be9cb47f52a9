"""A TCP relay that cuts connections after a number of bytes, so that a test decides what is lost. It
knows nothing of WebSocket."""

import asyncio
import threading

from parley_server import HANG_GUARD


class CuttingProxy:
    """Relays to a server's port from `with` to its end.

    `cuts` has for the first sessions the bytes after which they are cut: of the server's with
    `of_server`, else of the client's behind its request. Later ones are not cut, and no pages.

    While `is_closed` is true, connections are refused at once, as by a network that is down; with
    `stays_closed` it is so after a cut. `target` may be changed for later connections.
    `freeze` makes black holes of all connections that there are: both sides keep an open socket, whose
    bytes are taken and go nowhere, as over a path that has died.
    `connections` counts the sessions', and `requests` are the heads of their requests."""

    def __init__(self, port, cuts=(), of_server=True, stays_closed=False):
        self.target = port
        self.cuts, self.of_server, self.stays_closed = list(cuts), of_server, stays_closed
        self.connections = 0
        self.requests = []
        self.is_closed = False
        self.freezes = 0
        self.loop = asyncio.new_event_loop()
        self.server = None
        self.writers, self.relays = set(), set()

    @property
    def port(self):
        return self.server.sockets[0].getsockname()[1]

    @property
    def realtime_url(self):
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def __enter__(self):
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        starting = asyncio.start_server(self.relay, "127.0.0.1", 0)
        self.server = asyncio.run_coroutine_threadsafe(starting, self.loop).result(HANG_GUARD)
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(HANG_GUARD)
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def end(self):
        """Accepts no more connections, and cuts those that there are."""
        self.server.close()
        for writer in list(self.writers):
            writer.transport.abort()
        await asyncio.gather(*self.relays, return_exceptions=True)

    def cut(self):
        """Cuts all connections."""
        for writer in list(self.writers):
            self.loop.call_soon_threadsafe(writer.transport.abort)

    def freeze(self):
        """Forwards nothing any more on the connections that there are. New ones work."""
        self.freezes += 1

    async def relay(self, reader, writer):
        if self.is_closed:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        self.relays.add(task)
        task.add_done_callback(self.relays.discard)
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.target)
        mine = {writer, upstream_writer}
        born = self.freezes

        def is_frozen():
            return self.freezes != born

        self.writers |= mine
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            limit = self.limit(request.decode())
            upstream_writer.write(request)
            await asyncio.gather(
                pump(reader, upstream_writer, None if self.of_server else limit, is_frozen),
                pump(upstream_reader, writer, limit if self.of_server else None, is_frozen))
        except Cut:
            self.is_closed = self.stays_closed
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers -= mine
            for each in mine:
                each.transport.abort()

    def limit(self, request):
        """Counts a session's connection, and returns after how many bytes it is cut."""
        if "/v1/realtime" not in request.split("\r\n")[0]:
            return None
        self.requests.append(request)
        self.connections += 1
        return self.cuts.pop(0) if self.cuts else None


class Cut(Exception):
    """A connection has reached its limit."""


async def pump(reader, writer, limit, is_frozen):
    """Forwards bytes in one direction until it ends, or the limit is reached."""
    while data := await reader.read(65536):
        if is_frozen():
            continue
        if limit is not None:
            data = data[:limit]
            limit -= len(data)
        writer.write(data)
        await writer.drain()
        if limit == 0:
            # What was written goes out before the end.
            if writer.can_write_eof():
                writer.write_eof()
            raise Cut
    # The other side of a path that has died does not even see the end.
    if writer.can_write_eof() and not is_frozen():
        writer.write_eof()
