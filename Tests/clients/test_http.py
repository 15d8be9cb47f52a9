"""HTTP and the WebSocket from outside: the routes, and every kind of bad input."""

import asyncio
import base64
import json
import os
import socket
import struct
import subprocess

import pytest
import websockets.asyncio.client
from event_schema import server_event
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol


def exchange(server, request, reads=1):
    """Sends bytes unchanged, and returns everything received until the connection ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANG_GUARD) as connection:
        connection.sendall(request)
        received = b""
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                piece = b""
            received += piece
            if not piece or (reads and received.count(b"HTTP/1.1 ") >= reads):
                return received


def status_of(received):
    assert received.startswith(b"HTTP/1.1 "), received
    return int(received.split(b" ", 2)[1])


def upgrade(*changes, target="/v1/realtime?model=m"):
    """The head of an upgrade request; a change replaces the field with its name."""
    fields = {
        "Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
    }
    for name, value in changes:
        fields[name] = value
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return ("\r\n".join([f"GET {target} HTTP/1.1", *lines]) + "\r\n\r\n").encode()


def test_health_readiness_and_the_page(parley):
    assert parley.get("/healthz")[0] == 200
    assert parley.get("/readyz")[0] == 200
    status, headers, body = parley.get("/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert b"<title>Parley</title>" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    for path, kind in [("/app.js", "text/javascript"), ("/style.css", "text/css")]:
        status, headers, _ = parley.get(path)
        assert (status, headers["Content-Type"].split(";")[0]) == (200, kind)


def test_promtool_accepts_the_metrics(parley):
    status, headers, body = parley.get("/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    subprocess.run(["promtool", "check", "metrics"], input=body, check=True)


def test_connections_are_kept_alive(parley):
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received = exchange(parley, request * 3, reads=3)
    assert received.count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", {405}),
        (b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 426}),
        (b"GET / HTTP/1.1\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.1\r\nHost: \r\n\r\n", {400}),
        (b"GET /healthz HTTP/1.0\r\n\r\n", {200}),
        (upgrade(("Host", "")), {400}),
        (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", {400, 505}),
        (b"nonsense\r\n\r\n", {400}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", {400}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000 + b"\r\n\r\n", {431}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 150 + b"\r\n", {431}),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", {405, 413}),
        (upgrade(("Sec-WebSocket-Version", "8")), {400, 426}),
        (upgrade(("Sec-WebSocket-Key", "short")), {400}),
        (upgrade(("Sec-WebSocket-Key", None)), {400}),
        (upgrade(("Upgrade", "h2c")), {400, 426}),
        (upgrade(("Connection", "close")), {400, 426}),
        (upgrade(), {101}),
    ],
)
def test_every_request_has_its_status(parley, request_bytes, status):
    assert status_of(exchange(parley, request_bytes)) in status
    assert parley.is_alive()


def connect(server, **options):
    return websockets.asyncio.client.connect(
        server.realtime_url + "?model=m", **PATIENT_WEBSOCKET, **options)


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


def test_browser_subprotocols_are_answered_exactly(parley):
    async def test():
        offered = [Subprotocol("realtime"), Subprotocol("openai-insecure-api-key.sk-x")]
        async with connect(parley, subprotocols=offered) as connection:
            assert connection.subprotocol == "realtime"
            assert server_event(await connection.recv())["type"] == "session.created"

    run(test())


def test_pings_are_answered(parley):
    async def test():
        async with connect(parley) as connection:
            await connection.recv()
            await asyncio.wait_for(await connection.ping(), HANG_GUARD)

    run(test())


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"type":5}', "null", '{"type":"x"' + "," * 50])
def test_text_that_is_no_event_is_an_error_and_the_session_lives_on(parley, text):
    async def test():
        async with connect(parley) as connection:
            assert server_event(await connection.recv())["type"] == "session.created"
            await connection.send(text)
            error = server_event(await connection.recv())
            assert error["type"] == "error" and error["error"]["message"]
            await connection.send('{"type":"session.update","session":{"type":"realtime"}}')
            assert server_event(await connection.recv())["type"] == "session.updated"

    run(test())


def test_a_packet_that_is_no_opus_is_an_error_and_the_session_lives_on(parley):
    async def test():
        async with connect(parley) as connection:
            await connection.recv()
            audio = {"input": {"format": {"type": "audio/opus"}}}
            update = {"type": "session.update", "session": {"type": "realtime", "audio": audio}}
            await connection.send(json.dumps(update))
            assert server_event(await connection.recv())["type"] == "session.updated"
            await connection.send(b"\xff" * 3)
            await connection.send(json.dumps(update))
            types = set()
            while "session.updated" not in types:
                types.add(server_event(await connection.recv())["type"])
            assert types == {"error", "session.updated"}

    run(test())


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x05hello", 1002),
        (b"\xa1\x80\0\0\0\0", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x80\x80\0\0\0\0", 1002),
        (b"\x09\x80\0\0\0\0", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"\0\0\0\0", 1009),
        (b"\x88\x81\0\0\0\0\x03", 1002),
    ],
)
def test_every_broken_frame_has_its_close_code(parley, frame, code):
    async def test():
        async with connect(parley) as connection:
            await connection.recv()
            connection.transport.write(frame)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await connection.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == code

    run(test())


FOREIGN = ("Origin", "https://evil.example")
IMAGE = ("Sec-Fetch-Site", "cross-site")


@pytest.mark.parametrize("method, path, fields, status", [
    ("POST", "/v1/realtime/client_secrets", [FOREIGN, ("Content-Type", "text/plain")], 403),
    ("POST", "/v1/realtime/client_secrets", [IMAGE], 403),
    ("POST", "/v1/chat/completions", [FOREIGN, ("Content-Type", "application/json")], 403),
    ("POST", "/v1/realtime/client_secrets",
     [("Sec-Fetch-Site", "same-origin"), ("Content-Type", "text/plain")], 415),
    ("POST", "/v1/realtime/client_secrets", [("Content-Type", "text/plain")], 200),
    ("POST", "/v1/realtime/client_secrets", [], 200),
    ("GET", "/admin/sessions", [FOREIGN], 403), ("GET", "/admin/sessions/x", [FOREIGN], 403),
    ("GET", "/admin/sessions", [IMAGE], 403), ("GET", "/metrics", [FOREIGN], 403),
    ("GET", "/v1/models", [IMAGE], 403), ("GET", "/admin/sessions", [], 200),
    ("GET", "/healthz", [FOREIGN], 200), ("GET", "/", [FOREIGN], 200), ("GET", "/", [IMAGE], 200),
    ("GET", "/metrics",
     [IMAGE, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")], 200),
])
def test_a_page_of_another_site_changes_and_sees_nothing(parley, method, path, fields, status):
    lines = [f"{name}: {value}" for name, value in fields]
    body = "{}" if method == "POST" else ""
    head = [f"{method} {path} HTTP/1.1", f"Host: localhost:{parley.port}", *lines,
            f"Content-Length: {len(body)}", "Connection: close"]
    received = exchange(parley, ("\r\n".join(head) + "\r\n\r\n" + body).encode(), reads=0)
    assert status_of(received) == status, received
    if status == 403:
        assert b"origin_not_allowed" in received
