"""Finds how many users may talk to the embedded recogniser of one core: users who speak 2 to 7 s,
wait for their words, and speak again after 2 to 4 s. The server has one core for everything (the
event loop, voice activity, one worker thread), this program another one. Needs the Python environment
of `make test-clients`.

    .venv-tests/bin/python LoadTests/peers/recogniser_turns.py [NAME=BINARY ...]

Options: --users 2,4,8,12,16,20,25  --seconds 60. With several binaries, each number of users is measured
on all of them. Prints a table, where the CPU goes, and how many users each server carries with a
transcript p95 of at most 500 ms. The transcript's delay counts from the end of the turn
(`input_audio_buffer.committed`), 500 ms of silence after the speech. The CPU is right on a machine that
is busy otherwise, too.
"""

import argparse
import asyncio
import json
import os
import random
import time

from bench_server import BenchServer, milliseconds, named_binaries, quantile
from recorded_speech import RATE, speech
from websockets.asyncio.client import connect

SERVER_CORE, OWN_CORE, TARGET = 0, 1, 0.5
PACKET, PACKET_SECONDS = RATE * 2 // 50, 0.02
SILENCE = bytes(PACKET)
# The models are loaded, and the users are spread, before anything counts.
WARM_UP = 12


class Turn:
    def __init__(self):
        self.committed = self.transcript = None
        self.words = 0


