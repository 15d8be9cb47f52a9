"""What a server sends to its session store: a recorder between `parley serve` and a real Redis server,
and conversations whose commands it records. store_operations.py measures with them."""

import asyncio
import base64
import contextlib
import hashlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/clients"))

from parley_server import PATIENT_WEBSOCKET, ParleyServer, free_port  # noqa: E402
from recordings import goforward  # noqa: E402
from redis_server import RedisServer  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402

SOURCE = ROOT / "Sources/Server"
PAUSE = 2


def scripts():
    """The Lua scripts of the store as the Swift sources have them, by their digests: (name, source)."""
    found = {}
    for path in sorted(SOURCE.rglob("*.swift")):
        literals = re.findall(
            r'static let (\w+) = RedisScript\(\s*"""\n(.*?)\n *"""\)', path.read_text(), re.DOTALL)
        for name, text in literals:
            # Swift removes the indentation of the closing quotes, which is that of the first line.
            source = textwrap.dedent(text)
            name = path.stem if name == "script" else name
            found[hashlib.sha1(source.encode()).hexdigest()] = (name, source)
    return found


# MARK: The recorder


def encode(words):
    """A command as RESP."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def commands(stream):
    """The commands of a connection, each as a list of words."""
    while header := stream.readline():
        words = []
        for _ in range(int(header[1:])):
            size = int(stream.readline()[1:])
            words.append(stream.read(size + 2)[:-2])
        yield words


class Recorder:
    """Forwards connections to a Redis server and keeps the commands, each with its time."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.commands = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.record, args=(client, server), daemon=True).start()
            threading.Thread(target=self.answer, args=(server, client), daemon=True).start()

    def record(self, client, server):
        with contextlib.suppress(OSError):
            for words in commands(client.makefile("rb")):
                self.commands.append((time.monotonic(), words))
                server.sendall(encode(words))
            server.shutdown(socket.SHUT_WR)

    def answer(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def of_session(self, session_id, since=0.0):
        """The scripts that were run for a session: (kind, words)."""
        key = f"parley:{{{session_id}}}".encode()
        known = scripts()
        return [
            (kind(known[words[1].decode()][0], words), words) for at, words in list(self.commands)
            if at >= since and words[0] == b"EVALSHA" and words[3] == key]

    def last(self, name):
        """The words of the last run of a script."""
        known = scripts()
        return next(
            words for _, words in reversed(self.commands)
            if words[0] == b"EVALSHA" and known[words[1].decode()][0] == name)


def kind(name, words):
    """What a write is for, by the fields that it sets."""
    if name != "write":
        return name
    if words[6] == b"1":
        return "whole"
    fields = set(words[9 + int(words[8])::2])
    if b"proof" in fields:
        return "new handle"
    if fields <= {b"head", b"resume"}:
        return "head"
    # A reply in progress changes its item alone; the boundaries of a turn change more.
    return "boundary" if fields & {b"order", b"memory", b"settings"} else "progress"


# MARK: Conversations


@contextlib.contextmanager
def numbered_model():
    """The model of `make chaos`: 24 words, a word every 80 ms."""
    port = free_port()
    process = subprocess.Popen([
        "setpriv", "--pdeathsig", "KILL", sys.executable,
        str(ROOT / "LoadTests/chaos/numbered_model.py"), "127.0.0.1", str(port)])
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/runs", timeout=5).close()
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


async def until(link, wanted):
    """The next event of a type."""
    while True:
        message = await link.recv()
        event = {} if isinstance(message, bytes) else json.loads(message)
        assert event.get("type") != "error", event
        if event.get("type") == wanted:
            return event


async def ask(link):
    """A typed turn."""
    content = [{"type": "input_text", "text": "Say the words."}]
    item = {"type": "message", "role": "user", "content": content}
    await link.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await link.send(json.dumps({"type": "response.create"}))
    assert (await until(link, "response.done"))["response"]["status"] == "completed"


async def speak(link):
    """A spoken turn with a spoken reply: an utterance as it is spoken, 100 ms at a time."""
    async def send():
        for start in range(0, len(audio), 4_800):
            piece = base64.b64encode(audio[start:start + 4_800]).decode()
            await link.send(json.dumps({"type": "input_audio_buffer.append", "audio": piece}))
            await asyncio.sleep(0.1)

    audio = goforward()
    sender = asyncio.create_task(send())
    assert (await until(link, "response.done"))["response"]["status"] == "completed"
    await sender


async def converse(server, turn, session, turns, then):
    """A conversation. Before it ends, `then` is called with the connection, the session's id, and the
    time at which the turns began."""
    async with connect(
        f"{server.realtime_url}?resume=true", max_size=None, compression=None, **PATIENT_WEBSOCKET
    ) as link:
        session_id = (await until(link, "session.created"))["session"]["id"]
        await link.send(json.dumps({"type": "session.update", "session": session}))
        await until(link, "session.updated")
        await asyncio.sleep(PAUSE)
        begin = time.monotonic()
        for _ in range(turns):
            await turn(link)
            await asyncio.sleep(PAUSE)
        return await then(link, session_id, begin)


TYPED = {"type": "realtime", "output_modalities": ["text"]}
SPOKEN = {
    "type": "realtime", "output_modalities": ["audio"],
    "audio": {"input": {"turn_detection": {"type": "server_vad"}},
              "output": {"transport": "binary"}},
}


@contextlib.contextmanager
def recorded_server(*arguments):
    """A server with a recorder before its store: (server, recorder, client of the Redis server)."""
    with RedisServer() as redis, numbered_model() as model:
        recorder = Recorder(redis.port)
        with ParleyServer(
            "--store", recorder.url, "--llm", model, "--model", "m", "--shards", "1", *arguments
        ) as server:
            yield server, recorder, redis
