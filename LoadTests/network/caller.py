"""One caller behind a bad network, as parley.js is one: its microphone sends all the time, and it asks for
replies, spoken and typed in turns. Prints what was sent and what came as JSON, with times of
`time.monotonic`, for listen.mjs and network.py.

    caller.py HOST PORT SOUND CODEC PACKET_MS SECONDS

SOUND is a folder of `Sound`. Frames are sent at the time at which a microphone would have them, however late
the answers are."""

import asyncio
import json
import struct
import sys
import time

from sound import Sound
from wire import open_wire

FORMATS = {
    "opus": {"type": "audio/opus"},
    "pcm": {"type": "audio/pcm", "rate": 24000},
}
# As in parley.js: waiting bytes from which frames are dropped, and seconds between reports of the
# audio played.
MOST_WAITING = {"opus": 20_000, "pcm": 48_000}
ACKNOWLEDGE_EVERY = 0.25
# The header of binary output (PROTOCOL.md), and the rates of its positions.
HEADER = struct.Struct("<BBHI16s")
POSITION_RATE = {"opus": 48, "pcm": 24}
# Seconds to wait for the end of a turn's answer; then the next turn begins.
PATIENCE = 30
PAUSE = 0.8
TYPED = "Please count to 20"


class Caller:
    def __init__(self, wire, sound, codec, seconds):
        self.wire, self.sound, self.codec = wire, sound, codec
        self.ends_at = time.monotonic() + seconds
        # (time of the first sample, offset of the last byte), of frames; what was dropped has no offset.
        self.spoken = []
        self.arrivals, self.ends, self.turns = [], [], []
        self.utterance = iter(())
        self.said_at = None
        self.has_said = asyncio.Event()
        self.is_done = asyncio.Event()
        self.playing = None

    def result(self):
        return {
            "spoken": self.spoken, "arrivals": self.arrivals, "ends": self.ends, "turns": self.turns,
        }

    async def speak(self):
        """Sends the microphone: silence, or the next frame of the utterance that was begun."""
        step, number = self.sound.packet_ms / 1000, 0
        begin = time.monotonic()
        while not self.wire.transport.is_closing():
            # A frame can be sent when its last sample is there.
            await asyncio.sleep(max(0, begin + (number + 1) * step - time.monotonic()))
            payload = next(self.utterance, None)
            if payload is None:
                if self.said_at is None:
                    self.said_at = begin + number * step
                    self.has_said.set()
                payload = self.sound.quiet[number % len(self.sound.quiet)]
            if self.codec == "opus":
                payload = struct.pack("!H", number & 0xFFFF) + payload
            is_sent = self.wire.waiting_bytes < MOST_WAITING[self.codec]
            end = self.wire.send(payload) if is_sent else None
            self.spoken.append((begin + number * step, end))
            number += 1

    async def hear(self):
        while (message := await self.wire.messages.get()) is not None:
            now, offset, content = message
            if isinstance(content, bytes):
                self.take_audio(now, offset, content)
            else:
                self.take_event(now, json.loads(content))

    def take_audio(self, now, offset, message):
        kind, code, _, position, item = HEADER.unpack_from(message)
        if kind != 1:
            return
        payload = message[HEADER.size :]
        ms = 20 if code == 3 else len(payload) / 48
        position /= POSITION_RATE["opus" if code == 3 else "pcm"]
        item = item.rstrip(b"\0").decode()
        self.arrivals.append({
            "at": now, "offset": offset, "item": item, "position": position, "ms": ms})
        if self.playing is None or self.playing["item"] != item:
            self.playing = {"item": item, "began": now, "received": 0}
        self.playing["received"] = position + ms

    def take_event(self, now, event):
        if event["type"] == "response.output_audio.done":
            self.ends.append({"at": now, "item": event["item_id"]})
        elif event["type"] == "response.done":
            self.is_done.set()
        elif event["type"] == "session.updated":
            self.is_ready.set_result(None)

    @property
    def left_to_play(self):
        if self.playing is None:
            return 0
        return self.playing["received"] / 1000 - (time.monotonic() - self.playing["began"])

    async def acknowledge(self):
        """Tells what was played, as a page does. The page knows it better, which matters to nothing here."""
        while not self.wire.transport.is_closing():
            await asyncio.sleep(ACKNOWLEDGE_EVERY)
            if self.left_to_play > 0:
                played = 1000 * (time.monotonic() - self.playing["began"])
                self.send("output_audio_buffer.played", item_id=self.playing["item"],
                          content_index=0, audio_end_ms=int(played))

    def send(self, kind, **fields):
        self.wire.send(json.dumps({"type": kind, **fields}))

    async def converse(self):
        self.is_ready = asyncio.get_running_loop().create_future()
        form = FORMATS[self.codec]
        self.send("session.update", session={
            "type": "realtime", "output_modalities": ["audio"], "audio": {
                "input": {
                    "format": form | ({"sequence": True} if self.codec == "opus" else {}),
                    "transcription": {"model": "default"}, "turn_detection": {"type": "server_vad"}},
                "output": {"format": form, "transport": "binary"}}})
        await self.is_ready
        tasks = [asyncio.create_task(self.speak()), asyncio.create_task(self.acknowledge())]
        await asyncio.sleep(1)
        number = 0
        while time.monotonic() < self.ends_at and not self.wire.transport.is_closing():
            await self.turn(number % 2 == 0)
            number += 1
        for task in tasks:
            task.cancel()

    async def turn(self, is_spoken):
        self.is_done.clear()
        heard = len(self.arrivals)
        if is_spoken:
            self.has_said.clear()
            self.said_at, self.utterance = None, iter(self.sound.speech)
            await self.has_said.wait()
            asked = self.said_at
        else:
            asked = time.monotonic()
            content = [{"type": "input_text", "text": TYPED}]
            self.send("conversation.item.create",
                      item={"type": "message", "role": "user", "content": content})
            self.send("response.create")
        try:
            async with asyncio.timeout(PATIENCE):
                await self.is_done.wait()
        except TimeoutError:
            pass
        first = self.arrivals[heard]["item"] if len(self.arrivals) > heard else None
        self.turns.append({"spoken": is_spoken, "asked": asked, "item": first})
        await asyncio.sleep(max(0, self.left_to_play) + PAUSE)


async def main():
    host, port, folder, codec, packet_ms, seconds = sys.argv[1:]
    sound = Sound(folder, codec, int(packet_ms))
    wire = await open_wire(host, int(port), "/v1/realtime?model=any")
    caller = Caller(wire, sound, codec, float(seconds))
    hearing = asyncio.create_task(caller.hear())
    await caller.converse()
    wire.transport.abort()
    await hearing
    print(json.dumps(caller.result()))


if __name__ == "__main__":
    asyncio.run(main())
