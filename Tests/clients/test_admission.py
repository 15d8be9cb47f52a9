"""Which clients may connect: pages of other origins, rebound hosts, clients behind a real HAProxy,
one address with too many connections, and a process without free file descriptors."""

import asyncio
import contextlib
import errno
import os
import re
import shutil
import socket
import subprocess
import time

import pytest
import websockets.asyncio.client
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer, free_port
from test_http import exchange, status_of, upgrade
from websockets.exceptions import InvalidStatus

PROXY, CLIENT, OTHER = "127.0.0.3", "127.0.0.2", "127.0.0.4"
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def handshake_status(server, **options):
    """The status that answers the handshake of a real WebSocket library."""
    async def attempt():
        try:
            async with websockets.asyncio.client.connect(
                server.realtime_url, **PATIENT_WEBSOCKET, **options
            ):
                return 101
        except InvalidStatus as refusal:
            return refusal.response.status_code

    return asyncio.run(asyncio.wait_for(attempt(), HANG_GUARD))


def test_pages_of_other_origins_are_refused_and_our_own_are_not(parley):
    own = f"http://127.0.0.1:{parley.port}"
    refused = 'parley_requests_refused_total{reason="origin"}'
    before = int(parley.metric(refused))
    assert handshake_status(parley) == 101
    assert handshake_status(parley, origin=own) == 101
    for origin in ["http://evil.example", "null", f"http://localhost:{parley.port}", own + "0"]:
        assert handshake_status(parley, origin=origin) == 403
    assert int(parley.metric(refused)) == before + 4


def test_listed_origins_are_welcome():
    with ParleyServer("--allowed-origins", "https://app.example.com, https://*.local") as server:
        for origin in ["https://app.example.com", "https://a.local"]:
            assert handshake_status(server, origin=origin) == 101
        assert handshake_status(server, origin="http://app.example.com") == 403


def test_a_rebound_name_gets_nothing_but_probes(parley):
    def status(path, host):
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        return status_of(exchange(parley, request.encode()))

    for path in ["/", "/metrics", "/v1/realtime"]:
        assert status(path, "evil.example") == 421
        assert status(path, f"localhost.evil.example:{parley.port}") == 421
    assert status("/healthz", "evil.example") == 200
    for host in ["localhost", "a.localhost:1", "[::1]:8080", "127.9.9.9"]:
        assert status("/", host) == 200
    assert status_of(exchange(parley, upgrade(("Host", "evil.example")))) == 421


# Behind HAProxy


