"""A WebSocket client without a library, for thousands of connections or hundreds of thousands of messages a
second: the handshake on a plain socket, and messages as bytes."""

import json
import socket

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
)
EMPTY_MASK = b"\0\0\0\0"


def open_socket(port, path, fields=""):
    """A WebSocket, once its handshake is answered, and what came behind the answer."""
    connection = socket.create_connection(("127.0.0.1", port), 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(HANDSHAKE.format(path=path, fields=fields).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        received = connection.recv(65_536)
        if not received:
            break
        answer += received
    head, _, rest = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101"):
        raise RuntimeError(f"the handshake was refused: {head[:200]}")
    return connection, rest


def frame(opcode, payload):
    """A whole message of a client. A mask of zeros leaves the payload as it is."""
    size = len(payload)
    if size < 126:
        head = bytes([0x80 | size])
    elif size < 65_536:
        head = b"\xfe" + size.to_bytes(2, "big")
    else:
        head = b"\xff" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + head + EMPTY_MASK + payload


def text_frame(message):
    """A text, or a mapping as JSON, as a message."""
    return frame(1, (message if isinstance(message, str) else json.dumps(message)).encode())
