"""TLS with real clients: Python's `websockets` and HTTP client, and `parley talk`.

The WebSocket client is that of asyncio. The one of `websockets.sync` reads in one thread while another
writes, which Python does not make safe for a TLS connection: where a ticket of TLS 1.3 comes while the
request is written, both may be lost. Against the library's own server that was 13 of 6,000 connections on
a busy machine.
"""

import asyncio
import http.client
import ssl
import subprocess

import pytest
import websockets.asyncio.client
from event_schema import server_event
from parley_server import HANG_GUARD
from secure_server import SecureServer


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A server that speaks TLS, with the echo."""
    with SecureServer(tmp_path_factory.mktemp("tls"), "--debug-echo", "true") as server:
        yield server


def test_announces_https_and_wss(secure):
    text = secure.log_path.read_text(encoding="utf-8")
    assert f"https://127.0.0.1:{secure.port}/" in text
    assert f"wss://127.0.0.1:{secure.port}/v1/realtime" in text


def test_serves_the_page(secure):
    status, _, body = secure.get("/")
    assert status == 200 and b"<html" in body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_carries_a_session(secure, version):
    context = secure.context()
    context.minimum_version = context.maximum_version = version

    async def conversation():
        async with websockets.asyncio.client.connect(
            secure.realtime_url, ssl=context, open_timeout=HANG_GUARD
        ) as connection, asyncio.timeout(HANG_GUARD):
            assert server_event(await connection.recv())["type"] == "session.created"

    asyncio.run(conversation())


def test_echoes_megabytes(secure):
    url = f"wss://localhost:{secure.port}/debug/echo"
    message = bytes(range(256)) * 8192

    async def conversation():
        async with websockets.asyncio.client.connect(
            url, ssl=secure.context(), max_size=None, compression=None, open_timeout=HANG_GUARD
        ) as connection, asyncio.timeout(HANG_GUARD):
            for _ in range(3):
                await connection.send(message)
                assert await connection.recv() == message

    asyncio.run(conversation())


def test_talk_checks_the_certificate(secure):
    trusted = secure.talk("--ca", str(secure.certificate), "--text", "hello")
    assert trusted.returncode == 0 and "agent:" in trusted.stdout, trusted.stderr
    careless = secure.talk("--insecure", "--text", "hello")
    assert careless.returncode == 0 and "agent:" in careless.stdout, careless.stderr
    careful = secure.talk("--text", "hello")
    assert careful.returncode == 1 and "not trusted: self-signed certificate" in careful.stderr
    elsewhere = subprocess.run(
        [*careful.args[:3], f"wss://127.0.0.2:{secure.port}/", "--ca", str(secure.certificate),
         "--text", "hello"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_GUARD, check=False,
    )
    assert elsewhere.returncode == 1


def test_tells_plain_clients(secure):
    connection = http.client.HTTPConnection("127.0.0.1", secure.port, timeout=HANG_GUARD)
    connection.request("GET", "/")
    response = connection.getresponse()
    assert response.status == 400 and b"https://" in response.read()
    connection.close()