@contextlib.contextmanager
def haproxy(server, directory, mode, options):
    """Runs HAProxy in front of the server, with PROXY as its address. Yields its port."""
    port = free_port()
    path = directory / "haproxy.cfg"
    path.write_text(
        f"""
        defaults
            mode {mode}
            timeout connect {HANG_GUARD}s
            timeout client {HANG_GUARD}s
            timeout server {HANG_GUARD}s
        listen voice
            bind 127.0.0.1:{port}
            {options}
            server parley 127.0.0.1:{server.port} source {PROXY} """
        # A health check that is late does not take the server out of service.
        + ("send-proxy-v2 check check-send-proxy inter 200ms fall 9999\n"
           if mode == "tcp" else "\n")
    )
    program = shutil.which("haproxy") or "/usr/sbin/haproxy"
    with subprocess.Popen([program, "-q", "-db", "-f", path], stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + HANG_GUARD
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert time.monotonic() < deadline and process.poll() is None
                    time.sleep(0.02)
            yield port
        finally:
            process.terminate()


@contextlib.contextmanager
def held_request(port, request, source):
    """Sends a request from an address; yields the open connection and the status."""
    with socket.create_connection(
        ("127.0.0.1", port), timeout=HANG_GUARD, source_address=(source, 0)
    ) as connection:
        connection.sendall(request)
        yield connection, status_of(connection.recv(65536))


def logged_requests(server):
    """(peer, path, status) of every request in the log."""
    pattern = r" request .*?path=(\S+) peer=(\S+) status=(\d+)"
    log = server.log_path.read_text(encoding="utf-8")
    return {(peer, path, int(status)) for path, peer, status in re.findall(pattern, log)}


def test_haproxys_header_names_the_client_that_limits_count(tmp_path):
    arguments = [
        "--trusted-proxies", PROXY, "--proxy-protocol", "required", "--log-level", "debug",
        "--unlimited-addresses", "", "--max-connections-per-address", "2",
    ]
    with ParleyServer(*arguments) as server, haproxy(server, tmp_path, "tcp", "") as port:
        with contextlib.ExitStack() as held:
            statuses = [
                held.enter_context(held_request(port, request, CLIENT))[1]
                for request in [REQUEST, upgrade(), REQUEST, upgrade()]
            ]
            assert statuses == [200, 101, 429, 429]
            assert held.enter_context(held_request(port, REQUEST, OTHER))[1] == 200
        assert {(CLIENT, "/healthz", 200), (CLIENT, "/v1/realtime", 101),
                (OTHER, "/healthz", 200)} <= logged_requests(server)
        # A client that is not a trusted proxy may not send a header, and a proxy must send one.
        header = bytes.fromhex("0d0a0d0a000d0a515549540a2111000c7f0000027f00000100010002")
        assert status_of(exchange(server, header + REQUEST)) == 400
        with held_request(server.port, REQUEST, PROXY) as (_, status):
            assert status == 400


def test_x_forwarded_for_of_a_trusted_proxy_names_the_client(tmp_path):
    arguments = [
        "--trusted-proxies", PROXY, "--allowed-hosts", "voice.example.com", "--log-level", "debug",
        "--unlimited-addresses", "", "--max-connections-per-address", "2",
    ]
    options = """option forwardfor
            http-request set-header X-Forwarded-Proto https"""
    request = upgrade(
        ("Host", "voice.example.com"), ("Origin", "https://voice.example.com"),
        ("X-Forwarded-For", "6.6.6.6"))
    with ParleyServer(*arguments) as server, haproxy(server, tmp_path, "http", options) as port:
        with contextlib.ExitStack() as held:
            statuses = [
                held.enter_context(held_request(port, request, CLIENT))[1] for _ in range(3)
            ]
            assert statuses == [101, 101, 429]
            assert held.enter_context(held_request(port, request, OTHER))[1] == 101
        foreign = request.replace(b"https://voice", b"http://voice")
        with held_request(port, foreign, OTHER) as (_, status):
            assert status == 403
        peers = {peer for peer, path, _ in logged_requests(server) if path == "/v1/realtime"}
        assert peers == {CLIENT, OTHER}
        # The same header from an untrusted address is ignored, and ws is not wss.
        with held_request(server.port, request, "127.0.0.9") as (_, status):
            assert status == 101
        assert ("127.0.0.9", "/v1/realtime", 101) in logged_requests(server)


# Too many connections


def test_one_address_cannot_take_every_place_nor_all_the_time():
    rate = [
        "--unlimited-addresses", "",
        "--handshakes-per-second-per-address", "1", "--handshake-burst-per-address", "20",
    ]
    places = [*rate, "--max-connections-per-address", "5"]
    with ParleyServer(*places) as server, contextlib.ExitStack() as held:
        statuses = [
            held.enter_context(held_request(server.port, REQUEST, CLIENT))[1] for _ in range(8)
        ]
        assert statuses == [200] * 5 + [429] * 3
    places = [*rate, "--max-connections-per-address", "1000"]
    with ParleyServer(*places) as server, contextlib.ExitStack() as held:
        # All of them wait to be accepted before the first is answered, so less than one second
        # passes per connection.
        peers = [
            held.enter_context(socket.create_connection(
                ("127.0.0.1", server.port), timeout=HANG_GUARD, source_address=(OTHER, 0)))
            for _ in range(400)
        ]
        for peer in peers:
            peer.sendall(REQUEST)
        statuses = [status_of(peer.recv(65536)) for peer in peers]
        assert statuses.count(200) >= 20 and 429 in statuses


@pytest.mark.parametrize("limit", [64, 96])
def test_without_file_descriptors_it_says_so_does_not_spin_and_recovers(limit, figure):
    # More connections than descriptors: by default fewer would be let in.
    server = ParleyServer(
        "--shards", "2", "--worker-threads", "1", "--max-connections", "1000")
    server.arguments = ["prlimit", f"--nofile={limit}:{limit}", *server.arguments]
    with server:
        # All at once: while one shard refuses a connection, the other accepts one.
        peers = [socket.socket() for _ in range(2 * limit)]
        for peer in peers:
            peer.setblocking(False)
            assert peer.connect_ex(("127.0.0.1", server.port)) in (0, errno.EINPROGRESS)
        for peer in peers:
            peer.settimeout(HANG_GUARD)
            peer.sendall(REQUEST)
        statuses = [status_of(peer.recv(65536)) for peer in peers]
        assert set(statuses) == {200, 503}
        deadline = time.monotonic() + HANG_GUARD
        share = 1.0
        # A busy loop uses all of this time, a shard that pauses a few percent of it.
        while share > 0.2:
            assert time.monotonic() < deadline, f"it spins: {share:.1%}"
            before, begun = cpu_seconds(server.process.pid), time.monotonic()
            time.sleep(0.5)
            share = (cpu_seconds(server.process.pid) - before) / (time.monotonic() - begun)
        figure(f"CPU of a server without descriptors: {share:.1%}")
        paused = server.log_path.read_text(encoding="utf-8").count("accepting paused")
        assert 1 <= paused <= 2, "one line per shard"
        # The connection of the liveness check may have freed a descriptor for one more.
        with contextlib.ExitStack() as held:
            statuses = [
                held.enter_context(held_request(server.port, REQUEST, CLIENT))[1] for _ in range(4)
            ]
            assert statuses[1:] == [503] * 3
        for peer in peers:
            peer.close()
        while True:
            with held_request(server.port, REQUEST, CLIENT) as (_, status):
                if status == 200:
                    break
            assert time.monotonic() < deadline, "it does not recover"
        # The other shard may not have noticed yet.
        while (answer := server.get("/metrics"))[0] != 200:
            assert time.monotonic() < deadline, "it does not recover"
        refused = re.search(
            r'connections_refused_total\{reason="descriptors"\} (\d+)', answer[2].decode())
        assert int(refused[1]) >= limit


def cpu_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
