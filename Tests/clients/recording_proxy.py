"""A TCP relay between a client and the server. It records every text message of a WebSocket and
checks every server event against the protocol's tables.

It forwards the bytes unchanged, so that the client's own handshake, extensions and frames reach the
server, and no client needs a change. It does not check RFC 6455; the conformance suite does."""

import asyncio
import contextlib
import json
import threading
import time
import zlib

from event_schema import schema
from parley_server import HANG_GUARD


class RecordingProxy:
    """Relays to a server's port from `with` to its end, which fails if an event was wrong.

    `sent` are the client's events and `received` the server's, parsed, of all connections in order
    of arrival. `requests` are the heads of HTTP requests, `answers` those of the answers."""

    def __init__(self, port):
        self.target = port
        self.sent, self.received, self.requests, self.answers = [], [], [], []
        self.violations = []
        self.connections = 0
        self.loop = asyncio.new_event_loop()
        self.server = None
        self.writers, self.relays = set(), set()

    @property
    def port(self):
        return self.server.sockets[0].getsockname()[1]

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

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
        # Checked before other failures, because a wrong event may be their cause.
        assert not self.violations, "\n".join(self.violations)

    async def end(self):
        """Accepts no more connections, and gives open ones a moment to close normally."""
        self.server.close()
        if self.relays:
            await asyncio.wait(self.relays, timeout=1)
        for writer in list(self.writers):
            writer.transport.abort()
        await asyncio.gather(*self.relays, return_exceptions=True)

    def cut(self):
        """Cuts all connections, like a network failure."""
        for writer in list(self.writers):
            self.loop.call_soon_threadsafe(writer.transport.abort)

    async def relay(self, reader, writer):
        self.connections += 1
        self.relays.add(asyncio.current_task())
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.target)
        mine = {writer, upstream_writer}
        self.writers |= mine
        answer = Tap(self.answers, self.take_server_text)
        # The server's answer decides what the client may compress.
        request = Tap(self.requests, self.take_client_text, answer)
        try:
            await asyncio.gather(
                pump(reader, upstream_writer, request), pump(upstream_reader, writer, answer))
        except OSError:
            pass  # One side has closed, so the other is closed too.
        finally:
            self.writers -= mine
            self.relays.discard(asyncio.current_task())
            for each in mine:
                each.close()

    def take_client_text(self, text):
        self.sent.append(json.loads(text))

    def take_server_text(self, text):
        self.violations += [f"{each} in {text[:300]}" for each in schema().violations(text)]
        with contextlib.suppress(ValueError):
            self.received.append(json.loads(text))

    async def until(self, is_wanted, after=0):
        """The first event after the first `after` ones that has the type, or for which the test is
        true."""
        deadline = time.monotonic() + HANG_GUARD
        place = after
        while True:
            for event in self.received[place:]:
                place += 1
                if event["type"] == is_wanted if isinstance(is_wanted, str) else is_wanted(event):
                    return event
            if time.monotonic() > deadline:
                kinds = [event["type"] for event in self.received[after:]]
                raise AssertionError(f"{is_wanted} did not come: {compact(kinds)}")
            await asyncio.sleep(0.01)

    def of(self, *types):
        """The received events of these types."""
        return [event for event in self.received if event["type"] in types]


async def pump(reader, writer, tap):
    """Forwards bytes in one direction until it ends."""
    while data := await reader.read(65536):
        # Recorded first: when a client has received an event, it is in the record.
        tap.feed(data)
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


class Tap:
    """Finds HTTP heads, and the text messages once a connection is a WebSocket."""

    def __init__(self, heads, take_text, answer=None):
        self.heads, self.take_text = heads, take_text
        # For the client's direction, the tap of the other one; None for the server's.
        self.answer = answer
        self.buffer = bytearray()
        self.extensions = None
        self.message = bytearray()
        self.is_text = self.is_compressed = False
        self.inflater = zlib.decompressobj(-15)

    def feed(self, data):
        self.buffer += data
        if self.extensions is None and not self.take_head():
            return
        while self.take_frame():
            pass

    def take_head(self):
        """Reads a head. Returns whether the connection is a WebSocket from here on."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.buffer[:end]).decode("latin-1")
        del self.buffer[: end + 4]
        self.heads.append(head)
        if "\nupgrade: websocket" in head.lower():
            self.extensions = next(
                (line for line in head.lower().split("\r\n")
                 if line.startswith("sec-websocket-extensions:")), "")
            return True
        # A body, which is not recorded.
        self.buffer.clear()
        return False

    def take_frame(self):
        buffer = self.buffer
        if len(buffer) < 2:
            return False
        length, start = buffer[1] & 127, 2
        if length > 125:
            start = 4 if length == 126 else 10
            length = int.from_bytes(buffer[2:start], "big")
        mask_start, start = start, start + (4 if buffer[1] & 128 else 0)
        if len(buffer) < start + length:
            return False
        payload = bytes(buffer[start : start + length])
        if start > mask_start:
            key = bytes(buffer[mask_start:start]) * (length // 4 + 1)
            masked = int.from_bytes(payload, "big") ^ int.from_bytes(key[:length], "big")
            payload = masked.to_bytes(length, "big")
        first = buffer[0]
        del buffer[: start + length]
        if first & 15 < 8:
            self.take_data(first, payload)
        return True

    def take_data(self, first, payload):
        """Handles a frame of a message: text, binary, or a continuation."""
        if first & 15:
            self.is_text = first & 15 == 1
            self.is_compressed = bool(first & 64)
            self.message.clear()
        self.message += payload
        if not first & 128:
            return
        data = bytes(self.message)
        if self.is_compressed:
            data = self.inflater.decompress(data + b"\0\0\xff\xff")
            side = "client" if self.answer else "server"
            agreed = (self.answer or self).extensions
            if f"{side}_no_context_takeover" in agreed:
                self.inflater = zlib.decompressobj(-15)
        if self.is_text:
            self.take_text(data.decode())


def compact(kinds):
    """Names, with counts for repetitions."""
    runs = []
    for kind in kinds:
        if runs and runs[-1][0] == kind:
            runs[-1][1] += 1
        else:
            runs.append([kind, 1])
    return [kind if count == 1 else f"{kind} x{count}" for kind, count in runs]
