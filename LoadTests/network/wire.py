"""A WebSocket client (RFC 6455) that knows where each message lies in the bytes of its connection.

No library tells that. It speaks what Parley sends and nothing more: whole messages, pings, a close."""

import asyncio
import base64
import os
import struct
import time

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA


class Wire(asyncio.Protocol):
    """`messages` gets (time, first byte's offset, text or bytes) of each, and None at the end. Offsets count from the
    first byte of the connection, as `Stream` does."""

    def __init__(self, host, path):
        self.host, self.path = host, path
        self.messages = asyncio.Queue()
        self.buffer, self.consumed, self.written = bytearray(), 0, 0
        self.is_open = False
        self.transport = None
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        self.write(
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
            .encode())

    def connection_lost(self, error):
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed before the upgrade"))
        self.messages.put_nowait(None)

    @property
    def waiting_bytes(self):
        """Bytes that the kernel has not taken, as a page's `bufferedAmount`."""
        return self.transport.get_write_buffer_size()

    def send(self, message):
        """Sends a text or bytes. Returns the offset behind its last byte."""
        is_text = isinstance(message, str)
        self.frame(TEXT if is_text else BINARY, message.encode() if is_text else message)
        return self.written

    def frame(self, opcode, payload):
        size = len(payload)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
        else:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
        # A mask of zeros is a mask: the payload stays as it is.
        self.write(head + bytes(4) + payload)

    def write(self, data):
        if self.transport.is_closing():
            return
        self.written += len(data)
        self.transport.write(data)

    def data_received(self, data):
        now = time.monotonic()
        self.buffer += data
        if not self.is_open:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            status = bytes(self.buffer[: self.buffer.find(b"\r\n")])
            if b" 101 " not in status:
                self.opened.set_exception(ConnectionError(status.decode()))
                self.transport.close()
                return
            self.take(end + 4)
            self.is_open = True
            self.opened.set_result(None)
        while self.read_frame(now):
            pass

    def read_frame(self, now):
        if len(self.buffer) < 2:
            return False
        opcode, size, start = self.buffer[0] & 15, self.buffer[1] & 127, 2
        if size > 125:
            start = 4 if size == 126 else 10
            if len(self.buffer) < start:
                return False
            size = int.from_bytes(self.buffer[2:start], "big")
        if len(self.buffer) < start + size:
            return False
        offset, payload = self.consumed, bytes(self.buffer[start : start + size])
        self.take(start + size)
        if opcode == PING:
            self.frame(PONG, payload)
        elif opcode == CLOSE:
            self.transport.close()
        elif opcode in (TEXT, BINARY):
            self.messages.put_nowait((now, offset, payload.decode() if opcode == TEXT else payload))
        return True

    def take(self, count):
        del self.buffer[:count]
        self.consumed += count


async def open_wire(host, port, path):
    _, wire = await asyncio.get_running_loop().create_connection(
        lambda: Wire(f"{host}:{port}", path), host, port)
    await wire.opened
    return wire
