"""Measures how many sessions a core speaks for: sessions whose replies follow each other without a
pause, with each of the embedded voices. No phrase is cached. Needs the Python environment of
`make test-clients`, and for the natural voice `make voice`. `marin` is the natural voice, `slt` flite's.

    .venv-tests/bin/python LoadTests/peers/voice_sessions.py

Options: --voices marin,slt  --sessions 25,50,75,100  --seconds 20. Prints a table. A packet is late that
comes after the moment at which it should be played, where the reply plays from its first packet on.
"""

import argparse
import asyncio
import json
import os
import random
import time

from bench_server import BenchServer, milliseconds, quantile
from reply_encoding import OWN_CORE, PACKET_SECONDS, SERVER_CORE, Listener
from scripted_services import ScriptedServices
from websockets.asyncio.client import connect

WARM_UP = 5
BINARY = ".build/release/parley"


class VoiceListener(Listener):
    """A session that names its voice."""

    def __init__(self, link, draw, voice):
        super().__init__(link, draw)
        self.voice = voice

    async def begin(self):
        output = {"format": {"type": "audio/opus"}, "transport": "binary", "voice": self.voice}
        audio = {"input": {"turn_detection": None}, "output": output}
        session = {"type": "realtime", "audio": audio}
        await self.link.send(json.dumps({"type": "session.update", "session": session}))


async def measure(voice, count, seconds):
    async with ScriptedServices() as services:
        arguments = [
            "--shards", 1, "--worker-threads", 1, "--phrase-cache-bytes", 0,
            "--llm-url", services.url, "--model", "script", "--log-level", "error"]
        with BenchServer(BINARY, *arguments, core=SERVER_CORE) as server:
            links = [await connect(server.url, proxy=None, compression=None, max_size=None)
                     for _ in range(count)]
            listeners = [VoiceListener(link, random.Random(index), voice)
                         for index, link in enumerate(links)]
            tasks = []
            for listener in listeners:
                await listener.begin()
                tasks.append(asyncio.create_task(listener.listen()))
                await asyncio.sleep(3 / count)
            await asyncio.sleep(WARM_UP)
            begin, cpu = time.monotonic(), server.cpu_seconds()
            await asyncio.sleep(seconds)
            cpu, end = server.cpu_seconds() - cpu, time.monotonic()
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
        "cpu": cpu / (end - begin), "speech": PACKET_SECONDS * len(packets), "cpu_total": cpu,
        "late": sum(1 for late in packets if late > 0.001) / max(1, len(packets)),
        "latest": max(packets, default=None), "median": quantile(delays, 0.5),
        "first": quantile(delays, 0.95),
    }


def row(count, voice, found):
    return (f"| {count} | {voice} | {100 * found['cpu']:.0f}% "
            f"| {1000 * found['cpu_total'] / max(0.02, found['speech']):.0f} ms "
            f"| {milliseconds(found['median'])} / {milliseconds(found['first'])} "
            f"| {100 * found['late']:.2f}% | {milliseconds(found['latest'])} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--voices", default="marin,slt")
    parser.add_argument("--sessions", default="25,50,75,100")
    parser.add_argument("--seconds", type=int, default=20)
    options = parser.parse_args()
    os.sched_setaffinity(0, {OWN_CORE})
    print("| sessions that listen to a reply | voice | CPU | CPU a second of speech "
          "| first packet p50 / p95, ms | late packets | latest, ms |")
    print("|---|---|---|---|---|---|---|")
    for voice in options.voices.split(","):
        for count in map(int, options.sessions.split(",")):
            print(row(count, voice, asyncio.run(measure(voice, count, options.seconds))), flush=True)


if __name__ == "__main__":
    main()
