"""A port that a server hands over to its successor: both have the same listening sockets, so that the
end of one resets no connection that waits, however it ends. test_restart.py has whole restarts."""

import contextlib
import os
import signal
import socket

import pytest
from parley_server import HANG_GUARD, ParleyServer, free_port

SHARES = ("--shares-port", "true", "--drain-jitter-ms", "0")
QUESTION = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
# Enough that each listening socket of a port gets some.
WAITING = 64
# The state of a listening socket in /proc/net/tcp.
LISTENS = "0A"


def suspend(server):
    """Stops a server's threads, and returns when all have stopped."""
    server.process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(server.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def kill(server):
    """Ends a server without a chance to do anything."""
    server.expected_status = -signal.SIGKILL
    server.process.kill()
    server.process.wait(HANG_GUARD)


def ask(port, stack):
    """A connection with a request on its way, which no server needs to accept for that."""
    connection = stack.enter_context(
        socket.create_connection(("127.0.0.1", port), timeout=HANG_GUARD))
    connection.sendall(QUESTION)
    return connection


def listening_sockets(port):
    """The inodes of all sockets that listen on a port of this machine."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return {row[9] for row in rows if row[3] == LISTENS and row[1].endswith(f":{port:04X}")}


def held_sockets(server):
    """The inodes of a server's sockets. A descriptor may be closed meanwhile."""
    folder = f"/proc/{server.process.pid}/fd"
    inodes = set()
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(f"{folder}/{name}").removeprefix("socket:[").removesuffix("]"))
    return inodes


def test_connections_that_wait_when_a_server_is_killed_are_answered():
    with ParleyServer(*SHARES) as old, ParleyServer(*SHARES, port=old.port) as new:
        with contextlib.ExitStack() as stack:
            # Nothing is accepted, so that each connection waits in the queue of a socket.
            suspend(old)
            suspend(new)
            waiting = [ask(old.port, stack) for _ in range(WAITING)]
            kill(old)
            new.process.send_signal(signal.SIGCONT)
            for connection in waiting:
                assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_a_successor_has_the_sockets_of_the_server_before_it():
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ParleyServer(*SHARES, "--shards", "2"))
        first = listening_sockets(server.port)
        assert len(first) == 2
        # More shards than sockets, fewer, and as many.
        for shards, sockets in ("2", 2), ("3", 3), ("1", 3), ("3", 3):
            successor = stack.enter_context(
                ParleyServer(*SHARES, "--shards", shards, port=server.port))
            kill(server)
            listening = listening_sockets(server.port)
            assert first <= listening <= held_sockets(successor) and len(listening) == sockets
            with contextlib.ExitStack() as clients:
                for connection in [ask(server.port, clients) for _ in range(WAITING)]:
                    assert connection.recv(100).startswith(b"HTTP/1.1 200")
            server = successor


@contextlib.contextmanager
def another_user():
    """Makes this process another user's for a few system calls."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def connection_for_sockets(port):
    """A connection to where a server passes its listening sockets on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(HANG_GUARD)
        connection.connect(name_of(port))
        yield connection


def name_of(port):
    return f"\0parley/127.0.0.1:{port}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_sockets_are_passed_to_the_same_user_only():
    with ParleyServer(*SHARES, "--shards", "2") as server:
        with contextlib.ExitStack() as stack:
            own = stack.enter_context(connection_for_sockets(server.port))
            with another_user():
                other = stack.enter_context(connection_for_sockets(server.port))
            _, given, _, _ = socket.recv_fds(own, 1, 16)
            for descriptor in given:
                os.close(descriptor)
            assert len(given) == 3, "two listening sockets, and the one where successors ask"
            assert socket.recv_fds(other, 1, 16)[:2] == (b"", [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_sockets_are_not_taken_from_another_user():
    port = free_port()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        with another_user():
            stranger.bind(name_of(port))
            stranger.listen()
        with ParleyServer(*SHARES, "--shards", "2", port=port) as server:
            assert "another user's process has the name" in server.log_path.read_text()
            assert len(listening_sockets(port) & held_sockets(server)) == 2