class User:
    """One session. `next_packet` is the microphone, which is never switched off."""

    def __init__(self, link, audio, draw):
        self.link, self.audio, self.draw = link, audio, draw
        # The speech in progress, and how much of it is sent.
        self.cut, self.sent = b"", 0
        self.speaks_at = time.monotonic() + draw.uniform(0, 8)
        self.speech_end = None
        self.waits = False
        self.turns = {}
        # Of turns that have their words: the end of the turn, and what it took.
        self.found = []

    @property
    def is_speaking(self):
        return self.sent < len(self.cut)

    async def begin(self):
        detection = {"type": "server_vad", "silence_duration_ms": 500, "create_response": False}
        audio = {"input": {"format": {"type": "audio/pcm", "rate": RATE},
                           "turn_detection": detection, "transcription": {"model": "embedded"}}}
        session = {"type": "realtime", "audio": audio}
        await self.link.send(json.dumps({"type": "session.update", "session": session}))

    def next_packet(self, now):
        if not self.waits and now >= self.speaks_at:
            count = int(self.draw.uniform(2, 7) / PACKET_SECONDS)
            first = self.draw.randrange(len(self.audio) // PACKET - count)
            self.cut, self.sent = self.audio[first * PACKET : (first + count) * PACKET], 0
            self.waits = True
        if self.is_speaking:
            self.sent += PACKET
            self.speech_end = now
            return self.cut[self.sent - PACKET : self.sent]
        # An utterance without a transcript ends 20 s after its speech.
        if self.waits and now > self.speech_end + 20:
            self.rest(now)
        return SILENCE

    def rest(self, now):
        self.waits = False
        self.speaks_at = now + self.draw.uniform(2, 4)

    async def listen(self):
        prefix = "conversation.item.input_audio_transcription."
        async for message in self.link:
            if isinstance(message, bytes):
                continue
            event, now = json.loads(message), time.monotonic()
            turn = self.turns.setdefault(event.get("item_id"), Turn())
            if event["type"] == "input_audio_buffer.committed":
                turn.committed = now
            elif event["type"] == prefix + "delta" and turn.committed is None:
                turn.words += len(event["delta"].split())
            elif event["type"] == prefix + "completed":
                # A pause of the recording may end a turn in the middle of the speech.
                felt = None if self.is_speaking else now - self.speech_end
                self.found.append((now, now - turn.committed, felt, turn.words))
                if not self.is_speaking:
                    self.rest(now)
            elif event["type"] == prefix + "failed":
                self.found.append((now, None, None, turn.words))
                if not self.is_speaking:
                    self.rest(now)


async def talk(users, end):
    """Sends a packet of each user every 20 ms; returns how late the sending was at most."""
    due, late = time.monotonic(), 0
    while due < end:
        for index, user in enumerate(users):
            at = due + PACKET_SECONDS * index / len(users)
            if (wait := at - time.monotonic()) > 0.001:
                await asyncio.sleep(wait)
            late = max(late, time.monotonic() - at)
            await user.link.send(user.next_packet(time.monotonic()))
        due += PACKET_SECONDS
    return late


async def measure(server, count, seconds, audio):
    links = [await connect(server.url, proxy=None, compression=None) for _ in range(count)]
    users = [User(link, audio, random.Random(index)) for index, link in enumerate(links)]
    for user in users:
        await user.begin()
    listening = [asyncio.create_task(user.listen()) for user in users]
    await talk(users, time.monotonic() + WARM_UP)
    begin, used, before = time.monotonic(), consumption(server), server.metrics()
    late = await talk(users, begin + seconds)
    used = {part: value - used[part] for part, value in consumption(server).items()}
    after = server.metrics()
    for task in listening:
        task.cancel()
    for link in links:
        await link.close()
    found = [turn for user in users for turn in user.found if turn[0] >= begin]

    def shed(use):
        name = f'parley_hypotheses_shed_total{{use="{use}"}}'
        return after.get(name, 0) - before.get(name, 0)

    delays = [turn[1] for turn in found if turn[1] is not None]
    return {
        "delays": delays, "failed": len(found) - len(delays), "cpu": used["all"] / seconds, "used": used,
        "felt": [turn[2] for turn in found if turn[2] is not None],
        "words": sum(turn[3] for turn in found), "late": late,
        "shed": (shed("words"), shed("turn")),
    }


def consumption(server):
    """CPU seconds so far: of all threads, of the workers, and theirs by its use."""
    name = "parley_worker_cpu_seconds_total"
    metrics = server.metrics()
    by_use = {use: metrics.get(f'{name}{{use="{use}"}}', 0) for use in ("words", "turn", "awaited")}
    return {"all": server.cpu_seconds(), "workers": server.worker_seconds(), **by_use}


def cpu_row(count, name, found):
    """CPU a turn, in milliseconds. A build without the metric has no uses."""
    used, turns = found["used"], max(1, len(found["delays"]) + found["failed"])
    cells = [used["all"] - used["workers"], used["workers"]]
    has_uses = any(used[use] for use in ("words", "turn", "awaited"))
    cells += [used[use] if has_uses else None for use in ("words", "turn", "awaited")]
    texts = (milliseconds(None if cell is None else cell / turns) for cell in cells)
    return f"| {count} | {name} | {turns} | " + " | ".join(texts) + " |"


def row(count, name, found):
    turns = len(found["delays"]) + found["failed"]
    p50, p95 = (milliseconds(quantile(found["delays"], share)) for share in (0.5, 0.95))
    felt = milliseconds(quantile(found["felt"], 0.95))
    words, turn_ends = (shed / max(1, turns) for shed in found["shed"])
    return (f"| {count} | {name} | {turns} | {p50} | {p95} | {felt} | {found['words'] / max(1, turns):.1f} "
            f"| {words:.1f} | {turn_ends:.2f} | {100 * found['cpu']:.0f}% | {milliseconds(found['late'])} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="*", default=["now=.build/release/parley"])
    parser.add_argument("--users", default="2,4,8,12,16,20,25")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    os.sched_setaffinity(0, {OWN_CORE})
    audio = speech(60)
    carried, cpu_rows = {}, []
    print("| users | server | turns | transcript p50, ms | p95, ms | p95 from the end of speech, ms "
          "| words shown while spoken, a turn | of hypotheses for words shed, a turn "
          "| of those for the turn's end | CPU | sent late at most, ms |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for count in map(int, options.users.split(",")):
        for name, binary in named_binaries(options.binaries):
            arguments = ["--shards", 1, "--worker-threads", 1, "--log-level", "error"]
            with BenchServer(binary, *arguments, core=SERVER_CORE) as server:
                found = asyncio.run(measure(server, count, options.seconds, audio))
            print(row(count, name, found), flush=True)
            cpu_rows.append(cpu_row(count, name, found))
            p95 = quantile(found["delays"], 0.95)
            if p95 is not None and p95 <= TARGET and not found["failed"]:
                carried[name] = max(count, carried.get(name, 0))
    print("\n| users | server | turns | CPU a turn of the event loop, ms | of the workers | for words "
          "shown | for pauses | for turns |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(cpu_rows))
    for name, _ in named_binaries(options.binaries):
        print(f"\n{name}: {carried.get(name, 'none')} users on a core with a transcript p95 of at "
              f"most {1000 * TARGET:.0f} ms")


if __name__ == "__main__":
    main()
