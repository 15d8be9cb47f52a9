"""Restarts of real servers: no reply in progress loses a word, and no new connection is refused."""

import asyncio
import base64
import collections
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import websockets.asyncio.client
from event_schema import server_event
from parley_server import ACTIVATION, BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from scripted_model import HALVES
from websockets.exceptions import ConnectionClosed

# The first half of the answer comes at once, the second when the test lets the model continue.
QUESTION = "Stop halfway."
REPLY = "".join(HALVES)


class Visitors:
    """Clients that connect again and again from `with` to its end, and the outcomes."""

    def __init__(self, port, count=4):
        self.port = port
        self.outcomes = collections.Counter()
        self.is_over = False
        self.threads = [threading.Thread(target=self.visit) for _ in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def visit(self):
        while not self.is_over:
            try:
                self.outcomes[self.ask()] += 1
            except OSError as error:
                self.outcomes[type(error).__name__] += 1

    def ask(self):
        """Opens one connection that becomes a session; returns the status of the upgrade."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=HANG_GUARD) as connection:
            connection.sendall(
                b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            return connection.recv(65536)[:12].decode()


async def converse(url, text, modality, has_begun, leaves=False):
    """Sends a message and reads until the server closes, or with `leaves` until the end of the
    reply. Returns the text, the bytes of audio, the status, and the close code."""
    said, audio, status = "", 0, None
    async with websockets.asyncio.client.connect(
        url + "?model=m", **PATIENT_WEBSOCKET
    ) as connection:
        async def send(kind, **fields):
            await connection.send(json.dumps({"type": kind, **fields}))

        await send("session.update", session={"type": "realtime", "output_modalities": [modality]})
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await send("conversation.item.create", item=item)
        await send("response.create")
        # Also ends without an exception when the server restarts: `async for` accepts only 1000 and
        # 1001.
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                event = server_event(message)
                kind = event["type"]
                if kind in {"response.output_text.delta", "response.output_audio_transcript.delta"}:
                    said += event["delta"]
                elif kind == "response.output_audio.delta":
                    audio += len(base64.b64decode(event["delta"]))
                elif kind == "response.done":
                    status = event["response"]["status"]
                    if leaves:
                        break
                if kind.endswith("audio.delta" if modality == "audio" else "text.delta"):
                    has_begun.set()
        return said, audio, status, connection.close_code


async def begin_conversations(server, count, modality):
    """Starts conversations, each with a reply in progress."""
    begun = [asyncio.Event() for _ in range(count)]
    tasks = [
        asyncio.create_task(converse(server.realtime_url, QUESTION, modality, event))
        for event in begun
    ]
    for event in begun:
        await asyncio.wait_for(event.wait(), HANG_GUARD)
    return tasks


async def end(server):
    """Stops a server; returns its exit status."""
    server.process.send_signal(signal.SIGTERM)
    return await asyncio.to_thread(server.process.wait, HANG_GUARD)


def serve(model, *arguments, **options):
    return ParleyServer(
        "--llm", model.url, "--shards", "2", "--drain-jitter-ms", "500", *arguments,
        **{"PARLEY_DRAIN_TIMEOUT_MS": "3600000", **options}
    )


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


@pytest.fixture(scope="module")
def undisturbed(model):
    """The outcome of a conversation without a restart: text, bytes of audio, status."""
    async def test(url):
        model.second_half.clear()
        has_begun = asyncio.Event()
        conversation = asyncio.create_task(
            converse(url, QUESTION, "audio", has_begun, leaves=True))
        await has_begun.wait()
        model.second_half.set()
        return (await conversation)[:3]

    # Sent as fast as possible: the server's pacing does not change the content.
    with serve(model, "--playout-lead-ms", "60000") as server:
        return asyncio.run(asyncio.wait_for(test(server.realtime_url), HANG_GUARD))


async def until_draining(server):
    """Waits until a server has announced that it is draining."""
    while "draining" not in server.log_path.read_text():
        await asyncio.sleep(0.01)


async def check_restart(model, old, new, undisturbed, figure):
    """Replaces a server by another while 20 replies are in progress and clients come and go. No
    reply can end before the old server is asked to stop."""
    model.second_half.clear()
    spoken = await begin_conversations(old, 10, "audio")
    written = await begin_conversations(old, 10, "text")
    with new:
        with Visitors(old.port) as visitors:
            start = time.monotonic()
            ending = asyncio.create_task(end(old))
            await until_draining(old)
            model.second_half.set()
            assert await ending == 0
            seconds = time.monotonic() - start
            # Only the new server is left now.
            assert new.get("/readyz")[0] == 200
        said, audio, status = undisturbed
        assert (said, status) == (REPLY, "completed")
        for task in spoken:
            assert await task == (said, audio, status, 1012), "to the last sample"
        for task in written:
            text, _, status, code = await task
            assert (text, status, code) == (REPLY, "completed", 1012)
    log = old.log_path.read_text()
    # The text replies end with the second half. A shard that begins to drain afterwards finds their
    # sessions idle. A visitor who had just come is drained, too.
    finished, idle = (
        int(re.search(rf"drained_{kind}=(\d+)", log)[1]) for kind in ("finished", "idle"))
    assert finished + idle >= 20 and finished >= 10 and "drained_cut_off=0" in log
    figure(f"a restart with 20 replies under way: {seconds:.1f} s, {dict(visitors.outcomes)}")
    assert set(visitors.outcomes) == {"HTTP/1.1 101"}, visitors.outcomes


@pytest.mark.busy
def test_a_restart_on_a_shared_port_loses_no_reply_and_no_connection(model, undisturbed, figure):
    async def test():
        shares = ("--shares-port", "true")
        with serve(model, *shares) as old:
            await check_restart(
                model, old, serve(model, *shares, port=old.port), undisturbed, figure)

    run(test())


@pytest.mark.busy
def test_a_restart_on_an_inherited_socket_loses_no_reply_and_no_connection(
    model, undisturbed, figure
):
    async def test():
        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            with serve(model, listener=listener) as old:
                await check_restart(
                    model, old, serve(model, listener=listener), undisturbed, figure)
            # While no server runs, a client waits for the next one instead of being refused.
            with socket.create_connection(listener.getsockname()) as early:
                early.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                with serve(model, listener=listener):
                    assert early.recv(100).startswith(b"HTTP/1.1 200")

    run(test())


def test_connections_of_an_inherited_socket_are_dealt_to_all_shards(model):
    async def test():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with serve(model, listener=listener) as server:
                async with contextlib.AsyncExitStack() as stack:
                    for _ in range(20):
                        url = server.realtime_url
                        await stack.enter_async_context(
                            websockets.asyncio.client.connect(url, **PATIENT_WEBSOCKET))
                    sessions = [
                        int(server.metric(f'parley_shard_sessions{{shard="{shard}"}}'))
                        for shard in range(2)
                    ]
        # The test's own probes are distributed like other connections.
        assert sum(sessions) == 20 and abs(sessions[0] - sessions[1]) <= 2

    run(test())


def test_the_second_signal_ends_a_server_at_once(model):
    async def test():
        model.second_half.clear()
        with serve(model) as server:
            server.expected_status = -signal.SIGTERM
            written = await begin_conversations(server, 1, "text")
            server.process.send_signal(signal.SIGTERM)
            await until_draining(server)
            # The reply has no end, and the drain's time limit is an hour.
            assert await end(server) == -signal.SIGTERM
            assert (await written[0])[2] is None

    run(test())


def test_a_drain_ends_with_its_timeout(model):
    async def test():
        model.second_half.clear()
        with serve(model, "--drain-timeout-ms", "500", "--drain-jitter-ms", "0") as server:
            written = await begin_conversations(server, 1, "text")
            start = time.monotonic()
            assert await end(server) == 0
            assert time.monotonic() - start > 0.4
            _, _, status, code = await written[0]
            assert (status, code) == (None, 1012)
            assert "drained_cut_off=1" in server.log_path.read_text()

    run(test())


def refusal(*descriptors):
    """The output of a server that is started with these descriptors as listeners."""
    given = ",".join(str(each) for each in descriptors)
    done = subprocess.run(
        [sys.executable, str(ACTIVATION), given, BINARY, "serve", "--log-level", "error"],
        pass_fds=descriptors, capture_output=True, text=True, timeout=HANG_GUARD, check=False,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done
    return done.stderr


def test_what_cannot_be_listened_on_is_refused_in_one_line():
    with socket.create_server(("127.0.0.1", 0)) as good, open("/dev/null", "rb") as file:
        with socket.socket() as silent, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            with socket.socket(socket.AF_UNIX) as local:
                for bad, reason in [
                    (file, "is not an open socket"), (silent, "does not listen"),
                    (datagrams, "is not a TCP socket"), (local, "is not a TCP socket"),
                ]:
                    line = refusal(good.fileno(), bad.fileno())
                    assert f"descriptor 4 of LISTEN_FDS {reason}" in line


def test_a_supervisor_is_told_when_the_server_listens_and_when_it_ends(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(HANG_GUARD)
        with ParleyServer(NOTIFY_SOCKET=supervisor.getsockname()):
            assert supervisor.recv(100) == b"READY=1"
        assert supervisor.recv(100) == b"STOPPING=1"


def test_sockets_that_are_meant_for_another_process_are_left_alone():
    with ParleyServer(LISTEN_PID="1", LISTEN_FDS="1") as server:
        assert server.get("/healthz")[0] == 200
