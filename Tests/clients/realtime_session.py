"""One session of the official SDK that validates and records every event it receives."""

import asyncio
import base64
import contextlib

from event_schema import check_event
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeServerEvent
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from pydantic import TypeAdapter

EVENTS = TypeAdapter(RealtimeServerEvent)
PCM = {"type": "audio/pcm", "rate": 24000}
TOOL = {
    "type": "function", "name": "get_weather", "description": "Weather of a city",
    "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    },
}


class Session:
    """Wraps the SDK's connection; `events` are all events so far, in the SDK's own types."""

    def __init__(self, connection):
        self.connection = connection
        self.events = []

    async def next(self):
        """The next event, which must fit the tables and the SDK's types exactly."""
        data = await asyncio.wait_for(self.connection.recv_bytes(), HANG_GUARD)
        check_event(data)
        event = EVENTS.validate_json(data, strict=True)
        assert type(event) is type(self.connection.parse_event(data))
        assert event.event_id not in {earlier.event_id for earlier in self.events}
        self.events.append(event)
        return event

    async def until(self, *types):
        """Reads to the first event of one of the types, and returns it."""
        while True:
            event = await self.next()
            if event.type in types:
                return event
            assert event.type != "error" or "error" in types, event

    async def update(self, **session):
        await self.connection.session.update(session={"type": "realtime", **session})
        return (await self.until("session.updated")).session

    async def say(self, text):
        """Adds a typed message of the user."""
        content = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": content}
        )
        return await self.until("conversation.item.done")

    async def respond(self, **response):
        """Requests a response, and reads to its end."""
        start = len(self.events)
        await self.connection.response.create(response=response)
        await self.until("rate_limits.updated")
        return self.events[start:]

    def of(self, *types):
        return [event for event in self.events if event.type in types]

    def types(self):
        return [event.type for event in self.events]


@contextlib.asynccontextmanager
async def connect(server, model="parley-test", **query):
    """Opens a session, and reads to `session.created`."""
    client = AsyncOpenAI(api_key="any", base_url=server.base_url)
    async with client.realtime.connect(
        model=model, extra_query=query, websocket_connection_options=PATIENT_WEBSOCKET
    ) as connection:
        session = Session(connection)
        created = await session.next()
        assert created.type == "session.created"
        yield session


def run(test):
    """Runs an async test."""
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


async def append(session, audio, milliseconds=100):
    """Sends audio in pieces."""
    size = 2 * 24 * milliseconds
    for start in range(0, len(audio), size):
        piece = base64.b64encode(audio[start : start + size]).decode()
        await session.connection.input_audio_buffer.append(audio=piece)


DELTAS = {
    "response.output_text.delta", "response.output_audio.delta",
    "response.output_audio_transcript.delta", "response.function_call_arguments.delta",
}
TEXT_SERIES = [
    "response.created", "response.output_item.added", "conversation.item.added",
    "response.content_part.added", "response.output_text.done", "response.content_part.done",
    "conversation.item.done", "response.output_item.done", "response.done",
]
# The ends of a spoken part's audio and transcript may come in either order; see
# check_spoken_series.
SPOKEN_SERIES = [
    "response.created", "response.output_item.added", "conversation.item.added",
    "response.content_part.added", "response.output_audio.done",
    "response.output_audio_transcript.done", "response.content_part.done",
    "conversation.item.done", "response.output_item.done", "response.done",
]
CALL_SERIES = [
    "response.created", "response.output_item.added", "conversation.item.added",
    "response.function_call_arguments.done", "conversation.item.done",
    "response.output_item.done", "response.done",
]


def series(events):
    """The types of a response's events, without deltas and transcription events."""
    return [
        event.type for event in events
        if event.type not in DELTAS and "input_audio" not in event.type
        and event.type != "rate_limits.updated"
    ]


def check_deltas(events, kind):
    """Requires that every delta of a kind comes between the start and the end of its part."""
    types = [event.type for event in events]
    places = [index for index, name in enumerate(types) if name == f"{kind}.delta"]
    assert places, f"no {kind}.delta in {types}"
    begin = "response.content_part.added"
    begin = begin if begin in types else "response.output_item.added"
    assert types.index(begin) < places[0]
    assert places[-1] < types.index(f"{kind}.done")
    return [events[index].delta for index in places]


def spoken(events):
    """The transcript and the samples of a spoken response."""
    text = "".join(check_deltas(events, "response.output_audio_transcript"))
    audio = b"".join(base64.b64decode(d) for d in check_deltas(events, "response.output_audio"))
    assert len(audio) % 2 == 0
    return text, audio
