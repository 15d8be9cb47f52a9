"""Measures how long one speaker waits for a transcript while sessions of another key keep the
embedded recogniser busy. Every attacker always has eight utterances of 10 s in the queue. The
victim commits one of about 4 s, waits for its transcript, and pauses. Needs the Python environment of `make test-clients`.

    .venv-tests/bin/python LoadTests/peers/recogniser_shares.py [NAME=BINARY ...]

Options: --attackers 0,1,5,12  --turns 20 (of the victim, in each round)  --rounds 2. With
several binaries, each number of attackers is measured on all of them. Prints a table.
"""

import argparse
import asyncio
import json
import pathlib
import tempfile
import time

from bench_server import BenchServer, milliseconds, named_binaries, quantile
from recorded_speech import speech
from websockets.asyncio.client import connect

ATTACKER, VICTIM = "sk-attacker-0123456789abcdef", "sk-victim-0123456789abcdef"
COMPLETED = "conversation.item.input_audio_transcription.completed"
FAILED = "conversation.item.input_audio_transcription.failed"
WAITING, PAUSE, AFTER_REFUSAL = 8, 0.5, 0.25


class Speaker:
    """A session that commits its turns itself and gets only transcripts."""

    def __init__(self, link):
        self.link = link

    async def begin(self):
        audio = {"input": {"format": {"type": "audio/pcm", "rate": 24_000},
                           "turn_detection": None, "transcription": {"model": "embedded"}}}
        session = {"type": "realtime", "audio": audio}
        await self.link.send(json.dumps({"type": "session.update", "session": session}))

    async def commit(self, audio):
        for start in range(0, len(audio), 48_000):
            await self.link.send(audio[start : start + 48_000])
        await self.link.send(json.dumps({"type": "input_audio_buffer.commit"}))

    async def outcome(self):
        while (event := json.loads(await self.link.recv()))["type"] not in (COMPLETED, FAILED):
            if event["type"] == "error":
                raise RuntimeError(event["error"]["message"])
        return event["type"]


def open_session(server, key):
    return connect(
        server.url, proxy=None, max_size=None,
        additional_headers={"Authorization": f"Bearer {key}"},
    )


async def attack(server, audio):
    async with open_session(server, ATTACKER) as link:
        session = Speaker(link)
        await session.begin()
        for _ in range(WAITING):
            await session.commit(audio)
        while True:
            if await session.outcome() == FAILED:
                await asyncio.sleep(AFTER_REFUSAL)
            await session.commit(audio)


async def measure(server, attackers, turns, long, short):
    """Seconds of the victim's turns that were transcribed, and the number of those refused."""
    async with open_session(server, VICTIM) as link:
        victim = Speaker(link)
        await victim.begin()
        # The model is loaded by the first turn.
        await victim.commit(short)
        await victim.outcome()
        tasks = [asyncio.create_task(attack(server, long)) for _ in range(attackers)]
        # Every attacker has sent its eight utterances.
        await asyncio.sleep(5 if attackers else 0)
        delays, refused = [], 0
        for _ in range(turns):
            await victim.commit(short)
            begin = time.monotonic()
            if await victim.outcome() == COMPLETED:
                delays.append(time.monotonic() - begin)
            else:
                refused += 1
            await asyncio.sleep(PAUSE)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return delays, refused


def run(binary, attackers, turns, long, short):
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys.txt"
        keys.write_text(f"{ATTACKER}\n{VICTIM}\n")
        with BenchServer(binary, "--api-keys-file", keys) as server:
            return asyncio.run(measure(server, attackers, turns, long, short))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="*", default=["now=.build/release/parley"])
    parser.add_argument("--attackers", default="0,1,5,12")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    binaries = named_binaries(options.binaries)
    long, short = speech(10), speech(4)
    print("| attackers | server | transcripts / turns | p50, ms | p95, ms | max, ms |")
    print("|---|---|---|---|---|---|")
    for attackers in map(int, options.attackers.split(",")):
        found = {name: ([], 0) for name, _ in binaries}
        for _ in range(options.rounds):
            for name, binary in binaries:
                delays, refused = run(binary, attackers, options.turns, long, short)
                found[name] = (found[name][0] + delays, found[name][1] + refused)
        for name, (delays, refused) in found.items():
            figures = " | ".join(
                milliseconds(quantile(delays, share)) for share in (0.5, 0.95, 1))
            total = len(delays) + refused
            print(f"| {attackers} | {name} | {len(delays)} / {total} | {figures} |", flush=True)


main()
