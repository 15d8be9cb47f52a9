"""A telephone carrier with one call, as a WebSocket client that plays what it is sent at its pace. The
shapes of the messages are those that the carriers document (Codec/Telephony names the documents)."""

import asyncio
import base64
import contextlib
import json
from types import NoneType

from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from recordings import goforward
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedOK

PACKET = 160
# A stream of Twilio's.
STREAM = "MZ18ad3ab5a668481ce02b83e7"
SILENCE = b"\xff" * PACKET


def mulaw(samples):
    """16-bit samples as G.711 µ-law (ITU-T G.711), written for these tests."""
    codes = bytearray()
    for sample in samples:
        sign = 0x80 if sample < 0 else 0
        magnitude = min(abs(sample), 32635) + 132
        segment = magnitude.bit_length() - 8
        codes.append(~(sign | segment << 4 | magnitude >> (segment + 3) & 15) & 0xFF)
    return bytes(codes)


def speech():
    """"go forward ten meters" between silences, as packets of 20 ms in µ-law."""
    pcm = goforward(8000)
    codes = mulaw(memoryview(pcm).cast("h"))
    return [codes[at:at + PACKET] for at in range(0, len(codes) - PACKET + 1, PACKET)]


class Twilio:
    """Twilio Media Streams; SignalWire has the same."""

    path = "/twilio"
    media, mark, clear = "media", "mark", "clear"
    returns_cleared_marks = True

    def __init__(self, **parameters):
        self.parameters = parameters

    def opening(self):
        yield {"event": "connected", "protocol": "Call", "version": "1.0.0"}
        yield {
            "event": "start", "sequenceNumber": "1", "streamSid": STREAM,
            "start": {
                "streamSid": STREAM, "accountSid": "AC1",
                "callSid": "CA02a4a2b4", "tracks": ["inbound"],
                "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
                "customParameters": self.parameters,
            },
        }

    def audio(self, packet, number):
        return {
            "event": "media", "sequenceNumber": str(number + 2), "streamSid": STREAM,
            "media": {
                "track": "inbound", "chunk": str(number), "timestamp": str(20 * number),
                "payload": base64.b64encode(packet).decode(),
            },
        }

    def key(self, digit):
        return {
            "event": "dtmf", "streamSid": STREAM, "sequenceNumber": "5",
            "dtmf": {"track": "inbound_track", "digit": digit},
        }

    def played(self, name):
        return {
            "event": "mark", "sequenceNumber": "4", "streamSid": STREAM,
            "mark": {"name": name},
        }

    def name_of(self, message):
        assert message["streamSid"] == STREAM, message
        return message["mark"]["name"]

    def stop(self):
        return {
            "event": "stop", "sequenceNumber": "9", "streamSid": STREAM,
            "stop": {"accountSid": "AC1", "callSid": "CA02a4a2b4"},
        }


class Plivo(Twilio):
    """Plivo audio streaming; Vobiz has the same."""

    path = "/plivo"
    media, mark, clear = "playAudio", "checkpoint", "clearAudio"
    returns_cleared_marks = False

    def opening(self):
        headers = ";".join(f"{name}={value}" for name, value in self.parameters.items())
        yield {
            "sequenceNumber": 0, "event": "start",
            "start": {
                "callId": "b77e037d", "streamId": "20170ada", "accountId": "MAXX",
                "tracks": ["inbound"],
                "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000},
            },
            "extra_headers": headers,
        }

    def audio(self, packet, number):
        return {
            "sequenceNumber": number, "streamId": "20170ada", "event": "media",
            "media": {
                "track": "inbound", "timestamp": str(1_720_000_000_000 + 20 * number),
                "chunk": number, "payload": base64.b64encode(packet).decode(),
            },
            "extra_headers": "{}",
        }

    def played(self, name):
        return {"sequenceNumber": 4, "event": "playedStream", "streamId": "20170ada", "name": name}

    def name_of(self, message):
        assert message["streamId"] == "20170ada", message
        return message["name"]


class Line:
    """One call: a caller who speaks, and a queue that is played at the pace of the clock."""

    def __init__(self, connection, carrier):
        self.connection = connection
        self.carrier = carrier
        self.queue = []
        self.received = bytearray()
        self.played = bytearray()
        self.cleared = []
        self.spoken = []
        self.changed = asyncio.Event()

    async def send(self, message):
        await self.connection.send(json.dumps(message))

    async def receive(self):
        async for text in self.connection:
            message = json.loads(text)
            if message["event"] == self.carrier.media:
                audio = base64.b64decode(message["media"]["payload"], validate=True)
                self.received += audio
                self.queue.append(audio)
            elif message["event"] == self.carrier.mark:
                self.queue.append(self.carrier.name_of(message))
            elif message["event"] == self.carrier.clear:
                dropped, self.queue = self.queue, []
                self.cleared.append(sum(len(part) for part in dropped if isinstance(part, bytes)))
                if self.carrier.returns_cleared_marks:
                    for name in dropped:
                        if isinstance(name, str):
                            await self.send(self.carrier.played(name))
            else:
                raise AssertionError(f"not a message to a carrier: {text}")
            self.changed.set()

    async def play(self, count):
        """Plays so many bytes, and reports the marks that are reached."""
        while self.queue:
            first = self.queue[0]
            if isinstance(first, str):
                self.queue.pop(0)
                await self.send(self.carrier.played(first))
                continue
            if count == 0:
                return
            part, rest = first[:count], first[count:]
            self.played += part
            count -= len(part)
            self.queue[:1] = [rest] if rest else []

    async def run(self):
        """The clock of the call: 20 ms of each direction, for as long as it lasts. It never makes up for
        time in which the test had no processor: the queue would be played at once, and nothing be left of
        it to drop."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in range(10**6):
            packet = self.spoken.pop(0) if self.spoken else SILENCE
            await self.send(self.carrier.audio(packet, number + 1))
            await self.play(PACKET)
            self.changed.set()
            due = max(due + 0.02, loop.time() - 0.02)
            await asyncio.sleep(due - loop.time())

    def say(self, packets):
        self.spoken.extend(packets)

    async def until(self, condition):
        """Waits for a state of the call."""
        async with asyncio.timeout(HANG_GUARD):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def call(server, carrier, path=None, headers=None):
    """A call to a server, from its beginning to its end."""
    url = f"ws://127.0.0.1:{server.port}{path or carrier.path}"
    async with connect(
        url, additional_headers=headers or {}, compression=None, **PATIENT_WEBSOCKET
    ) as connection:
        line = Line(connection, carrier)
        for message in carrier.opening():
            await line.send(message)
        tasks = [asyncio.create_task(line.receive()), asyncio.create_task(line.run())]
        try:
            yield line
        finally:
            for task in tasks:
                task.cancel()
            for failure in await asyncio.gather(*tasks, return_exceptions=True):
                # The server may hang up while a packet is being sent to it.
                if not isinstance(failure, (NoneType, asyncio.CancelledError, ConnectionClosedOK)):
                    raise failure
