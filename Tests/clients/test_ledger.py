"""The ledger against the memory that the server really takes: many sessions in the same state, and
the growth of what is in use on the heap. Every line of `parley_memory_bytes` is measured by the
server itself; their sum is compared with the kernel's figure.

Memory is no time: a state is the same in every run, so the bounds may be asserted. As a program it
prints the table of LoadTests/RESULTS.md: `test_ledger.py [SESSIONS]`."""

import array
import asyncio
import contextlib
import json
import pathlib
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import websockets
from microphone import RATE, OpusEncoder
from parley_server import HANG_GUARD, ROOT, ParleyServer
from secure_server import SecureServer

# How far the ledger may be from the growth. The goal is a tenth.
TOLERANCE = 0.10
SPEECH = "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"
# Seconds of speech that each speaking session has said.
SPOKEN = 8
# Pages of metrics in a row that show the same memory, 50 ms apart. The program's table has the growth
# of the process, too: it waits longer, until free memory was given back.
SETTLED_PAGES = 5


class HoldingService:
    """A service of models and of speech that begins every answer and never ends it. `release` lets
    it begin; `held` counts the requests that wait, `begun` the answers that have begun."""

    def __init__(self, pieces=3, size=5):
        self.pieces, self.size = pieces, size
        self.heads = asyncio.Event()
        self.held = self.begun = 0
        self.loop = asyncio.new_event_loop()
        self.port = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        started = threading.Event()
        threading.Thread(target=self.run, args=(started,), daemon=True).start()
        assert started.wait(HANG_GUARD)
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.stop)

    def release(self, lets=True):
        """Lets answers begin, or holds the next ones."""
        self.loop.call_soon_threadsafe(self.heads.set if lets else self.heads.clear)

    def stop(self):
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_soon(self.loop.stop)

    def run(self, started):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self.serve, "127.0.0.1", 0, backlog=4096)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    async def serve(self, reader, writer):
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await self.answer(reader, writer)
        writer.close()

    async def answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        await reader.readexactly(length)
        self.held += 1
        await self.heads.wait()
        piece = {"choices": [{"index": 0, "delta": {"content": "x" * self.size}}]}
        event = f"data: {json.dumps(piece)}\n\n".encode()
        chunk = f"{len(event):x}\r\n".encode() + event + b"\r\n"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(self.pieces):
            writer.write(chunk)
            await writer.drain()
        self.begun += 1
        await reader.read()


class Memory:
    """The server's memory at one moment, from one page of metrics."""

    def __init__(self, server):
        self.parts = {}
        values = {}
        for line in server.get("/metrics")[2].decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("parley_memory_bytes{"):
                self.parts[name.split('"')[1]] = int(value)
            values[name] = value
        self.private = int(values["parley_private_memory_bytes"])
        # What is on the heap and belongs to sessions, if it does not belong to a part.
        self.in_use = self.parts["ledgers"] + self.parts["other"]
        self.sessions = int(values["parley_sessions"])
        self.heard_seconds = float(values["parley_audio_received_seconds_total"])


class Growth:
    """What a number of sessions in one state has added."""

    def __init__(self, title, sessions, before, after):
        self.title, self.sessions = title, sessions
        self.parts = {name: after.parts[name] - before.parts[name] for name in after.parts}
        self.private = after.private - before.private
        self.ledgers = self.parts["ledgers"]
        self.in_use = after.in_use - before.in_use

    @property
    def miss(self):
        """The ledger against what is in use for the sessions."""
        return self.ledgers / self.in_use - 1

    def check(self, tolerance=TOLERANCE):
        assert abs(self.miss) <= tolerance, self.line
        return self

    HEAD = (
        "| state | sessions | growth, B | ledger, B | pools, libraries … | allocator | in no part "
        "| ledger against growth | against what is in use |\n|---|---|---|---|---|---|---|---|---|"
    )

    @property
    def line(self):
        shared = sum(
            self.parts[name] for name in ("pools", "scratch", "tables", "libraries", "models")
        )
        each = [self.private, self.ledgers, shared, self.parts["allocator"], self.parts["other"]]
        figures = " | ".join(f"{value / self.sessions:,.0f}" for value in each)
        return (
            f"| {self.title} | {self.sessions} | {figures} "
            f"| {100 * (self.ledgers / self.private - 1):+.1f}% | {100 * self.miss:+.1f}% |"
        )


