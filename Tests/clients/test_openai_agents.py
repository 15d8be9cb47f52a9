"""openai-agents, unchanged: RealtimeRunner has every kind of turn with the server."""

import asyncio
import contextlib

import pytest
import websockets
from agents import function_tool
from agents.realtime import OpenAIRealtimeWebSocketModel, RealtimeAgent, RealtimeRunner
from parley_server import HANG_GUARD
from recordings import goforward, word_errors, words
from scenarios import (
    check_cancelled, check_nothing_after, for_each, side_by_side, speak, until,
)

CITIES = []


@function_tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    CITIES.append(city)
    return "sunny"


AGENT = RealtimeAgent(name="Assistant", instructions="Be brief.", tools=[get_weather])


class Listener:
    """Records what a session reports to its application."""

    def __init__(self, session):
        self.session = session
        self.events = []
        self.listening = asyncio.create_task(self.listen())

    async def listen(self):
        async for event in self.session:
            self.events.append(event)

    def of(self, kind):
        return [event for event in self.events if event.type == kind]

    def replies(self):
        """The assistant's messages in the history."""
        histories = self.of("history_updated")
        return [
            "".join(part.transcript or "" if part.type == "audio" else part.text or ""
                    for part in item.content)
            for item in (histories[-1].history if histories else [])
            if item.type == "message" and item.role == "assistant"
        ]


def runner(**settings):
    # A model name that no server has.
    settings = {"model_name": "gpt-none-such", **settings}
    patient = {"handshake_timeout": HANG_GUARD, "ping_timeout": HANG_GUARD}
    return RealtimeRunner(
        AGENT, model=OpenAIRealtimeWebSocketModel(transport_config=patient),
        config={"model_settings": settings})


@contextlib.asynccontextmanager
async def running(wire, starter=None, may_fail=False):
    """A session with its listener; in the end no error may have occurred."""
    starter = starter or runner()
    config = {"url": f"{wire.realtime_url}?model=another-name", "api_key": "any"}
    async with await starter.run(model_config=config) as session:
        listener = Listener(session)
        # The two updates: the settings, and `tracing`.
        await until(lambda: len(wire.of("session.updated")) >= 2, "the session's updates")
        try:
            yield session, listener
            if not may_fail:
                assert not listener.of("error"), listener.of("error")
        finally:
            listener.listening.cancel()


async def text_turn(wire):
    async with running(wire) as (session, listener):
        assert [event["session"].get("tracing") for event in wire.sent] == [None, "auto"]
        await session.send_message("hello")
        await wire.until("response.done")
        await until(lambda: listener.replies() == ["You said: hello"], "the reply in the history")
        await until(lambda: listener.of("agent_end"), "the turn's end")
        assert sum(len(event.audio.data) for event in listener.of("audio")) > 2 * 24000 * 0.3


async def text_only_turn(wire):
    async with running(wire, runner(modalities=["text"])) as (session, listener):
        await session.send_message("hello")
        await until(lambda: listener.replies() == ["You said: hello"], "the reply in the history")
        assert not listener.of("audio")


async def audio_turn(wire):
    async with running(wire) as (session, listener):
        await session.send_audio(goforward())
        done = await wire.until("response.done")
        assert done["response"]["status"] == "completed"
        heard = (await wire.until("conversation.item.input_audio_transcription.completed"))
        assert word_errors(words("go forward ten meters"), words(heard["transcript"])) <= 1
        await until(lambda: listener.replies() and "meters" in listener.replies()[0], "the reply")
        await until(lambda: listener.of("agent_end"), "the turn's end")
        assert sum(len(event.audio.data) for event in listener.of("audio")) > 2 * 24000 * 0.3


async def barge_in(wire):
    async with running(wire) as (session, listener):
        await session.send_message("Tell me a story")
        await until(lambda: listener.of("audio"), "the first audio")
        await speak(session.send_audio, goforward())
        done = await wire.until("response.done")
        check_cancelled(done, "turn_detected", "client_cancelled")
        await until(lambda: listener.of("audio_interrupted"), "the interruption")
        # The library truncates interrupted playback by itself, and then fetches the rest of the
        # item.
        await wire.until("conversation.item.truncated")
        await wire.until("conversation.item.retrieved")
        again = await wire.until("response.done", after=wire.received.index(done) + 1)
        assert again["response"]["status"] == "completed"
        await until(lambda: "meters" in listener.replies()[-1], "the answer to what was said")
        check_nothing_after(wire, done)


