"""One session as raw events, for what client libraries do not send or show."""

import asyncio
import json

from event_schema import server_event
from parley_server import HANG_GUARD


class RawSession:
    """Wraps a WebSocket. Events are JSON objects that fit the protocol's tables."""

    def __init__(self, connection):
        self.connection = connection

    async def send(self, kind, **fields):
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def next(self):
        # A timeout, unlike wait_for of Python 3.11, never swallows the task's own cancellation.
        async with asyncio.timeout(HANG_GUARD):
            return server_event(await self.connection.recv())

    async def until(self, *kinds):
        """Reads to the first event of one of the kinds and returns it. An `error` before it fails
        the test."""
        while True:
            event = await self.next()
            if event["type"] in kinds:
                return event
            assert event["type"] != "error", event
