"""Measures the server's CPU time for a reply whose words it has spoken before, with and without the
phrase cache. Starts the server twice; needs the Python environment of `make test-clients`.

    .venv-clients/bin/python LoadTests/peers/phrase_cache.py
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request

from websockets.asyncio.client import connect

SESSIONS, REPLIES, PORT = 10, 10, 19_250
TEXT = "Hello, this is the reception of the hotel by the lake. How may I help you today?"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def listen(format_type):
    """One session; returns the packets of its replies."""
    output = {"format": {"type": format_type}, "transport": "binary"}
    audio = {"input": {"turn_detection": None}, "output": output}
    packets = 0
    async with connect(f"ws://127.0.0.1:{PORT}/v1/realtime", max_size=None) as link:
        session = {"type": "realtime", "audio": audio}
        await link.send(json.dumps({"type": "session.update", "session": session}))
        for _ in range(REPLIES):
            content = [{"type": "input_text", "text": TEXT}]
            item = {"type": "message", "role": "user", "content": content}
            await link.send(json.dumps({"type": "conversation.item.create", "item": item}))
            # The request has only the last message as its input, so that every reply is the same.
            response = {"input": [item]}
            await link.send(json.dumps({"type": "response.create", "response": response}))
            while True:
                message = await link.recv()
                if isinstance(message, bytes):
                    packets += 1
                elif json.loads(message)["type"] == "response.done":
                    break
    return packets


async def measure(format_type, cache_bytes):
    arguments = ["--port", str(PORT), "--shards", "1", "--phrase-cache-bytes", str(cache_bytes)]
    arguments += ["--playout-lead-ms", "60000"]
    command = [".build/release/parley", "serve", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/healthz").read()
                break
            except OSError:
                time.sleep(0.1)
        await listen(format_type)
        before = cpu_seconds(server.pid)
        packets = sum(await asyncio.gather(*[listen(format_type) for _ in range(SESSIONS)]))
        spent = cpu_seconds(server.pid) - before
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics").read().decode()
    finally:
        server.terminate()
        server.wait()
    lines = [line for line in metrics.splitlines() if line.startswith("parley_phrase")]
    replies = SESSIONS * REPLIES
    print(f"{format_type} cache {cache_bytes}: {1000 * spent / replies:.1f} ms a reply,"
          f" {packets / replies:.0f} packets a reply")
    print("   ", "; ".join(lines))


async def main():
    for format_type in ["audio/opus", "audio/pcm"]:
        for cache_bytes in [0, 4 << 20]:
            await measure(format_type, cache_bytes)


sys.exit(asyncio.run(main()))
