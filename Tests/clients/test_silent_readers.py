"""Clients that request much and never read. The server's memory for them is bounded, a session that
reads continues, and all memory is freed when they leave.

    PARLEY_SILENT_READERS=10000 run.sh test_silent_readers.py      1,000 sessions by default"""

import contextlib
import json
import os
import resource
import select
import socket
import threading
import time

import pytest
import websockets.sync.client
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from test_admission import cpu_seconds
from test_hostile_peers import MIB, descriptors, expect_settled, frame, peak_bytes
from test_http import upgrade
from test_memory import metric

pytestmark = pytest.mark.busy

SESSIONS = int(os.environ.get("PARLEY_SILENT_READERS", "1000"))
LIMIT = max(64, SESSIONS // 20) * MIB
TEXT_BYTES = 32 << 10
RETRIEVALS = 12
# Answers to another client, 10 ms apart at least, in which the server reads no more.
ANSWERS = 500


def message(kind, **fields):
    return frame(1, json.dumps({"type": kind, **fields}).encode())


def everything():
    """Everything that a silent client sends: a long item, many requests to retrieve it, and one for
    a reply."""
    content = [{"type": "input_text", "text": "x" * TEXT_BYTES}]
    item = {"type": "message", "id": "long", "role": "user", "content": content}
    retrieval = message("conversation.item.retrieve", item_id="long")
    return (
        upgrade(target="/v1/realtime?model=m")
        + message("conversation.item.create", item=item) + retrieval * RETRIEVALS
        + message("response.create", response={"output_modalities": ["text"]})
        + retrieval * RETRIEVALS)


class SilentReaders:
    """Connections that send and never read. Those that the server closes are not replaced."""

    def __init__(self, port, count, data):
        self.epoll = select.epoll()
        self.left = {}
        self.open = {}
        self.data = data
        for _ in range(count):
            connection = socket.socket()
            # The smallest receive buffer that the kernel allows, so that data waits at the server
            # instead.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            connection.connect(("127.0.0.1", port))
            connection.setblocking(False)
            self.open[connection.fileno()] = connection
            self.left[connection.fileno()] = 0
            self.epoll.register(connection, select.EPOLLOUT)

    def run(self, bystander):
        """Sends until everything is sent, or until the server reads no more, as it does with a client
        that does not read, while it answers another client many times."""
        quiet = len(bystander.waits)
        while self.left and len(bystander.waits) - quiet < ANSWERS and bystander.error is None:
            for handle, _ in self.epoll.poll(0.1):
                try:
                    sent = self.open[handle].send(self.data[self.left[handle] :])
                except BlockingIOError:
                    continue
                except OSError:
                    sent = len(self.data)
                quiet = len(bystander.waits)
                self.left[handle] += sent
                if self.left[handle] >= len(self.data):
                    self.epoll.unregister(handle)
                    del self.left[handle]

    def close(self):
        self.epoll.close()
        for connection in self.open.values():
            connection.close()


@contextlib.contextmanager
def open_files(count):
    """Allows as many open files as a test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        pytest.skip(f"{count} open files are needed, and {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Bystander:
    """A client that reads, and sends small requests all the time, in its own thread."""

    def __init__(self, server):
        self.begun, self.ending = threading.Event(), threading.Event()
        self.waits = []
        self.error = None
        self.thread = threading.Thread(target=self.run, args=(server,))

    def __enter__(self):
        self.thread.start()
        # The others may fill the server's memory before it has its session.
        assert self.begun.wait(HANG_GUARD) and self.error is None, self.error
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()

    def run(self, server):
        try:
            with websockets.sync.client.connect(
                server.realtime_url + "?model=m", compression=None, **PATIENT_WEBSOCKET
            ) as connection:
                connection.recv(HANG_GUARD)
                self.begun.set()
                while not self.ending.wait(0.01):
                    begun = time.monotonic()
                    connection.send(json.dumps(
                        {"type": "session.update", "session": {"type": "realtime"}}))
                    assert json.loads(connection.recv(HANG_GUARD))["type"] == "session.updated"
                    self.waits.append(time.monotonic() - begun)
        except Exception as error:
            self.error = error
            self.begun.set()


def test_clients_that_never_read_are_bounded_and_leave_nothing(figure):
    with open_files(SESSIONS + 200), ParleyServer(
        "--max-memory-bytes", str(LIMIT), "--max-queued-output-bytes", str(512 << 10),
        "--soft-queued-output-bytes", str(128 << 10), "--slow-reader-timeout-ms", "3000",
        "--max-connections", str(SESSIONS + 100),
    ) as server:
        server.get("/healthz")
        before, begun = descriptors(server), metric(server, "parley_ledger_total_bytes")
        with Bystander(server) as bystander:
            readers = SilentReaders(server.port, SESSIONS, everything())
            with contextlib.closing(readers):
                readers.run(bystander)
                closed = ("parley_output_limit_closes_total", "parley_memory_closes_total")
                deadline = time.monotonic() + HANG_GUARD
                # Once no session waits, the server has closed every connection that exceeded a
                # limit.
                while metric(server, "parley_sessions ") > 1 + SESSIONS // 2:
                    assert time.monotonic() < deadline, "slow readers are kept"
                    time.sleep(0.1)
                counts = {name: metric(server, name) for name in closed}
            assert bystander.error is None
        assert bystander.error is None
        peak = peak_bytes(server)
        waits = sorted(bystander.waits)
        figure(
            f"{SESSIONS} clients that never read: peak {peak >> 20} MiB of {LIMIT >> 20}, closes "
            f"{counts}, CPU {cpu_seconds(server.process.pid):.1f} s, another session's answer "
            f"{1000 * waits[len(waits) // 2]:.1f} ms median, {1000 * waits[-1]:.0f} ms at most")
        assert sum(counts.values()) > 0
        assert peak < 2 * LIMIT
        expect_settled(server, before)
        deadline = time.monotonic() + HANG_GUARD
        while metric(server, "parley_ledger_total_bytes") > begun + 4096:
            assert time.monotonic() < deadline, "bytes are left in the ledger"
            time.sleep(0.05)
