# One session that keeps a server's processor busy until this program is ended. It calls a CPU-heavy
# tool ("burn"), or sends a minute of speech at once for the server's recogniser. Prints "hot" when
# the first work is done.
#
# hot_session.py URL burn MILLISECONDS [aside] | hot_session.py URL speech WAV…
#
# The WAV files have one channel of 16 kHz; `parley-load claims` checks them.
import asyncio
import base64
import json
import sys
import wave

from websockets.asyncio.client import connect


def minute_of_speech(paths: list[str]) -> list[str]:
    """24 kHz PCM in base64, in pieces of about a second."""
    if not paths:
        raise SystemExit("no recording was named")
    samples: list[int] = []
    while len(samples) < 16_000 * 55:
        for path in paths:
            with wave.open(path) as recording:
                form = recording.getframerate(), recording.getnchannels()
                if form != (16_000, 1) or not recording.getnframes():
                    raise SystemExit(f"{path}: {form[0]} Hz, {form[1]} channels, "
                                     f"{recording.getnframes()} frames")
                data = memoryview(recording.readframes(recording.getnframes())).cast("h")
            samples += data[: 16_000 * 55 - len(samples)]
    # Linear interpolation from 16 to 24 kHz: two samples become three.
    output = bytearray()
    for first, second, third in zip(samples[0::2], samples[1::2], samples[2::2]):
        for value in (first, (first + 2 * second) // 3, (2 * second + third) // 3):
            output += value.to_bytes(2, "little", signed=True)
    pieces = [output[at : at + 48_000] for at in range(0, len(output), 48_000)]
    return [base64.b64encode(piece).decode() for piece in pieces]


async def main(url: str, work: list[str]) -> None:
    async with connect(url, proxy=None, max_size=None) as socket:
        async def send(kind: str, **fields: object) -> None:
            await socket.send(json.dumps({"type": kind, **fields}))

        async def until(kind: str) -> None:
            while (event := json.loads(await socket.recv()))["type"] != kind:
                if event["type"] == "error":
                    raise RuntimeError(event["error"]["message"])

        speech = minute_of_speech(work[1:]) if work[0] == "speech" else []
        if speech:
            audio = {"input": {"format": {"type": "audio/pcm", "rate": 24_000},
                               "turn_detection": None,
                               "transcription": {"model": "embedded"}}}
            await send("session.update", session={"type": "realtime", "audio": audio})
            await until("session.updated")
        first = True
        while True:
            if speech:
                for piece in speech:
                    await send("input_audio_buffer.append", audio=piece)
                await send("input_audio_buffer.commit")
                await until("conversation.item.input_audio_transcription.completed")
            else:
                text = f"burn={' '.join(work[1:])} tokens=1 rate=1000 first=0"
                item = {"type": "message", "role": "user",
                        "content": [{"type": "input_text", "text": text}]}
                await send("conversation.item.create", item=item)
                await send("response.create")
                await until("response.done")
            if first:
                print("hot", flush=True)
            first = False


asyncio.run(main(sys.argv[1], sys.argv[2:]))
