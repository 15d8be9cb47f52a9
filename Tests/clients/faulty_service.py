"""An HTTP service whose answers are given byte by byte, so that they can break every rule.

Each fault is one function. It gets the socket of a request that was read completely and writes what
it likes. Then the connection is closed."""

import contextlib
import json
import socket
import threading

from parley_server import free_port


class FaultyService:
    """Listens from `with` to its end. Each request uses up one of `answers`; without any, `good` is
    written. `requests` are the heads of the complete requests so far, `bodies` their bodies, and
    `connections` counts all.

    It has no list of models, which a server asks for when it starts, unless `lists_models` is set: then
    that request is one like others."""

    def __init__(self, good, lists_models=False):
        self.good = good
        self.lists_models = lists_models
        self.answers = []
        self.requests = []
        self.bodies = []
        self.connections = 0
        # No connection gets this port while the service does not listen.
        self.listener = socket.create_server(("127.0.0.1", free_port()), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.ending = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        threading.Thread(target=self.listen, args=(self.listener,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.refuse()

    def refuse(self):
        """Stops listening, so that connections are refused."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def listen_again(self):
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.__enter__()

    def listen(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            head, body = read_request(connection)
            if not head:
                return
            if head.startswith(b"GET /v1/models ") and not self.lists_models:
                self.connections -= 1
                connection.sendall(NO_LIST)
                return
            self.bodies.append(body)
            self.requests.append(head)
            answer = self.answers.pop(0) if self.answers else self.good
            if callable(answer):
                answer(connection, self)
            else:
                connection.sendall(answer)

    def wait_for_end(self, connection):
        """Waits until the client has closed or the service ends."""
        connection.settimeout(0.1)
        while not self.ending.is_set():
            try:
                if not connection.recv(65536):
                    return
            except TimeoutError:
                pass
            except OSError:
                return


def read_request(connection):
    """Reads a complete request, and returns its head and its body; nothing where it breaks off."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b"", b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(
        line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    if fields.get(b"expect"):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = int(fields.get(b"content-length", 0))
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            return b"", b""
        body += piece
    return head, body


def answer(body, kind="application/json", status=200, fields="", length=None):
    """The bytes of an answer."""
    length = len(body) if length is None else length
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
        f"Connection: close\r\n{fields}\r\n"
    ).encode() + body


def chunked(body, kind):
    """The bytes of an answer whose body the caller has framed."""
    return (
        f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode() + body


def silence(connection, service):
    """Sends no answer."""
    service.wait_for_end(connection)


def then_silence(data):
    """Sends bytes, and then nothing more."""
    def write(connection, service):
        connection.sendall(data)
        service.wait_for_end(connection)
    return write


def repeated(head, piece):
    """Sends bytes without end, as fast as they are read."""
    def write(connection, _):
        connection.sendall(head)
        while True:
            connection.sendall(piece * (65536 // len(piece) + 1))
    return write


def dripping(data):
    """Sends a byte every 20 ms: always some progress, but never an end."""
    def write(connection, service):
        for byte in data:
            connection.sendall(bytes([byte]))
            if service.ending.wait(0.02):
                return
        service.wait_for_end(connection)
    return write


# Faults of both kinds of services. `{}` is a body of the right media type.


def faults(kind, body):
    """Faults by name, for a service whose valid answer is `body` with a media type."""
    half = body[: len(body) // 2]
    head = answer(b"", kind, length=10 * len(body))
    error = json.dumps({"error": {"message": "no, with sk-secret", "code": "x"}}).encode()

    def status(number, fields=""):
        return answer(error, status=number, fields=fields)

    return {
        "closes at once": b"",
        "is silent": silence,
        "is silent after half a head": then_silence(b"HTTP/1.1 200 OK\r\nContent-"),
        "is silent after its head": then_silence(head),
        "is silent after half a body": then_silence(head + half),
        "drips a head": dripping(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000),
        "drips a body": dripping(head + bytes(10 * len(body))),
        "closes in the body": answer(half, kind, length=len(body)),
        "closes in a chunk": chunked(b"%x\r\n" % len(body) + half, kind),
        "frames chunks wrongly": chunked(b"zz\r\n" + body + b"\r\n0\r\n\r\n", kind),
        "frames a chunk of 2^64 bytes": chunked(b"1" + b"0" * 16 + b"\r\n" + body, kind),
        "frames a chunk of -1 bytes": chunked(b"-1\r\n" + body, kind),
        "writes chunk extensions for ever": repeated(chunked(b"", kind), b"1;" + b"x" * 1000),
        "says 400": status(400),
        "says 401": status(401),
        "says 413": status(413),
        "says 500": status(500),
        "says 503 and Retry-After 1e9": status(503, "Retry-After: 1000000000\r\n"),
        "says 429 and Retry-After 2^64": status(429, "Retry-After: 18446744073709551616\r\n"),
        "says 429 and Retry-After -1": status(429, "Retry-After: -1\r\n"),
        "says 429 and a date far away": status(
            429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n"),
        "says 429 and nonsense": status(429, "Retry-After: \x01soon\r\n"),
        "says 204": b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        "says 304": b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n",
        "says 999": answer(body, kind, status=999),
        "is no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n" * 100,
        "writes heads for ever": repeated(b"HTTP/1.1 200 OK\r\n", b"X-Field: y\r\n"),
        "writes one field for ever": repeated(b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        "says 100 for ever": repeated(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "has two lengths": (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n" + body),
        "has a length of -5": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        "has a length of 2^64": (
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n"),
        "claims gzip": answer(body, kind, fields="Content-Encoding: gzip\r\n"),
        "has an empty body": answer(b"", kind),
        "is a page": answer(b"<html>Log in first.</html>" * 500, "text/html"),
    }


NO_LIST = answer(b"", status=404)
