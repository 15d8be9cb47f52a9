"""Measures what the first user after a start notices: the delay of the transcript in the first turns and
in the tenth, and the memory of the server before and after. Needs the Python environment of `make
test-clients`.

    .venv-tests/bin/python LoadTests/peers/first_turns.py [NAME=BINARY ...]

Options: --rounds 3. Each round starts a server for each row. The user names the format of the audio when
the session opens, and commits some 3 s of speech. In the rows "speaks at once" that is all there is
before it; in the others the session is open for 3 s first, as a person takes to begin and end a sentence.
"""

import argparse
import asyncio
import json
import time

from bench_server import BenchServer, milliseconds, named_binaries, quantile
from recorded_speech import RATE, speech
from websockets.asyncio.client import connect

TURNS = 10
COMPLETED = "conversation.item.input_audio_transcription.completed"
CASES = [
    ("speaks at once", [], 0), ("speaks after 3 s", [], 3),
    ("warm-models, speaks after 3 s", ["--warm-models", "true"], 3),
]


async def talk(server, audio, pause):
    """The delays of the turns."""
    delays = []
    async with connect(server.url, proxy=None, compression=None, max_size=None) as link:
        settings = {"input": {"format": {"type": "audio/pcm", "rate": RATE},
                              "turn_detection": None, "transcription": {"model": "embedded"}}}
        session = {"type": "realtime", "audio": settings}
        await link.send(json.dumps({"type": "session.update", "session": session}))
        await asyncio.sleep(pause)
        for _ in range(TURNS):
            for start in range(0, len(audio), RATE):
                await link.send(audio[start : start + RATE])
            begin = time.monotonic()
            await link.send(json.dumps({"type": "input_audio_buffer.commit"}))
            while (event := json.loads(await link.recv()))["type"] != COMPLETED:
                if event["type"] == "error" or event["type"].endswith("failed"):
                    raise RuntimeError(str(event))
            delays.append(time.monotonic() - begin)
    return delays


def measure(binary, arguments, audio, pause):
    with BenchServer(binary, *arguments, "--log-level", "error") as server:
        # The time in which a person opens the page.
        time.sleep(3)
        at_rest = server.resident_bytes()
        delays = asyncio.run(talk(server, audio, pause))
        return delays, at_rest, server.resident_bytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", nargs="*", default=["now=.build/release/parley"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    audio = speech(3)
    print("| the first user | server | first turn, ms | second, ms | tenth, ms | resident before, MB | after, MB |")
    print("|---|---|---|---|---|---|---|")
    for case, arguments, pause in CASES:
        for name, binary in named_binaries(options.binaries):
            found = [measure(binary, arguments, audio, pause) for _ in range(options.rounds)]
            turns = " | ".join(
                milliseconds(quantile([delays[turn] for delays, _, _ in found], 0.5))
                for turn in (0, 1, TURNS - 1))
            memory = " | ".join(
                f"{quantile([one[place] for one in found], 0.5) / 1e6:.0f}" for place in (1, 2))
            print(f"| {case} | {name} | {turns} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
