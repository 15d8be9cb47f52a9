"""Peers that try to crash the server or exhaust its memory, where this needs a real kernel: the
answers they get, the cost, and that an echo beside them continues.
Tests/ServerTests/WebSocket/BadInputTests.swift tests the inputs themselves on a simulated kernel.
test_admission.py has foreign Origins and a process without file descriptors."""

import contextlib
import functools
import os
import random
import socket
import ssl
import struct
import subprocess
import time
import zlib

import pytest
from parley_server import HANG_GUARD, ParleyServer
from test_admission import cpu_seconds
from test_http import exchange, status_of, upgrade

MIB = 1 << 20
HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
DEFLATE = ("Sec-WebSocket-Extensions", "permessage-deflate; client_no_context_takeover")


def frame(opcode, payload=b"", final=True, compressed=False):
    """A client's frame with a mask of zeros."""
    first = opcode | (0x80 if final else 0) | (0x40 if compressed else 0)
    size = len(payload)
    if size < 126:
        head = bytes([first, 0x80 | size])
    elif size < 1 << 16:
        head = struct.pack(">BBH", first, 0xFE, size)
    else:
        head = struct.pack(">BBQ", first, 0xFF, size)
    return head + bytes(4) + payload


class RawWebSocket:
    """A socket after the WebSocket handshake; the test decides what to send."""

    def __init__(self, server, target="/debug/echo", fields=(), wrap=None):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=HANG_GUARD)
        if wrap:
            self.socket = wrap(self.socket)
        self.socket.sendall(upgrade(*fields, target=target))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = self.socket.recv(1)
            assert piece, head
            head += piece
        assert status_of(head) == 101

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(min(size - len(data), MIB))
            if not piece:
                raise EOFError
            data += piece
        return data

    def next(self):
        """Opcode and payload of the next frame. A ping of the server, which comes where the test is slow, is
        answered."""
        while (found := self.next_of_any())[0] == 9:
            self.send(frame(10, found[1]))
        return found

    def next_of_any(self):
        first, size = self.read(2)
        if size == 126:
            (size,) = struct.unpack(">H", self.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self.read(8))
        return first & 15, self.read(size)

    def send(self, data):
        """Sends as much as the server accepts, and does not wait for the rest."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            self.socket.sendall(data)

    def close_code(self):
        """The code of the server's Close, after any other frames."""
        while True:
            opcode, payload = self.next()
            if opcode == 8:
                return struct.unpack(">H", payload[:2])[0]

    def expect_echo(self):
        self.socket.sendall(frame(2, b"still there?"))
        assert self.next() == (2, b"still there?")

    def reset(self):
        reset(self.socket)


