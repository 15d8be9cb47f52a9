"""Measures what encoding replies as Opus costs, and what a busy event loop does about it: sessions
whose replies follow each other without a pause, on one core. A service of this program makes the
speech, so that nothing but its encoding is the server's work. No phrase is cached. Needs the Python
environment of `make test-clients`.

    .venv-tests/bin/python LoadTests/peers/reply_encoding.py [NAME=BINARY ...]

Options: --sessions 25,50,100,150,200  --complexity 5 (what a calm loop uses)  --seconds 30. Prints a
table. A packet is late that comes after the moment at which it should be played, where the reply
plays from its first packet on.
"""

import argparse
import asyncio
import json
import os
import random
import time

from bench_server import BenchServer, milliseconds, named_binaries, quantile
from scripted_services import ScriptedServices
from websockets.asyncio.client import connect

SERVER_CORE, OWN_CORE = 0, 1
PACKET_SECONDS = 0.02
# Longer than the five seconds after which a calm loop takes a step back.
WARM_UP = 12
WORDS = ("the room is ready for you and we have put a table near the window where the light of the "
         "morning comes in over the lake so that breakfast may be late if you like").split()


class Listener:
    """A session that listens to one reply after another."""

    def __init__(self, link, draw):
        self.link, self.draw = link, draw
        # When packets came, and how much later than they should be played.
        self.packets, self.replies = [], []

    async def begin(self):
        output = {"format": {"type": "audio/opus"}, "transport": "binary"}
        audio = {"input": {"turn_detection": None}, "output": output}
        session = {"type": "realtime", "audio": audio}
        await self.link.send(json.dumps({"type": "session.update", "session": session}))

    async def listen(self):
        while True:
            text = " ".join(self.draw.choice(WORDS) for _ in range(self.draw.randint(20, 40))) + "."
            content = [{"type": "input_text", "text": text}]
            item = {"type": "message", "role": "user", "content": content}
            response = {"conversation": "none", "input": [item]}
            asked, first, count = time.monotonic(), None, 0
            await self.link.send(json.dumps({"type": "response.create", "response": response}))
            while True:
                message = await self.link.recv()
                now = time.monotonic()
                if isinstance(message, bytes):
                    first = first or now
                    self.packets.append((now, now - first - PACKET_SECONDS * count))
                    count += 1
                elif (event := json.loads(message))["type"] == "response.done":
                    if event["response"]["status"] != "completed" or not count:
                        raise RuntimeError(f"a reply failed: {event}")
                    break
            self.replies.append((asked, first - asked))
            # The next one begins where this one was played to its end.
            await asyncio.sleep(max(0, first + PACKET_SECONDS * count - time.monotonic()))


async def measure(binary, count, complexity, seconds):
    async with ScriptedServices() as services:
        arguments = [
            "--shards", 1, "--phrase-cache-bytes", 0, "--opus-complexity", complexity,
            "--llm-url", services.url, "--model", "script", "--tts-url", services.url,
            "--log-level", "error"]
        with BenchServer(binary, *arguments, core=SERVER_CORE) as server:
            links = [await connect(server.url, proxy=None, compression=None, max_size=None)
                     for _ in range(count)]
            listeners = [Listener(link, random.Random(index)) for index, link in enumerate(links)]
            tasks = []
            for listener in listeners:
                await listener.begin()
                tasks.append(asyncio.create_task(listener.listen()))
                await asyncio.sleep(3 / count)
            await asyncio.sleep(WARM_UP)
            begin, cpu = time.monotonic(), server.cpu_seconds()
            steps = []
            while time.monotonic() < begin + seconds:
                await asyncio.sleep(1)
                metrics = await asyncio.to_thread(server.metrics)
                steps.append(sum(value for name, value in metrics.items()
                                 if name.startswith("parley_shard_opus_complexity_reduction")))
            cpu = server.cpu_seconds() - cpu
            end = time.monotonic()
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for link in links:
                await link.close()
    packets = [late for one in listeners for at, late in one.packets if begin <= at < end]
    delays = [delay for one in listeners for at, delay in one.replies if at >= begin]
    return {
        "cpu": cpu / (end - begin), "speech": PACKET_SECONDS * len(packets),
        "reduction": quantile(steps, 0.5), "most": max(steps), "cpu_total": cpu,
        "late": sum(1 for late in packets if late > 0.001) / max(1, len(packets)),
        "latest": max(packets, default=None), "first": quantile(delays, 0.95),
    }


def row(count, name, complexity, found):
    effective = max(0, complexity - found["reduction"])
    return (f"| {count} | {name} | {100 * found['cpu']:.0f}% "
            f"| {1000 * found['cpu_total'] / found['speech']:.2f} ms | {effective:.0f} "
            f"| {found['most']:.0f} | {milliseconds(found['first'])} | {100 * found['late']:.2f}% "
            f"| {milliseconds(found['latest'])} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="*", default=["now=.build/release/parley"])
    parser.add_argument("--sessions", default="25,50,100,150,200")
    parser.add_argument("--complexity", default="5")
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    os.sched_setaffinity(0, {OWN_CORE})
    print("| sessions that listen to a reply | server | CPU | CPU a second of speech "
          "| complexity, median | largest reduction | first packet p95, ms | late packets | latest, ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for count in map(int, options.sessions.split(",")):
        for complexity in map(int, options.complexity.split(",")):
            for name, binary in named_binaries(options.binaries):
                found = asyncio.run(measure(binary, count, complexity, options.seconds))
                print(row(count, f"{name}, from {complexity}", complexity, found), flush=True)


if __name__ == "__main__":
    main()
