"""A client that can come back: it keeps its handle and its place, and checks the events' numbers."""

import asyncio
import json
import urllib.parse

import websockets
from event_schema import server_event
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from websockets.asyncio.client import ClientConnection
from websockets.frames import Frame, Opcode

TAKEN_OVER = 4409
RESTART = 1012


class Acknowledging(ClientConnection):
    """Counts the messages that have arrived, and those of them before the last ping. The library has
    answered it, so the server takes these for received."""

    arrived = acknowledged = 0

    def process_event(self, event):
        super().process_event(event)
        if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY):
            self.arrived += 1
        elif isinstance(event, Frame) and event.opcode is Opcode.PING:
            self.acknowledged = self.arrived


class Caller:
    """A client that can come back: it keeps its handle, its place and what it has received."""

    def __init__(self, server, key=None, **options):
        """`options` are of `websockets.connect`."""
        self.server = server
        self.options = PATIENT_WEBSOCKET | {"create_connection": Acknowledging} | options
        if key:
            self.options["additional_headers"] = {"Authorization": f"Bearer {key}"}
        self.connection = None
        self.read = 0
        self.resume = None
        self.offset = 0
        self.session = None
        self.events = []
        self.packets = []

    async def open(self, query="resume=true"):
        """Connects, and returns the first event."""
        self.connection = await websockets.connect(
            f"{self.server.realtime_url}?{query}", **self.options)
        self.read = 0
        return await self.next()

    async def come_back(self, **more):
        """Connects with the handle, and returns the first event."""
        return await self.open(self.query(**more))

    def query(self, **more):
        """The query of a return."""
        return urllib.parse.urlencode({
            "resume": self.resume["handle"], "epoch": self.resume["epoch"], "offset": self.offset,
        } | more)

    async def send(self, kind, **fields):
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def next(self):
        """The next event, or the bytes of the next binary message."""
        async with asyncio.timeout(HANG_GUARD):
            message = await self.connection.recv()
        self.read += 1
        return self.note(message)

    def note(self, message):
        if isinstance(message, bytes):
            self.packets.append(message)
            return message
        event = server_event(message)
        if event["type"] == "parley.resumed" and not event["recovered"]:
            self.offset = 0
        self.resume = event.get("resume", self.resume)
        self.session = event.get("session", self.session)
        if "offset" in event:
            assert event["offset"] == self.offset + 1, event
            self.offset = event["offset"]
        else:
            assert event["type"] in ("parley.resumed", "response.output_audio.delta"), event
        self.events.append(event)
        return event

    async def until(self, kind):
        while True:
            event = await self.next()
            if isinstance(event, dict):
                assert event["type"] != "error", event
                if event["type"] == kind:
                    return event

    async def cut(self):
        """Breaks the TCP connection. What had arrived and was not read is lost, except for what was
        acknowledged: on a busy machine a ping may be behind messages that the test has not read."""
        self.connection.transport.abort()
        await self.connection.wait_closed()
        await self.read_acknowledged()

    async def stop_reading(self):
        """Leaves the connection open, and answers no more pings: its place stays where it is. What was
        acknowledged is read. `connection.transport.resume_reading()` goes on."""
        self.connection.transport.pause_reading()
        await self.read_acknowledged()

    async def read_acknowledged(self):
        while self.read < self.connection.acknowledged:
            await self.next()

    async def configure(self, **session):
        await self.send("session.update", session={"type": "realtime", **session})
        await self.until("session.updated")

    async def ask(self, text):
        await self.send("conversation.item.create", item={
            "type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}],
        })
        await self.send("response.create")

    async def close(self):
        await self.connection.close()

    def words(self):
        return "".join(
            event["delta"] for event in self.events
            if event["type"] in (
                "response.output_text.delta", "response.output_audio_transcript.delta")
        )

    def count(self, kind):
        return sum(event["type"] == kind for event in self.events)