def reset(connection):
    """Closes with a RST, like a process that died."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def peak_bytes(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def expect_settled(server, before):
    """Requires that in the end no more descriptors are open than before, and that the server uses
    no CPU."""
    deadline = time.monotonic() + HANG_GUARD
    while descriptors(server) > before:
        assert time.monotonic() < deadline, "connections are left"
        time.sleep(0.05)
    # A busy loop uses all of this time, what peers leave behind one percent of it.
    while True:
        begun = cpu_seconds(server.process.pid)
        time.sleep(0.3)
        if cpu_seconds(server.process.pid) - begun < 0.1:
            return
        assert time.monotonic() < deadline, "it spins"


def in_time(connect):
    """Connects to a server with a short time limit for requests; retried if the machine was too
    slow."""
    while True:
        try:
            return connect()
        except (AssertionError, OSError):
            pass


@pytest.fixture(scope="module")
def target():
    with ParleyServer("--debug-echo", "true", "--shards", "1") as server:
        server.get("/healthz")
        yield server


# Connections that end at every stage


STAGES = {
    "connected": lambda server: socket.create_connection(("127.0.0.1", server.port)),
    "in a head": lambda server: sent(server, HEAD[:-5]),
    "in a body": lambda server: sent(server, HEAD + b"Content-Length: 9\r\n\r\n1234"),
    "with answers unread": lambda server: sent(server, (HEAD + b"\r\n") * 200),
    "upgraded": lambda server: websocket(server),
    "in a frame's header": lambda server: websocket(server, b"\x82\xfe\x10"),
    "in a payload": lambda server: websocket(server, frame(2, bytes(9000))[:5000]),
    "between fragments": lambda server: websocket(server, frame(1, b"{", final=False)),
    "with an echo unread": lambda server: websocket(server, frame(2, bytes(MIB)) * 4),
    "with pongs unread": lambda server: websocket(server, frame(9, bytes(125)) * 1000),
    "closing": lambda server: websocket(server, frame(1, b"\xff")),
    "closed": lambda server: websocket(server, frame(8, b"\x03\xe8")),
    "in a session": lambda server: websocket(
        server, frame(1, b'{"type":"response.create"}'), target="/v1/realtime?model=m"),
}


def sent(server, data):
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(data)
    return connection


def websocket(server, data=b"", **options):
    peer = RawWebSocket(server, **options)
    peer.socket.settimeout(0.05)
    peer.send(data)
    return peer.socket


@pytest.mark.parametrize("stage", STAGES)
def test_a_reset_and_a_half_close_at_any_stage_leave_nothing(target, stage):
    with RawWebSocket(target) as bystander:
        before = descriptors(target)
        for count in range(20):
            connection = STAGES[stage](target)
            if count % 4 in (1, 2):
                # Where the server has ended the connection before, there is nothing to shut down.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR if count % 4 == 1 else socket.SHUT_RD)
            elif count % 4 == 3:
                time.sleep(0.01)
            reset(connection)
        bystander.expect_echo()
        expect_settled(target, before)


def test_a_half_close_still_gets_its_answer(target):
    with socket.create_connection(("127.0.0.1", target.port), timeout=HANG_GUARD) as connection:
        connection.sendall(HEAD + b"\r\n")
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        assert status_of(received) == 200 and received.endswith(b"</html>\n")


def test_slow_senders_time_out():
    arguments = ["--header-timeout-ms", "1500", "--debug-echo", "true"]
    with ParleyServer(*arguments) as server, in_time(lambda: RawWebSocket(server)) as bystander:
        before, begun = descriptors(server), time.monotonic()
        peers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
        alive = set(peers)
        while alive:
            for peer in list(alive):
                try:
                    peer.send(b"G")
                    peer.setblocking(False)
                    if peer.recv(65536) is not None:
                        alive.discard(peer)
                except BlockingIOError:
                    pass
                except OSError:
                    alive.discard(peer)
            assert time.monotonic() - begun < HANG_GUARD
            time.sleep(0.1)
        bystander.expect_echo()
        for peer in peers:
            peer.close()
        expect_settled(server, before)


# Floods and bombs


def empty_blocks(count):
    """Deflate blocks with their own codes and no content, eight in 90 bytes."""
    lengths = "000000100" + "000" * 14 + "100"
    block = "0" "01" "00000" "00000" "0111" + lengths + "1" "1111111" "1" "1101011" "000"
    bits = block * 8
    unit = bytes(int(bits[start : start + 8][::-1], 2) for start in range(0, len(bits), 8))
    # The last block is stored and empty; senders remove its end.
    return unit * (count // 8) + bytes(1)


@functools.cache
def bomb(size, count=1):
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return ((compressor.compress(bytes(size)) + compressor.flush(zlib.Z_SYNC_FLUSH)) * count)[:-4]


# Made when a test sends it, because every worker reads this file.
FLOODS = {
    "pings": (lambda: frame(9, bytes(125)) * 50_000, 1008),
    "pongs": (lambda: frame(10) * 50_000, 1008),
    "tiny fragments": (
        lambda: frame(1, b"a", final=False) + frame(0, b"a", final=False) * 50_000, 1008),
    "empty fragments": (lambda: frame(1, final=False) + frame(0, final=False) * 50_000, 1008),
    "fragments over the limit in sum": (
        lambda: frame(2, bytes(11 * MIB), final=False) + frame(0, bytes(11 * MIB), final=False), 1009),
    "a length with the top bit": (lambda: b"\x82\xff" + b"\xff" * 8 + bytes(100), 1002),
    "a length of 2^63-1": (lambda: b"\x82\xff\x7f" + b"\xff" * 7 + bytes(100), 1009),
    "a bomb": (lambda: frame(1, bomb(64 * MIB), compressed=True), 1009),
    "a bomb of 6 MiB": (lambda: frame(1, bomb(8 * MIB, count=750), compressed=True), 1009),
    "a bomb in fragments": (
        lambda: frame(1, bomb(64 * MIB)[:1000], final=False, compressed=True) + frame(9, b"?")
        + frame(0, bomb(64 * MIB)[1000:]), 1009),
    "blocks that say nothing": (lambda: frame(1, empty_blocks(MIB), compressed=True), 1008),
}


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("reads", [True, False])
def test_a_flood_ends_with_a_code_and_costs_little(target, figure, flood, reads):
    make, code = FLOODS[flood]
    data = make()
    peak, before = peak_bytes(target), descriptors(target)
    begun = cpu_seconds(target.process.pid)
    with RawWebSocket(target) as bystander:
        with RawWebSocket(target, fields=[DEFLATE]) as peer:
            if not reads:
                peer.socket.settimeout(1)
            peer.send(data)
            bystander.expect_echo()
            if reads:
                with contextlib.suppress(ConnectionError):
                    assert peer.close_code() == code
    expect_settled(target, before)
    grown = peak_bytes(target) - peak
    used = cpu_seconds(target.process.pid) - begun
    figure(f"{flood}: {len(data)} bytes cost {used:.2f} s and {grown >> 20} MiB at the peak")
    # Incomplete input may be held, and held twice while its buffer grows.
    assert grown < 2 * 21 * MIB + 8 * MIB
    # CPU time, which does not depend on other programs: each case needs less than a second.
    assert used < 10


@pytest.mark.parametrize(
    "request_bytes",
    [HEAD + b"X: " + b"a" * 20 * MIB + b"\r\n\r\n", HEAD + b"X: a\r\n" * 2000 + b"\r\n"],
    ids=["20 MB", "2,000 fields"],
)
def test_huge_heads_are_refused_and_not_collected(target, request_bytes):
    peak = peak_bytes(target)
    with socket.create_connection(("127.0.0.1", target.port), timeout=HANG_GUARD) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request_bytes)
        with contextlib.suppress(ConnectionError):
            assert status_of(connection.recv(65536)) == 431
    assert peak_bytes(target) - peak < 4 * MIB


def test_memory_of_large_messages_goes_back_to_the_kernel(figure):
    with ParleyServer("--debug-echo", "true", "--shards", "1") as server:
        before = server.resident_bytes()
        # The second round starts with the fragmented heap that the first left.
        for _ in range(2):
            with contextlib.ExitStack() as peers:
                for _ in range(5):
                    peer = peers.enter_context(RawWebSocket(server))
                    peer.socket.sendall(frame(2, bytes(20 * MIB), final=False))
                    peer.socket.sendall(frame(9, b"?"))
                    assert peer.next() == (10, b"?")
                held = server.resident_bytes()
        deadline = time.monotonic() + HANG_GUARD
        while (left := server.resident_bytes() - before) > 40 * MIB:
            assert time.monotonic() < deadline, f"{left >> 20} MiB are left"
            time.sleep(0.1)
        figure(f"5 unfinished messages of 20 MiB: {held - before >> 20} MiB, then {left >> 20}")


# TLS


@contextlib.contextmanager
def secured(tmp_path_factory, *arguments):
    """A server with TLS, and the context of a client that verifies nothing."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)
    server = ParleyServer(
        "--debug-echo", "true", "--shards", "1", "--tls-cert", str(certificate), "--tls-key",
        str(key), *arguments)

    def is_alive():
        # Plain HTTP is answered with an explanation; a request that is late is not.
        try:
            return exchange(server, HEAD + b"\r\n").startswith(b"HTTP/1.1 400 ")
        except OSError:
            return False

    server.is_alive = is_alive
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with server:
        yield server, context


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with secured(tmp_path_factory) as (server, context):
        yield server, context


