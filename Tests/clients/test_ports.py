"""Two servers, or a server and another process, on one port. The second one reports it in one line
and exits, and the first one continues undisturbed."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess

import pytest
import websockets.asyncio.client
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer, free_port

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def refused(port, *arguments, command=(BINARY,)):
    """The only line of a server that cannot start."""
    done = subprocess.run(
        [*command, "serve", "--port", str(port), "--log-level", "error", *arguments],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert done.returncode == 1, done
    assert done.stdout == "" and done.stderr.count("\n") == 1, done
    return done.stderr


@pytest.mark.parametrize(
    "first, second",
    [([], []), (["--shares-port", "true"], []), ([], ["--host", "localhost"]),
     ([], ["--host", "0.0.0.0", "--insecure", "true"]),
     (["--host", "0.0.0.0", "--insecure", "true"], [])])
def test_a_second_server_is_refused_and_the_first_goes_on(first, second):
    async def test(server):
        async with websockets.asyncio.client.connect(
            server.realtime_url, **PATIENT_WEBSOCKET
        ) as session:
            await session.recv()
            line = await asyncio.to_thread(refused, server.port, *second)
            assert f"port {server.port} on" in line and "is taken by another process" in line
            await session.send(json.dumps(
                {"type": "session.update", "session": {"type": "realtime"}}))
            assert json.loads(await session.recv())["type"] == "session.updated"
        for _ in range(4):
            assert server.get("/healthz")[0] == 200

    with ParleyServer(*first) as server:
        asyncio.run(asyncio.wait_for(test(server), HANG_GUARD))


@pytest.mark.parametrize("shares", ["false", "true"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_port_of_another_program_is_refused(host, shares):
    family = socket.AF_INET6 if host == "::" else socket.AF_INET
    with socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::") as other:
        line = refused(other.getsockname()[1], "--shares-port", shares)
        assert "is taken by another process" in line


def test_ipv4_and_ipv6_are_two_ports():
    with ParleyServer() as server, ParleyServer("--host", "::1", port=server.port) as beside:
        # That server's own probe reaches the first server: both answer.
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, server.port), timeout=HANG_GUARD) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert beside.process.poll() is None


def test_the_end_of_one_of_two_that_share_leaves_the_other():
    async def test(first, second):
        first.process.send_signal(signal.SIGTERM)
        while first.process.poll() is None:
            async with websockets.asyncio.client.connect(
                second.realtime_url, **PATIENT_WEBSOCKET
            ) as session:
                kind = json.loads(await session.recv())["type"]
                assert kind == "session.created"
        assert first.process.returncode == 0
        assert second.process.poll() is None and second.get("/readyz")[0] == 200

    shares = ("--shares-port", "true", "--drain-jitter-ms", "0")
    with ParleyServer(*shares) as first, ParleyServer(*shares, port=first.port) as second:
        asyncio.run(asyncio.wait_for(test(first, second), HANG_GUARD))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_low_port_is_refused_to_other_users(public):
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        lowest = int(file.read())
    if lowest < 2:
        pytest.skip("this kernel lets every user listen on every port")
    line = refused(lowest - 1, command=[*NOBODY, public / "parley"])
    assert f"may not listen on port {lowest - 1}" in line and "--port" in line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_share_a_port(public):
    with ParleyServer("--shares-port", "true") as server:
        line = refused(
            server.port, "--shares-port", "true", command=[*NOBODY, public / "parley"])
        assert "is taken by another process" in line
        assert server.get("/healthz")[0] == 200


def test_a_port_that_is_free_again_is_taken_at_once():
    port = free_port()
    for _ in range(3):
        with ParleyServer(port=port) as server, contextlib.suppress(ConnectionError):
            # Connections of the previous server linger in TIME_WAIT.
            assert server.get("/")[0] == 200