async def until(condition, message=""):
    deadline = time.monotonic() + HANG_GUARD
    while not condition():
        assert time.monotonic() < deadline, message
        await asyncio.sleep(0.02)


class Crowd:
    """Sessions of one server, opened by `async with`. `small`: the kernel holds little of what they
    do not read."""

    def __init__(self, server, count, small=False, **options):
        self.server, self.count, self.small = server, count, small
        self.options = {"compression": None, "max_size": None, "ping_interval": None} | options
        self.connections = []

    async def __aenter__(self):
        for _ in range(self.count):
            room = {}
            if self.small:
                room["sock"] = socket.socket()
                room["sock"].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                room["sock"].connect(("127.0.0.1", self.server.port))
                room["sock"].setblocking(False)
            connection = await websockets.connect(
                self.server.realtime_url, open_timeout=HANG_GUARD, **self.options, **room
            )
            await connection.recv()
            self.connections.append(connection)
        return self

    async def __aexit__(self, *_):
        for connection in self.connections:
            connection.transport.abort()
        await until(lambda: Memory(self.server).sessions == 0)

    async def send(self, *events):
        """Sends events to all of them."""
        for connection in self.connections:
            for event in events:
                await connection.send(json.dumps(event))


def turn(text="hello"):
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    return [
        {"type": "conversation.item.create", "item": item},
        {"type": "response.create", "response": {"output_modalities": ["text"]}},
    ]


async def settled(server):
    """The memory once nothing of an earlier state is on its way, so that several pages of metrics
    show the same, but for the bytes of the requests themselves."""
    deadline = time.monotonic() + HANG_GUARD
    pages = [Memory(server)]
    while len(pages) < SETTLED_PAGES:
        assert time.monotonic() < deadline, [page.in_use for page in pages]
        await asyncio.sleep(0.05)
        page = Memory(server)
        pages = [*pages, page] if abs(page.in_use - pages[0].in_use) < 2_000 else [page]
    return pages[-1]


async def warmed(server):
    """The memory of a server that has sent so many pages that their buffers have their sizes."""
    for _ in range(100):
        Memory(server)
    return await settled(server)


async def idle(server, count, title="idle", **options):
    """Sessions that have done nothing."""
    async with Crowd(server, 16, **options):
        pass
    before = await warmed(server)
    async with Crowd(server, count, **options):
        return [Growth(title, count, before, await settled(server))]


async def turns(server, service, count):
    """Text turns that wait for the first word, and the same in flight."""
    async with Crowd(server, 8) as crowd:
        service.release()
        await crowd.send(*turn())
        await until(lambda: service.begun == 8)
        service.release(False)
    before = await warmed(server)
    service.held = service.begun = 0
    async with Crowd(server, count) as crowd:
        await crowd.send(*turn())
        await until(lambda: service.held == count)
        waiting = Growth("turn, no word yet", count, before, await settled(server))
        service.release()
        await until(lambda: service.begun == count)
        flying = Growth("turn in flight", count, before, await settled(server))
    service.release(False)
    return [waiting, flying]


async def queued(server, service, count):
    """Replies that their clients do not read."""
    service.release()
    async with Crowd(server, 4, small=True, max_queue=1) as crowd:
        await crowd.send(*turn())
        await until(lambda: service.held >= 4)
        await settled(server)
    before = await warmed(server)
    service.held = service.begun = 0
    async with Crowd(server, count, small=True, max_queue=1) as crowd:
        for connection in crowd.connections:
            connection.transport.pause_reading()
        await crowd.send(*turn())
        await until(lambda: service.held == count)
        return [Growth("reply queued", count, before, await settled(server))]


