"""One client of typed conversations, and what it was shown of them.

A conversation has some turns with pauses between, and then the next begins. One that breaks is followed
by a new one once the server is back. The client knows nothing of outages.

Invariant: what is in a `Seen` was shown by the server before anything else happened, so a record without
it has lost it."""

import asyncio
import contextlib
import dataclasses
import json
import random
import time

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

TURNS = (3, 12)
PAUSE = (0.3, 2.0)
# Seconds that the connection and each event may take. A conversation may take them TURNS[1] times.
PATIENCE = 30
RETRY = 0.2


@dataclasses.dataclass
class Seen:
    """What a client was shown of one conversation. The values are moments of `time.monotonic`."""

    started: float
    # Of the ids of items of the user, and of responses that have ended.
    items: dict = dataclasses.field(default_factory=dict)
    turns: dict = dataclasses.field(default_factory=dict)
    # When the client had closed it, where nothing broke it.
    closed: float | None = None


class Talker:
    """Talks until its task is cancelled."""

    def __init__(self, name, url, seen):
        self.name, self.url, self.seen = name, url, seen
        self.draw = random.Random(name)

    async def run(self, is_over):
        while not is_over():
            with contextlib.suppress(
                    OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, TimeoutError):
                async with asyncio.timeout(PATIENCE * TURNS[1]):
                    await self.converse(is_over)
                continue
            await asyncio.sleep(RETRY)

    async def converse(self, is_over):
        async with connect(
                f"{self.url}?model=words", proxy=None, compression=None, open_timeout=PATIENCE
        ) as socket:
            created = json.loads(await socket.recv())
            seen = self.seen.setdefault(created["session"]["id"], Seen(time.monotonic()))
            await socket.send(json.dumps({"type": "session.update", "session": {
                "type": "realtime", "instructions": f"{self.name}.",
                "output_modalities": ["text"]}}))
            for number in range(self.draw.randint(*TURNS)):
                if is_over():
                    break
                await self.turn(socket, seen, number)
                await asyncio.sleep(self.draw.uniform(*PAUSE))
        if socket.close_code == 1000:
            seen.closed = time.monotonic()

    async def turn(self, socket, seen, number):
        content = [{"type": "input_text", "text": f"turn {number} of {self.name}"}]
        for event in (
            {"type": "conversation.item.create",
             "item": {"type": "message", "role": "user", "content": content}},
            {"type": "response.create"},
        ):
            await socket.send(json.dumps(event))
        while True:
            event = json.loads(await asyncio.wait_for(socket.recv(), PATIENCE))
            match event["type"]:
                case "conversation.item.done" if event["item"]["role"] == "user":
                    seen.items[event["item"]["id"]] = time.monotonic()
                case "response.done":
                    seen.turns[event["response"]["id"]] = time.monotonic()
                    return
                case "error":
                    raise SystemExit(f"{self.name}: {event['error']}")
