"""Sessions that only transcribe: long utterances of human speech, each committed by its client.

As a program: `talkers.py PORT MINUTES SESSIONS` talks to a server for a while and prints the
outcome. scripts/talk-in-control-group.sh runs it."""

import asyncio
import base64
import collections
import pathlib
import random
import sys
import tempfile
import time

import websockets
from parley_server import PATIENT_WEBSOCKET
from raw_session import RawSession
from recordings import convert, utterances

RATE = 24_000
TRANSCRIPT = "conversation.item.input_audio_transcription"


def speech(seconds):
    """Recorded sentences of this duration, as 16-bit samples at 24 kHz."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "sentence.s16"
        pieces = [convert(path, target, rate=RATE).read_bytes() for path, _ in utterances()]
    once = b"".join(pieces)
    size = 2 * RATE * seconds
    return (once * (size // len(once) + 1))[:size]


class Talker(RawSession):
    """One session, opened by `async with`. The client decides where an utterance ends."""

    def __init__(self, port):
        self.url = f"ws://127.0.0.1:{port}/v1/realtime?intent=transcription"

    async def __aenter__(self):
        self.connection = await websockets.connect(
            self.url, max_size=None, compression=None, **PATIENT_WEBSOCKET)
        await self.until("session.created")
        audio = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}
        session = {"type": "transcription", "audio": {"input": audio}}
        await self.send("session.update", session=session)
        await self.until("session.updated")
        return self

    async def __aexit__(self, *_):
        await self.connection.close()

    async def commit(self, audio):
        """Sends an utterance in pieces of a second, and commits it."""
        size = 2 * RATE
        for start in range(0, len(audio), size):
            piece = base64.b64encode(audio[start : start + size]).decode()
            await self.send("input_audio_buffer.append", audio=piece)
        await self.send("input_audio_buffer.commit")

    async def transcript(self):
        """The transcript of the next utterance, or None if recognition failed."""
        event = await self.until(f"{TRANSCRIPT}.completed", f"{TRANSCRIPT}.failed")
        return event.get("transcript")


def heard_in(path, server):
    """What a server hears in a recording that is sent at once."""
    samples = convert(path, path.with_suffix(".s16"), rate=RATE).read_bytes()

    async def hear():
        async with Talker(server.port) as talker:
            await talker.commit(samples)
            return await talker.transcript()

    return asyncio.run(hear())


async def talk(port, index, end, audio, counts):
    """Runs one client after another until the end; each says three utterances and leaves."""
    draw = random.Random(index)
    while time.monotonic() < end:
        try:
            async with Talker(port) as talker:
                for _ in range(3):
                    # Every second utterance is long.
                    seconds = draw.choice([draw.randint(3, 15), draw.randint(30, 59)])
                    begin = draw.randint(0, 59 - seconds)
                    await talker.commit(audio[2 * RATE * begin : 2 * RATE * (begin + seconds)])
                    counts["seconds of speech"] += seconds
                    text = await talker.transcript()
                    counts["transcripts" if text else "failed"] += 1
                    counts["words"] += len((text or "").split())
        except websockets.InvalidStatus as refusal:
            counts[f"refused with {refusal.response.status_code}"] += 1
            await asyncio.sleep(1)
        except (websockets.ConnectionClosed, OSError) as loss:
            counts[f"lost: {type(loss).__name__}"] += 1
            await asyncio.sleep(1)


async def main(port, minutes, sessions):
    counts = collections.Counter()
    audio = speech(59)
    end = time.monotonic() + 60 * minutes
    await asyncio.gather(*(talk(port, index, end, audio, counts) for index in range(sessions)))
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