def client_hello(context):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_garbage_instead_of_tls_ends_only_its_own_connection(secure):
    server, context = secure
    hello, generator = client_hello(context), random.Random(1)
    inputs = [
        generator.randbytes(5000), hello + hello, hello + generator.randbytes(3000),
        b"\x16\x03\x01\xff\xff" + bytes(60_000), b"\x16\x03\x01\x00\x00" * 5000,
        hello + b"\x14\x03\x03\x00\x01\x01" * 10_000, b"\x15\x03\x01\x00\x02\x01\x00" * 1000,
        b"\x17\x03\x03\x00\x20" + bytes(32),
        b"".join(b"\x16\x03\x01\x00\x01" + hello[at : at + 1] for at in range(5, len(hello))),
        b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380) + bytes(5 * MIB),
    ]
    for _ in range(100):
        changed = bytearray(hello)
        for _ in range(generator.randint(1, 8)):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        inputs.append(bytes(changed))
    with RawWebSocket(server, wrap=context.wrap_socket) as bystander:
        before, peak = descriptors(server), peak_bytes(server)
        for data in inputs:
            address = ("127.0.0.1", server.port)
            with socket.create_connection(address, timeout=HANG_GUARD) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(data)
        bystander.expect_echo()
        expect_settled(server, before)
        assert peak_bytes(server) - peak < 8 * MIB


