"""livekit-agents with livekit-plugins-openai, unchanged: an AgentSession on the RealtimeModel, with
a microphone and a loudspeaker in memory instead of a room."""

import asyncio
import contextlib
import time

import pytest
from livekit import rtc
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.stt import SpeechEventType
from livekit.agents.utils import http_context
from livekit.agents.voice import io
from livekit.plugins.openai import STT, realtime
from openai.types.realtime.realtime_audio_input_turn_detection import SemanticVad, ServerVad
from parley_server import HANG_GUARD
from recordings import goforward, word_errors, words
from scenarios import (
    check_cancelled, check_nothing_after, for_each, may_say, side_by_side, speak, until,
)

RATE = 24000
CITIES = []


@function_tool
async def get_weather(city: str) -> str:
    """Weather of a city."""
    CITIES.append(city)
    return "sunny"


class Microphone(io.AudioInput):
    """Passes on the samples that a test provides."""

    def __init__(self):
        super().__init__(label="memory")
        self.frames = asyncio.Queue()

    async def __anext__(self):
        return await self.frames.get()

    async def hear(self, samples):
        frame = rtc.AudioFrame(samples, RATE, 1, len(samples) // 2)
        await self.frames.put(frame)


class Loudspeaker(io.AudioOutput):
    """Plays audio in real time, and reports the playback position."""

    def __init__(self):
        super().__init__(
            label="memory", capabilities=io.AudioOutputCapabilities(pause=False), sample_rate=RATE)
        self.total = self.segment = 0.0
        self.began = self.end = None

    async def capture_frame(self, frame):
        await super().capture_frame(frame)
        if self.began is None:
            self.began = time.monotonic()
            self.on_playback_started(created_at=time.time())
        self.total += frame.duration
        self.segment += frame.duration

    def flush(self):
        super().flush()
        if self.began is not None and self.end is None:
            left = self.began + self.segment - time.monotonic()
            self.end = asyncio.get_running_loop().call_later(max(left, 0), self.finish, False)

    def clear_buffer(self):
        if self.began is not None:
            if self.end:
                self.end.cancel()
            self.finish(True)

    def finish(self, was_interrupted):
        played = min(time.monotonic() - self.began, self.segment)
        self.segment, self.began, self.end = 0.0, None, None
        self.on_playback_finished(playback_position=played, interrupted=was_interrupted)


class Bot:
    """One session, from `async with` to its end."""

    def __init__(self, wire, **options):
        self.wire = wire
        self.options = {
            "model": "gpt-none-such", "voice": "marin", "tracing": "auto",
            "turn_detection": ServerVad(type="server_vad"), **options,
        }
        self.microphone, self.loudspeaker = Microphone(), Loudspeaker()
        self.transcripts, self.errors = [], []
        self.http = http_context.open()
        self.session = None

    async def __aenter__(self):
        # Outside a job, the caller must provide the HTTP client's session.
        await self.http.__aenter__()
        model = realtime.RealtimeModel(
            base_url=self.wire.base_url, api_key="any", **self.options)
        # Without echo, no warm-up for the echo canceller is needed; this loudspeaker cannot pause.
        self.session = AgentSession(
            llm=model, aec_warmup_duration=None,
            turn_handling={"interruption": {"resume_false_interruption": False}})
        self.session.input.audio = self.microphone
        self.session.output.audio = self.loudspeaker
        self.session.on("user_input_transcribed", self.transcripts.append)
        self.session.on("error", self.errors.append)
        await self.session.start(Agent(instructions="Be brief.", tools=[get_weather]))
        return self

    async def __aexit__(self, *_):
        await self.session.aclose()
        await self.http.__aexit__(None, None, None)
        assert not self.errors, self.errors

    async def type(self, text):
        return await self.session.generate_reply(user_input=text)

    def begin(self, text):
        return self.session.generate_reply(user_input=text)

    async def speak(self):
        await speak(self.microphone.hear, goforward())

    def replies(self):
        """The assistant's messages in the session's history."""
        return [
            item.text_content for item in self.session.history.items
            if item.type == "message" and item.role == "assistant"
        ]

    def known(self):
        """The texts of the library's copy of the server's conversation."""
        return [
            item.text_content
            for item in self.session.current_agent.realtime_llm_session.chat_ctx.items
        ]


async def text_turn(wire):
    async with Bot(wire) as bot:
        await bot.type("hello")
        assert bot.replies() == ["You said: hello"]
        assert bot.loudspeaker.total > 0.3
        await bot.type("and this")
        assert bot.replies()[-1] == "You said: and this"
        asked = next(event for event in wire.sent if event["type"] == "response.create")
        created = next(iter(wire.of("response.created")))
        assert created["response"]["metadata"] == asked["response"]["metadata"]


async def audio_turn(wire):
    async with Bot(wire) as bot:
        await bot.speak()
        await until(bot.replies, "the reply")
        assert "meters" in bot.replies()[0]
        heard = [event.transcript for event in bot.transcripts if event.is_final]
        assert word_errors(words("go forward ten meters"), words(heard[0])) <= 1, heard
        assert bot.loudspeaker.total > 0.3


async def audio_turn_with_semantic_turn_detection(wire):
    detection = SemanticVad(type="semantic_vad", eagerness="high", interrupt_response=True)
    async with Bot(wire, turn_detection=detection,
                   input_audio_noise_reduction="near_field") as bot:
        await bot.speak()
        await until(bot.replies, "the reply")
        assert "meters" in bot.replies()[0]


async def barge_in(wire):
    async with Bot(wire) as bot:
        story = bot.begin("Tell me a story")
        await until(lambda: bot.loudspeaker.total > 1, "a second of the story")
        await bot.speak()
        check_cancelled(await wire.until("response.done"), "turn_detected", "client_cancelled")
        await until(lambda: story.interrupted, "the story's interruption")
        # livekit truncates interrupted playback by itself.
        await wire.until("conversation.item.truncated")
        await until(lambda: bot.replies() and "meters" in bot.replies()[-1], "the next reply")
        check_nothing_after(wire, wire.of("response.done")[0])


async def interrupt(wire):
    async with Bot(wire) as bot:
        story = bot.begin("Tell me a story")
        await until(lambda: bot.loudspeaker.total > 1, "a second of the story")
        await bot.session.interrupt()
        await story
        done = await wire.until("response.done")
        check_cancelled(done, "client_cancelled")
        await wire.until("conversation.item.truncated")
        await bot.type("hello")
        assert bot.replies()[-1] == "You said: hello"
        check_nothing_after(wire, done)


async def function_call(wire):
    async with Bot(wire) as bot:
        await bot.type("What is the weather in Oslo?")
        await until(lambda: bot.replies()[-1:] == ["The answer is sunny."], "the answer")
        assert CITIES == ["Oslo"]


@may_say("connection failed, retrying", "Error in _recv_task")
async def reconnection(wire):
    async with Bot(wire) as bot:
        conversation = ["hello", "You said: hello"]
        await bot.type("hello")
        # The library's copy gets the reply's text with the response's end.
        await until(lambda: bot.known() == conversation, "the reply in the library's copy")
        place = len(wire.received)
        # A server that closes with the code of a restart.
        wire.cut()
        await wire.until("session.updated", after=place)
        # The library sends this conversation to the new session. Its copy is new as well, and it places
        # the next message behind what it has there.
        await until(lambda: bot.known() == conversation, "the conversation in the new session")
        await bot.type("again")
        assert bot.replies() == ["You said: hello", "You said: again"]
        assert wire.connections == 2
        assert [error.error.recoverable for error in bot.errors] == [True]
        bot.errors.clear()


@contextlib.asynccontextmanager
async def transcribing(wire, **options):
    """A speech-to-text stream, and the events that it yields."""
    async with http_context.open():
        plugin = STT(base_url=wire.base_url, api_key="any", use_realtime=True, **options)
        async with plugin.stream() as stream:
            events = []

            async def listen():
                async for event in stream:
                    events.append(event)

            listening = asyncio.create_task(listen())
            yield stream, events
        await asyncio.wait_for(listening, HANG_GUARD)
        await plugin.aclose()


async def hear(stream, samples):
    stream.push_frame(rtc.AudioFrame(samples, RATE, 1, len(samples) // 2))


def finals(events):
    """The texts of finished turns."""
    return [
        event.alternatives[0].text for event in events
        if event.type == SpeechEventType.FINAL_TRANSCRIPT
    ]


async def transcription(wire):
    async with transcribing(wire) as (stream, events):
        for count in (1, 2):
            await speak(lambda samples: hear(stream, samples), goforward())
            await until(lambda: len(finals(events)) == count, "the transcript")
    for heard in finals(events):
        assert word_errors(words("go forward ten meters"), words(heard)) <= 1, heard
    assert [event["session"]["type"] for event in wire.of("session.created", "session.updated")] \
        == ["transcription"] * 2
    assert not wire.of("response.created", "error")
    assert "intent=transcription&model=gpt-4o-mini-transcribe " in wire.requests[0]
    kinds = [event.type for event in events]
    assert SpeechEventType.START_OF_SPEECH in kinds and SpeechEventType.END_OF_SPEECH in kinds


async def transcription_with_hints(wire):
    options = {"model": "gpt-transcribe", "keywords": ["meters"], "language": ["en", "de"],
               "noise_reduction_type": "near_field"}
    async with transcribing(wire, **options) as (stream, events):
        await speak(lambda samples: hear(stream, samples), goforward())
        await until(lambda: finals(events), "the transcript")
    assert "meters" in words(finals(events)[0])
    assert not wire.of("error")


SCENARIOS = [
    text_turn, audio_turn, audio_turn_with_semantic_turn_detection, barge_in, interrupt,
    function_call, reconnection, transcription, transcription_with_hints,
]


@pytest.fixture(scope="module")
def run(piped):
    with side_by_side(SCENARIOS, piped) as result:
        yield result


@for_each(SCENARIOS)
def test_livekit(run, scenario):
    # Some take real time: the library sends and plays speech as fast as it is spoken.
    run(scenario)