def packets():
    """Speech without pauses, at 24 kb/s."""
    samples = recording_of(SPEECH)
    encoder = OpusEncoder()
    size = RATE // 50
    once = [encoder.encode(samples[at : at + size]) for at in range(0, len(samples) - size, size)]
    count = 50 * SPOKEN
    return (once * (count // len(once) + 1))[:count]


def recording_of(path):
    target = ["-t", "raw", "-r", str(RATE), "-e", "signed", "-b", "16", "-c", "1", "-"]
    done = subprocess.run(["sox", path, *target], check=True, capture_output=True)
    return array.array("h", done.stdout)


def only_listening(folder):
    """Options for a server that hears speech and does not recognise it."""
    (folder / "silero_vad.bin").symlink_to(ROOT / "models/silero_vad.bin")
    return ["--models", str(folder)]


async def speaking(server, count):
    """Sessions whose users speak and do not pause."""
    detection = {"type": "server_vad", "create_response": False, "interrupt_response": False}
    audio = {"input": {"format": {"type": "audio/opus"}, "turn_detection": detection}}
    update = {"type": "session.update", "session": {"type": "realtime", "audio": audio}}
    said = packets()

    async def speak(crowd, seconds):
        """As fast as the server hears it; all of it has been heard at the end."""
        heard = Memory(server).heard_seconds + crowd.count * seconds
        await crowd.send(update)
        for packet in said[: 50 * seconds]:
            for connection in crowd.connections:
                await connection.send(packet)
        await until(lambda: Memory(server).heard_seconds > heard - 0.01)

    async with Crowd(server, 4) as crowd:
        await speak(crowd, 2)
    before = await warmed(server)
    async with Crowd(server, count) as crowd:
        await speak(crowd, SPOKEN)
        return [Growth(f"speaking for {SPOKEN} s", count, before, await settled(server))]


def run(work):
    return asyncio.run(asyncio.wait_for(work, HANG_GUARD))


def raise_descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="module", autouse=True)
def descriptors():
    raise_descriptor_limit()


# Clients that read nothing stay for as long as the measurement takes.
SERVER = [
    "--shards", "1", "--log-level", "error", "--max-connections-per-address", "0",
    "--slow-reader-timeout-ms", "600000", "--idle-timeout-ms", "600000",
]


def test_the_parts_are_all_of_the_process():
    with ParleyServer(*SERVER) as server:
        memory = Memory(server)
        assert sum(memory.parts.values()) == pytest.approx(memory.private, rel=0.02)
        assert memory.parts["start"] > 0.9 * memory.private


def test_idle_sessions():
    with ParleyServer(*SERVER) as server:
        (growth,) = run(idle(server, 400))
        growth.check()
        assert growth.ledgers / growth.sessions <= 930


def test_sessions_over_tls(tmp_path):
    with SecureServer(tmp_path, *SERVER) as server:
        (growth,) = run(idle(server, 200, "idle, TLS 1.3", ssl=server.context()))
        growth.check()
        assert growth.ledgers / growth.sessions <= 17_000


def test_text_turns():
    with HoldingService() as service, ParleyServer(*SERVER, "--llm-url", service.url) as server:
        waiting, flying = run(turns(server, service, 200))
        waiting.check()
        assert flying.check().in_use / flying.sessions <= 25_500


def test_replies_that_wait_for_their_readers():
    with HoldingService(pieces=8_000, size=1_000) as service, ParleyServer(
        *SERVER, "--llm-url", service.url
    ) as server:
        run(queued(server, service, 40))[0].check()


def test_speaking_sessions(tmp_path):
    with ParleyServer(*SERVER, *only_listening(tmp_path)) as server:
        run(speaking(server, 30))[0].check()


def main(count):
    """Prints the table."""
    global SETTLED_PAGES
    SETTLED_PAGES = 50
    raise_descriptor_limit()
    print(Growth.HEAD)

    def show(growths):
        for growth in growths:
            print(growth.line, flush=True)

    with ParleyServer(*SERVER) as server:
        show(run(idle(server, count)))
    with tempfile.TemporaryDirectory() as folder:
        with SecureServer(pathlib.Path(folder), *SERVER) as server:
            show(run(idle(server, count, "idle, TLS 1.3", ssl=server.context())))
    with HoldingService() as service, ParleyServer(*SERVER, "--llm-url", service.url) as server:
        show(run(turns(server, service, count)))
    with HoldingService(pieces=8_000, size=1_000) as service, ParleyServer(
        *SERVER, "--llm-url", service.url
    ) as server:
        show(run(queued(server, service, count // 10)))
    with tempfile.TemporaryDirectory() as folder:
        with ParleyServer(*SERVER, *only_listening(pathlib.Path(folder))) as server:
            show(run(speaking(server, 30)))
            show(run(speaking(server, 200)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