async def interrupt(wire):
    async with running(wire) as (session, listener):
        # The library sends no cancel under the server's turn detection: the model writes to its end, and
        # only then is the next message answered.
        await session.send_message("number 150")
        await until(lambda: listener.of("audio"), "the first audio")
        await session.interrupt()
        await until(lambda: listener.of("audio_interrupted"), "the interruption")
        await wire.until("conversation.item.truncated")
        await until(
            lambda: any(event["type"] == "conversation.item.truncate" for event in wire.sent),
            "the client's truncation")
        await session.send_message("hello")
        await until(lambda: listener.replies()[-1] == "You said: hello", "the next reply")
        check_nothing_after(wire, wire.of("response.done")[0])


async def interrupt_without_turn_detection(wire):
    starter = runner(audio={"input": {"turn_detection": None}})
    async with running(wire, starter) as (session, listener):
        await session.send_message("Tell me a story")
        await until(lambda: listener.of("audio"), "the first audio")
        await session.interrupt()
        # If the model had finished writing, the truncation may have been the last event.
        done = (await wire.until("response.done"))["response"]
        assert done["output"][0]["status"] == "incomplete"
        await session.send_audio(goforward())
        await session.send_audio(bytes(4800), commit=True)
        heard = await wire.until("conversation.item.input_audio_transcription.completed")
        assert "meters" in words(heard["transcript"])
        await session.send_message("hello")
        await until(lambda: listener.replies()[-1] == "You said: hello", "the next reply")


async def interrupt_when_all_is_written(wire):
    starter = runner(audio={"input": {"turn_detection": None}})
    words_to_say = "one two three four five six seven eight nine ten " * 6
    async with running(wire, starter) as (session, listener):
        await session.send_message(words_to_say)
        await until(lambda: listener.of("audio"), "the first audio")

        def written():
            return "".join(
                event["delta"] for event in wire.of("response.output_audio_transcript.delta"))

        await until(lambda: written() == f"You said: {words_to_say}", "the whole reply")
        await session.interrupt()
        done = (await wire.until("response.done"))["response"]
        assert done["output"][0]["status"] == "incomplete"
        # The library truncates and then cancels; neither may be an error.
        await until(
            lambda: any(event["type"] == "response.cancel" for event in wire.sent), "the cancel")
        await session.send_message("hello")
        await until(lambda: listener.replies()[-1] == "You said: hello", "the next reply")


async def function_call(wire):
    async with running(wire) as (session, listener):
        await session.send_message("What is the weather in Oslo?")
        await until(lambda: "The answer is sunny." in listener.replies(), "the answer")
        assert CITIES == ["Oslo"]
        assert [event.output for event in listener.of("tool_end")] == ["sunny"]


async def reconnection(wire):
    starter = runner()
    for word in ("one", "two"):
        async with running(wire, starter) as (session, listener):
            await session.send_message(word)
            await until(lambda: listener.replies() == [f"You said: {word}"], "the reply")
        wire.received.clear()
    # A cut connection is reported, and the next run works.
    async with running(wire, starter, may_fail=True) as (session, listener):
        wire.cut()
        with pytest.raises(websockets.exceptions.ConnectionClosedError):
            await asyncio.wait_for(listener.listening, HANG_GUARD)
    wire.received.clear()
    async with running(wire, starter) as (session, listener):
        await session.send_message("three")
        await until(lambda: listener.replies() == ["You said: three"], "the reply")


SCENARIOS = [
    text_turn, text_only_turn, audio_turn, barge_in, interrupt, interrupt_without_turn_detection,
    interrupt_when_all_is_written, function_call, reconnection,
]


@pytest.fixture(scope="module")
def run(piped):
    with side_by_side(SCENARIOS, piped) as result:
        yield result


@for_each(SCENARIOS)
def test_openai_agents(run, scenario):
    run(scenario)
