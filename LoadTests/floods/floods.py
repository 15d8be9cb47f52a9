"""What one client that sends a kind of message as fast as it can takes from its neighbours: a table.

    floods.py [--seconds 5] [--connections 1,16] [--only WORD]

For each kind of message and number of connections: a new server with one shard, so that neighbours share
the flood's event loop; a neighbour whose pings are timed, and one that asks for typed replies of the demo
agent. A connection that the server closes is opened again. The neighbours run in a process of their own,
with precedence over the flood, which has a core to itself. `lasting` is how long the server's neighbours are slow after the flood has ended."""

import argparse
import base64
import contextlib
import json
import multiprocessing
import os
import pathlib
import selectors
import socket
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "Tests/clients"))

from parley_server import ParleyServer
from plain_websocket import EMPTY_MASK, frame, open_socket, text_frame

# 20 ms of silence at 24 kHz, and at 8 kHz in G.711.
PCM_20_MS, PCMU_20_MS = bytes(960), b"\xff" * 160
SECOND = base64.b64encode(bytes(48_000)).decode()
TWILIO = {"event": "start", "streamSid": "MZ1", "start": {
    "callSid": "CA1", "streamSid": "MZ1", "customParameters": {"dtmf": "item"}}}
RELAY = {"type": "setup", "sessionId": "VX1", "callSid": "CA1"}
MESSAGE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
TEXT_SESSION = {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}
MANUAL = {"type": "session.update", "session": {
    "type": "realtime", "audio": {"input": {"turn_detection": None}}}}
