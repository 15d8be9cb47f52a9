"""Measures how much one long message delays the other clients of its shard: K clients send it at the
same time, repeatedly, and one echo client beside them measures the delay of its own messages.

    long_messages.py [--clients 1,4,12] [--rounds 5] [--messages audio,append,...] BINARY [BINARY]

Servers are measured one after the other, each in a process of its own with one shard. A round's figure
is its longest delay. The table shows the least, the median and the largest of the rounds, because other
programs on the machine can only make a delay longer."""

import argparse
import base64
import contextlib
import json
import os
import pathlib
import random
import statistics
import struct
import sys
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests/clients"))

import parley_server  # noqa: E402
from test_hostile_peers import DEFLATE, RawWebSocket, frame  # noqa: E402

SECONDS = 58
TEXT = 1 << 20
SILENT = {"type": "realtime", "output_modalities": ["text"]}


def speech(rate, width):
    """Noise whose loudness changes ten times a second, so that voice activity analyses all of it."""
    draw = random.Random(1)
    samples = []
    for _ in range(SECONDS * 10):
        loud = int(30 * 1.6 ** draw.randrange(13))
        samples += draw.choices(range(-loud, loud), k=rate // 10)
    if width == 1:
        # G.711, roughly: a sign, and seven bits of a logarithm.
        return bytes(
            (0x80 if sample >= 0 else 0) | (0x7F - min(0x7F, int(abs(sample) ** 0.5)))
            for sample in samples)
    return struct.pack(f"<{len(samples)}h", *samples)


def event(**fields):
    return json.dumps(fields).encode()


def deflated(payload):
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return (compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def append(payload):
    return event(type="input_audio_buffer.append", audio=base64.b64encode(payload).decode())


def item(*content, role="user"):
    message = {"type": "message", "role": role, "content": content}
    return event(type="conversation.item.create", item=message)


def tools():
    properties = {f"p{n}": {"type": "string", "description": "d" * 400} for n in range(18)}
    return [
        {"type": "function", "name": f"f{n}", "description": "d" * 500,
         "parameters": {"type": "object", "properties": properties}} for n in range(110)
    ]


def messages():
    """Each: the format of the session's input, then the frame."""
    pcmu = {"type": "audio/pcmu"}
    pcm = {"type": "audio/pcm", "rate": 24000}
    law, samples = speech(8000, 1), speech(24000, 2)
    sound = base64.b64encode(samples).decode()
    words = ["".join(random.Random(2).choices("abcdefghij ", k=4096)) for _ in range(256)]
    text = json.dumps({"type": "x", "s": words * 18}).encode()[: 20 << 20]
    table = {
        "audio": (pcmu, frame(2, law)),
        "append": (pcmu, frame(1, append(law))),
        "compressed": (pcmu, frame(1, deflated(append(law)), compressed=True)),
        "pcm": (pcm, frame(2, samples)),
        "append-pcm": (pcm, frame(1, append(samples))),
        "too-long": (pcm, frame(1, append(bytes(15 << 20)))),
        "item-audio": (pcm, frame(1, item({"type": "input_audio", "audio": sound}))),
        "item-text": (pcm, frame(1, item(*[{"type": "input_text", "text": "x" * 8000}] * 120))),
        "tools": (pcm, frame(1, event(
            type="session.update", session={"type": "realtime", "tools": tools()}))),
        "unknown-20M": (pcm, frame(1, text)),
        "unknown-20M-compressed": (pcm, frame(1, deflated(text), compressed=True)),
        "ping-only": (pcm, frame(9, b"")),
    }
    return table


class Echo(threading.Thread):
    """Sends and awaits one message after the other; `longest` since it was last reset."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.peer = RawWebSocket(server, "/debug/echo")
        self.longest, self.count = 0.0, 0
        self.ends = False

    def run(self):
        while not self.ends:
            begun = time.monotonic()
            self.peer.expect_echo()
            self.longest = max(self.longest, time.monotonic() - begun)
            self.count += 1
            time.sleep(0.0005)


def answered(peer):
    """Waits for the event that follows the message: the server has then handled it."""
    peer.socket.sendall(frame(9, b"behind"))
    while peer.next() != (10, b"behind"):
        pass


def measure(binary, name, setup, data, clients, rounds):
    parley_server.BINARY = binary
    with parley_server.ParleyServer(
        "--shards", "1", "--debug-echo", "true", "--max-connections-per-address", "0"
    ) as server, contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(RawWebSocket(server, "/v1/realtime?model=m", [DEFLATE]))
            for _ in range(clients)
        ]
        update = {"type": "realtime", "audio": {"input": {
            "format": setup, "turn_detection": {"type": "server_vad", "create_response": False}}}}
        for peer in peers:
            peer.socket.sendall(frame(1, event(type="session.update", session=update)))
            answered(peer)
        echo = Echo(server)
        echo.start()
        longest = []
        for _ in range(rounds):
            echo.longest = 0.0
            threads = [
                threading.Thread(target=lambda p=peer: (p.socket.sendall(data), answered(p)))
                for peer in peers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # The echo that the last message delayed is counted too.
            count = echo.count
            while echo.count < count + 2:
                time.sleep(0.001)
            longest.append(echo.longest * 1e3)
            for peer in peers:
                peer.socket.sendall(frame(1, event(type="input_audio_buffer.clear")))
                answered(peer)
        echo.ends = True
        echo.join()
    print(
        f"{pathlib.Path(binary).name:16} {name:24} {clients:3} clients: "
        f"{min(longest):8.1f} {statistics.median(longest):8.1f} {max(longest):8.1f} ms",
        flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default="1,4,12")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", default="")
    parser.add_argument("binaries", nargs="+")
    options = parser.parse_args()
    table = messages()
    names = options.messages.split(",") if options.messages else list(table)
    for name in names:
        for clients in map(int, options.clients.split(",")):
            for binary in options.binaries:
                measure(os.path.abspath(binary), name, *table[name], clients, options.rounds)


if __name__ == "__main__":
    main()