def test_broken_records_end_only_their_own_connection(secure):
    server, context = secure
    with RawWebSocket(server, wrap=context.wrap_socket) as bystander:
        before = descriptors(server)
        for size in [0, 1, 17, 40, 16_640, 16_641, 65_535]:
            with RawWebSocket(server, wrap=context.wrap_socket) as peer:
                with socket.socket(fileno=os.dup(peer.socket.fileno())) as below:
                    below.sendall(b"\x17\x03\x03" + struct.pack(">H", size) + os.urandom(size))
        bystander.expect_echo()
        expect_settled(server, before)


def test_a_thousand_half_handshakes_delay_other_clients_little(tmp_path_factory, figure):
    # Takes real time: the handshakes time out after three seconds. On a busy machine a client needs
    # about as long for its own.
    with contextlib.ExitStack() as stack:
        server, context = stack.enter_context(
            secured(tmp_path_factory, "--header-timeout-ms", "3000"))
        hello = client_hello(context)
        bystander = stack.enter_context(
            in_time(lambda: RawWebSocket(server, wrap=context.wrap_socket)))
        before, resident = descriptors(server), server.resident_bytes()
        peers, slowest = [], 0.0
        for count in range(1000):
            peers.append(socket.create_connection(("127.0.0.1", server.port), timeout=HANG_GUARD))
            peers[-1].sendall(hello)
            if count % 50 == 0:
                begun = time.monotonic()
                bystander.expect_echo()
                slowest = max(slowest, time.monotonic() - begun)
        each = (server.resident_bytes() - resident) / len(peers)
        figure(f"half a TLS handshake: {each / 1024:.0f} KiB; slowest echo {slowest * 1000:.0f} ms")
        assert each < 80 * 1024
        # The time limit of a request counts from the start of the connection, so these connections
        # time out.
        expect_settled(server, before)
        bystander.expect_echo()
        for peer in peers:
            peer.close()