TOOLS = [{"type": "function", "name": f"tool_{number}", "description": "x" * 100,
          "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
         for number in range(60)]
# Milliseconds within which 99 of 100 pings and replies of a neighbour are answered.
TARGET = 5


def event(kind, **fields):
    return {"type": kind, **fields}


def create(text):
    return event("conversation.item.create", item={
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})


def twilio(kind, **fields):
    return {"event": kind, "streamSid": "MZ1", **fields}


# A flood: the path, what opens it, and the messages that are sent again and again. Text is a mapping or a
# string, bytes are a binary message, and `RawFrames` are sent as they are.
class RawFrames(bytes):
    """Frames without a message around them."""


REALTIME = "/v1/realtime?model=any"
FLOODS = {
    "nothing": (REALTIME, [], []),
    "unknown events of 2 kB": (REALTIME, [], [event("nonsense", padding="x" * 2_000)]),
    "text that is no JSON": (REALTIME, [], ["{" * 60]),
    "numbers without end": (REALTIME, [], ['{"type":"session.update","a":' + "9" * 4_000 + "}"]),
    "deep JSON": (REALTIME, [], ['{"type":' + "[" * 2_000 + "]" * 2_000 + "}"]),
    "session.update": (REALTIME, [], [TEXT_SESSION]),
    "session.update, 60 tools": (REALTIME, [], [event(
        "session.update", session={"type": "realtime", "tools": TOOLS})]),
    "response.create": (REALTIME, [TEXT_SESSION, create("Hello.")], [event("response.create")]),
    "response.create and .cancel": (
        REALTIME, [TEXT_SESSION, create("Hello.")],
        [event("response.create"), event("response.cancel")]),
    "response.create out of band": (REALTIME, [TEXT_SESSION], [event(
        "response.create", response={"conversation": "none", "input": [MESSAGE]})]),
    "response.cancel": (REALTIME, [], [event("response.cancel")]),
    "conversation.item.create": (REALTIME, [], [create("Hello.")]),
    "conversation.item.create, 16 kB": (REALTIME, [], [create("x" * 16_000)]),
    "conversation.item.create of a call's output": (REALTIME, [], [event(
        "conversation.item.create",
        item={"type": "function_call_output", "call_id": "call_1", "output": "{}"})]),
    "conversation.item.retrieve": (
        REALTIME, [event("conversation.item.create", item={"id": "item_1", **MESSAGE})],
        [event("conversation.item.retrieve", item_id="item_1")]),
    "conversation.item.delete": (
        REALTIME, [], [event("conversation.item.delete", item_id="item_1")]),
    "conversation.item.truncate": (REALTIME, [], [event(
        "conversation.item.truncate", item_id="item_1", content_index=0, audio_end_ms=100)]),
    "input_audio_buffer.append, 20 ms": (REALTIME, [], [event(
        "input_audio_buffer.append", audio=base64.b64encode(PCM_20_MS).decode())]),
    "input_audio_buffer.append, 1 s": (
        REALTIME, [], [event("input_audio_buffer.append", audio=SECOND)]),
    "append and commit": (
        REALTIME, [MANUAL],
        [event("input_audio_buffer.append", audio=SECOND), event("input_audio_buffer.commit")]),
    "input_audio_buffer.clear": (REALTIME, [], [event("input_audio_buffer.clear")]),
    "output_audio_buffer.clear": (REALTIME, [], [event("output_audio_buffer.clear")]),
    "binary audio, 20 ms": (REALTIME, [], [PCM_20_MS]),
    "binary audio, 1 byte": (REALTIME, [], [b"\0"]),
    "pings": (REALTIME, [], [RawFrames(b"\x89\x84" + EMPTY_MASK + b"ping")]),
    "empty fragments": (
        REALTIME, [], [RawFrames(b"\x01\x80" + EMPTY_MASK + (b"\x00\x80" + EMPTY_MASK) * 100)]),
    "sideband: session.update": ("sideband", [], [TEXT_SESSION]),
    "sideband: response.create": ("sideband", [], [event("response.create")]),
    "Twilio: media": ("/twilio", [TWILIO], [twilio(
        "media", media={"payload": base64.b64encode(PCMU_20_MS).decode()})]),
    "Twilio: keys": ("/twilio", [TWILIO], [twilio("dtmf", dtmf={"digit": "#"})]),
    "Twilio: marks": ("/twilio", [TWILIO], [twilio("mark", mark={"name": "unknown"})]),
    "Twilio: unknown events": ("/twilio", [TWILIO], [twilio("nonsense", padding="x" * 2_000)]),
    "Asterisk: commands": ("/asterisk", ["MEDIA_START connection_id:1 channel:1 format:ulaw"],
                           ["REPORT_QUEUE_DRAINED", "QUEUE_DRAINED", "NONSENSE"]),
    "ConversationRelay: prompts": (
        "/conversation-relay", [RELAY],
        [{"type": "prompt", "voicePrompt": "count to 100", "lang": "en-US", "last": True}]),
    "ConversationRelay: parts of prompts": (
        "/conversation-relay", [RELAY],
        [{"type": "prompt", "voicePrompt": "count", "lang": "en-US", "last": False}]),
    "ConversationRelay: interruptions": ("/conversation-relay", [RELAY], [{
        "type": "interrupt", "utteranceUntilInterrupt": "One", "durationUntilInterruptMs": 100}]),
    "HTTP: GET /": ("http", [], [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
    "HTTP: GET /metrics": ("http", [], [b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
    "HTTP: chat completions": ("http", [], [b"", {
        "model": "parley", "messages": [{"role": "user", "content": "Hello."}]}]),
    "HTTP: streamed completions": ("http", [], [b"", {
        "model": "parley", "stream": True, "messages": [{"role": "user", "content": "count to 100"}]}]),
    "HTTP: bodies that are no JSON": ("http", [], [b"", "{" * 60]),
}


def wire(message):
    """A message of a flood as bytes."""
    if isinstance(message, RawFrames):
        return bytes(message)
    if isinstance(message, bytes):
        return frame(2, message)
    return text_frame(message)


def request(message):
    """A request of a flood as bytes."""
    if isinstance(message, bytes):
        return message
    body = (message if isinstance(message, str) else json.dumps(message)).encode()
    return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


# The neighbours: a process each, which sends what it measured when asked.


def ping(connection):
    """Sends a ping, and waits for its answer."""
    connection.sendall(b"\x89\x84" + EMPTY_MASK + b"ping")
    seen = b""
    while b"\x8a\x04ping" not in seen:
        seen = seen[-8:] + connection.recv(65_536)


def reply(connection):
    """Asks for a reply, and waits for its end."""
    connection.sendall(wire(create("Hello.")) + wire(event("response.create")))
    seen = b""
    while b'"type":"response.done"' not in seen:
        seen = seen[-64:] + connection.recv(65_536)


def neighbour(port, ask, opening, reports):
    """Asks again and again, and reports (when it began, milliseconds) when the other end asks for it."""
    with contextlib.suppress(PermissionError):
        os.nice(-10)
    connection, _ = open_socket(port, REALTIME)
    for message in opening:
        connection.sendall(wire(message))
    waits = []
    while True:
        began = time.monotonic()
        ask(connection)
        waits.append((began, 1_000 * (time.monotonic() - began)))
        if reports.poll(0.01):
            reports.recv()
            reports.send(waits)
            waits = []


class Neighbours:
    """One that pings, and one that writes."""

    def __init__(self, port):
        self.kinds = []
        for ask, opening in [(ping, []), (reply, [TEXT_SESSION])]:
            here, there = multiprocessing.Pipe()
            process = multiprocessing.Process(
                target=neighbour, args=(port, ask, opening, there), daemon=True)
            process.start()
            self.kinds.append((process, here))

    def take(self):
        """What each has measured since the last time; waits for a question that is open."""
        for _, reports in self.kinds:
            reports.send(None)
        return [reports.recv() for _, reports in self.kinds]

    def end(self):
        for process, _ in self.kinds:
            process.kill()
            process.join()


class Flood:
    """Connections that send a block of messages as fast as the server reads it, and read what comes."""

    def __init__(self, port, name, connections):
        self.port = port
        self.path, self.opening, messages = FLOODS[name]
        self.wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if messages else 0)
        self.selector = selectors.DefaultSelector()
        self.kept = []
        for _ in range(connections):
            self.begin()
        make = request if self.path == "http" else wire
        block = b"".join(make(message) for message in messages)
        repeats = max(1, 65_536 // max(1, len(block)))
        self.messages_per_block = sum(1 for message in messages if message) * repeats
        self.block = block * repeats
        self.bytes = self.closed = 0

    def begin(self):
        """Opens a connection of the flood."""
        connection = self.open()
        for message in self.opening:
            connection.sendall(wire(message))
        connection.setblocking(False)
        self.selector.register(connection, self.wanted, [b""])

    def open(self):
        if self.path == "http":
            return socket.create_connection(("127.0.0.1", self.port), 30)
        if self.path != "sideband":
            return open_socket(self.port, self.path)[0]
        session, seen = open_socket(self.port, REALTIME)
        self.kept.append(session)
        while b'"session":{' not in seen or b'"id":"sess_' not in seen:
            seen += session.recv(65_536)
        identifier = seen.split(b'"id":"sess_')[1].split(b'"')[0].decode()
        session.setblocking(False)
        self.selector.register(session, selectors.EVENT_READ, None)
        return open_socket(self.port, f"/v1/realtime?call_id=sess_{identifier}")[0]

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.selector.get_map():
            for ready, events in self.selector.select(0.1):
                try:
                    if events & selectors.EVENT_READ and not ready.fileobj.recv(1 << 20):
                        raise ConnectionResetError
                    if events & selectors.EVENT_WRITE:
                        self.send(ready)
                except BlockingIOError:
                    continue
                except OSError:
                    self.selector.unregister(ready.fileobj)
                    ready.fileobj.close()
                    self.come_again(ready.data is not None)

    def come_again(self, was_flood):
        """A connection that the server has closed is opened anew, as long as it lets it in."""
        if was_flood:
            self.closed += 1
            with contextlib.suppress(OSError, RuntimeError):
                self.begin()

    def send(self, ready):
        rest = ready.data[0] or self.block
        sent = ready.fileobj.send(rest)
        self.bytes += sent
        ready.data[0] = rest[sent:]

    @property
    def messages(self):
        return self.bytes * self.messages_per_block // max(1, len(self.block))

    def end(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def flood(port, name, connections, seconds, results):
    """Runs a flood in a process of its own, which the server and its neighbours precede."""
    os.nice(5)
    running = Flood(port, name, connections)
    running.run(seconds)
    results.send((running.messages, running.closed))
    running.end()


def part(waits, share):
    """The wait below which a share of them lies."""
    ordered = sorted(wait for _, wait in waits)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def run(name, connections, seconds):
    with ParleyServer(
        "--shards", "1", "--telephone", "twilio,asterisk,conversation-relay", "--insecure",
    ) as server:
        neighbours = Neighbours(server.port)
        time.sleep(0.5)
        neighbours.take()
        here, there = multiprocessing.Pipe()
        flooding = multiprocessing.Process(
            target=flood, args=(server.port, name, connections, seconds, there))
        flooding.start()
        messages, closed = here.recv()
        pings, replies = neighbours.take()
        flooding.join()
        ended = time.monotonic()
        time.sleep(2)
        after, _ = neighbours.take()
        neighbours.end()
        slow = [began + wait / 1_000 - ended for began, wait in after if wait > TARGET]
        cells = [f"{messages / seconds:,.0f}", f"{closed:,}"]
        for waits in (pings, replies):
            cells.append(" / ".join(f"{part(waits, share):.1f}" for share in (0.5, 0.99, 1)))
        cells.append(f"{max(slow, default=0):.1f}")
        misses = part(pings, 0.99) > TARGET
        print(f"| {name} | {connections} | {' | '.join(cells)} |{' <- above the target' if misses else ''}",
              flush=True)
        return misses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", default="1,16")
    parser.add_argument("--only", default="", help="floods with this word in their name")
    options = parser.parse_args()
    print("| flood | connections | sent a second | closed | ping p50 / p99 / longest, ms "
          "| reply p50 / p99 / longest, ms | lasting, s |\n|---|---|---|---|---|---|---|")
    missed = 0
    for name in FLOODS:
        if options.only in name:
            for connections in map(int, options.connections.split(",")):
                missed += run(name, connections, options.seconds)
    print(f"\nabove {TARGET} ms: {missed}")


if __name__ == "__main__":
    main()
