"""pipecat-ai, unchanged: a pipeline around OpenAIRealtimeLLMService as its documentation builds
it, with a microphone and a loudspeaker in memory."""

import asyncio
import logging

import pytest
from loguru import logger
from pipecat.frames.frames import (
    EndFrame, ErrorFrame, FunctionCallResultFrame, InputAudioRawFrame, InterruptionFrame,
    LLMFullResponseEndFrame, LLMMessagesAppendFrame, LLMRunFrame, LLMTextFrame,
    TranscriptionFrame, TTSAudioRawFrame, TTSTextFrame, UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame, VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair, LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from recordings import goforward, word_errors, words
from scenarios import (
    check_cancelled, check_nothing_after, for_each, side_by_side, speak, until,
)

CITIES = []
# pipecat's own warnings about how the pipeline is built, logged before it connects.
ADVICE = ("is not emitting turn frames", "mutated turn strategies")


async def get_weather(params: FunctionCallParams, city: str):
    """Weather of a city.

    Args:
        city: Its name.
    """
    CITIES.append(city)
    await params.result_callback("sunny")


class Collector(FrameProcessor):
    """Records the frames that pass."""

    def __init__(self):
        super().__init__()
        self.frames = []

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        self.frames.append(frame)
        await self.push_frame(frame, direction)

    def of(self, kind):
        return [frame for frame in self.frames if isinstance(frame, kind)]


class Loudspeaker(BaseOutputTransport):
    """Plays audio in real time."""

    def __init__(self):
        super().__init__(TransportParams(audio_out_enabled=True))

    async def start(self, frame):
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame):
        await asyncio.sleep(frame.num_frames / frame.sample_rate)
        return True


class Running:
    """A pipeline from `async with` to its end, during which nothing may fail. `worker` runs it, and
    `out` records its output."""

    async def __aenter__(self):
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(self.worker)
        self.running = asyncio.create_task(runner.run())
        return self

    async def __aexit__(self, *_):
        await self.worker.queue_frame(EndFrame())
        await self.running
        assert not self.out.of(ErrorFrame)


class Bot(Running):
    """A pipeline in which the service replaces model, recogniser and voice."""

    def __init__(self, wire, turn_detection=None, modalities=None, messages=()):
        self.context = LLMContext(list(messages), tools=[get_weather])
        # pipecat uses this with the service anyway; its default would first load a model.
        params = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies())
        pair = LLMContextAggregatorPair(self.context, user_params=params)
        audio = events.AudioConfiguration(input=events.AudioInput(
            transcription=events.InputAudioTranscription(model="gpt-4o-transcribe"),
            turn_detection=events.TurnDetection() if turn_detection is None else turn_detection))
        self.service = OpenAIRealtimeLLMService(
            api_key="any", base_url=wire.realtime_url,
            settings=OpenAIRealtimeLLMService.Settings(
                model="gpt-none-such", system_instruction="Be brief.",
                session_properties=events.SessionProperties(
                    audio=audio, tracing="auto", output_modalities=modalities)))
        self.heard, self.out, self.end = Collector(), Collector(), Collector()
        self.worker = PipelineWorker(
            Pipeline([pair.user(), self.heard, self.service, self.out, Loudspeaker(),
                      pair.assistant(), self.end]),
            params=PipelineParams(audio_in_sample_rate=24000, audio_out_sample_rate=24000),
            cancel_on_idle_timeout=False)

    async def run(self):
        await self.worker.queue_frame(LLMRunFrame())

    async def type(self, text):
        message = {"role": "user", "content": text}
        # Sent directly to the service: the aggregator before it would keep the message for the
        # context.
        await self.service.queue_frame(LLMMessagesAppendFrame([message], run_llm=True))

    async def hear(self, samples):
        await self.worker.queue_frame(InputAudioRawFrame(samples, 24000, 1))

    async def say(self):
        """Says everything at once."""
        await self.hear(goforward())

    def said(self):
        """The text of the replies."""
        return "".join(frame.text for frame in self.out.of((TTSTextFrame, LLMTextFrame))
                       if not isinstance(frame, LLMTextFrame) or frame.append_to_context is None
                       or frame.append_to_context)

    def replies(self):
        """The assistant's messages in the context."""
        return [
            message["content"] for message in self.context.get_messages()
            if message["role"] == "assistant" and "content" in message
        ]

    def samples(self):
        return sum(len(frame.audio) // 2 for frame in self.out.of(TTSAudioRawFrame))


def typed(text):
    return [{"role": "user", "content": text}]


async def text_turn(wire):
    async with Bot(wire, messages=typed("hello")) as bot:
        await bot.run()
        await until(lambda: bot.out.of(LLMFullResponseEndFrame), "the end of the reply")
        assert bot.said() == "You said: hello"
        assert bot.samples() > 24000 * 0.3
        await until(lambda: bot.replies() == ["You said: hello"], "the reply in the context")
        await bot.type("and this")
        await until(lambda: bot.replies()[-1] == "You said: and this", "the second reply")
        assert wire.sent[0]["session"]["tracing"] == "auto"


async def text_only_turn(wire):
    async with Bot(wire, modalities=["text"], messages=typed("hello")) as bot:
        await bot.run()
        await until(lambda: bot.out.of(LLMFullResponseEndFrame), "the end of the reply")
        assert bot.said() == "You said: hello"
        assert bot.samples() == 0


async def audio_turn(wire):
    async with Bot(wire, messages=typed("hello")) as bot:
        await bot.run()
        await until(lambda: bot.replies(), "the greeting")
        await bot.say()
        await until(lambda: bot.replies()[1:], "the reply")
        assert "meters" in bot.replies()[1]
        heard = bot.heard.of(TranscriptionFrame)[0].text
        assert word_errors(words("go forward ten meters"), words(heard)) <= 1, heard
        assert bot.heard.of(UserStartedSpeakingFrame)
        # pipecat waits for more words before it says so.
        await until(lambda: bot.heard.of(UserStoppedSpeakingFrame), "the end of the user's turn")


async def audio_turn_with_the_clients_turns(wire):
    async with Bot(wire, turn_detection=False, messages=typed("hello")) as bot:
        await bot.run()
        await until(lambda: bot.replies(), "the greeting")
        await bot.worker.queue_frame(UserStartedSpeakingFrame())
        await bot.say()
        await bot.worker.queue_frame(UserStoppedSpeakingFrame())
        await wire.until("conversation.item.input_audio_transcription.completed")
        await until(lambda: bot.replies()[1:], "the reply")
        assert "meters" in bot.replies()[1]


async def barge_in(wire):
    async with Bot(wire, messages=typed("Tell me a story")) as bot:
        await bot.run()
        await until(lambda: bot.samples() > 24000, "a second of the story")
        await speak(bot.hear, goforward())
        await until(lambda: bot.out.of(InterruptionFrame), "the interruption")
        done = await wire.until("response.done")
        check_cancelled(done, "turn_detected", "client_cancelled")
        # pipecat truncates interrupted playback by itself.
        await wire.until("conversation.item.truncated")
        await until(lambda: bot.replies() and "meters" in bot.replies()[-1], "the next reply")
        check_nothing_after(wire, done)


async def interruption_with_the_clients_turns(wire):
    async with Bot(wire, turn_detection=False, messages=typed("Tell me a story")) as bot:
        await bot.run()
        await until(lambda: bot.samples() > 24000, "a second of the story")
        await bot.worker.queue_frame(InterruptionFrame())
        done = await wire.until("response.done")
        check_cancelled(done, "client_cancelled")
        await wire.until("input_audio_buffer.cleared")
        await wire.until("conversation.item.truncated")
        # An interruption drops what waits in each part of the pipeline: it must have passed them all.
        await until(lambda: bot.end.of(InterruptionFrame), "the end of the interruption")
        await bot.type("hello")
        await until(lambda: bot.replies()[-1:] == ["You said: hello"], "the next reply")
        check_nothing_after(wire, done)


async def function_call(wire):
    async with Bot(wire, messages=typed("What is the weather in Oslo?")) as bot:
        await bot.run()
        await until(lambda: bot.replies()[-1:] == ['The answer is "sunny".'], "the answer")
        assert CITIES == ["Oslo"]
        assert [frame.result for frame in bot.out.of(FunctionCallResultFrame)] == ["sunny"]


async def reconnection(wire):
    async with Bot(wire, messages=typed("hello")) as bot:
        await bot.run()
        await until(lambda: bot.replies(), "the reply")
        place = len(wire.received)
        await bot.service.reset_conversation()
        # The new session has its settings before it hears anything.
        await wire.until("session.updated", after=place)
        # The server detects the speech, and answers by itself.
        await bot.say()
        await until(lambda: "meters" in bot.replies()[-1], "the reply after it")
        assert wire.connections == 2


class Transcriber(Running):
    """The speech-to-text service in a pipeline, from `async with` to its end."""

    def __init__(self, wire, turn_detection, model):
        self.out = Collector()
        self.service = OpenAIRealtimeSTTService(
            api_key="any", base_url=wire.realtime_url, turn_detection=turn_detection,
            settings=OpenAIRealtimeSTTService.Settings(model=model, noise_reduction="near_field"))
        # Not the rate of the audio on the wire.
        self.worker = PipelineWorker(
            Pipeline([self.service, self.out]),
            params=PipelineParams(audio_in_sample_rate=16000), cancel_on_idle_timeout=False)

    async def hear(self, samples):
        await self.worker.queue_frame(InputAudioRawFrame(samples, 16000, 1))

    async def say(self):
        """Says everything at once. pipecat's resampler begins anew where a frame comes 200 ms late, which
        is heard, so that on a busy machine words would be others."""
        await self.hear(goforward(16000))

    def finals(self):
        return [frame.text for frame in self.out.of(TranscriptionFrame)]


async def transcription(wire):
    async with Transcriber(wire, {"type": "server_vad"}, "gpt-transcribe") as transcriber:
        await wire.until("session.updated")
        for count in (1, 2):
            await transcriber.say()
            await until(lambda: len(transcriber.finals()) == count, "the transcript")
        for heard in transcriber.finals():
            assert word_errors(words("go forward ten meters"), words(heard)) <= 1, heard
        assert not wire.of("response.created")
        assert wire.of("session.updated")[0]["session"]["type"] == "transcription"


async def transcription_with_the_clients_turns(wire):
    async with Transcriber(wire, False, "gpt-realtime-whisper") as transcriber:
        await wire.until("session.updated")
        await transcriber.say()
        await transcriber.worker.queue_frame(VADUserStoppedSpeakingFrame())
        await until(transcriber.finals, "the transcript")
        heard = transcriber.finals()[0]
        assert word_errors(words("go forward ten meters"), words(heard)) <= 1, heard
        assert not wire.of("input_audio_buffer.speech_started", "response.created")


SCENARIOS = [
    text_turn, text_only_turn, audio_turn, audio_turn_with_the_clients_turns, barge_in,
    interruption_with_the_clients_turns, function_call, reconnection,
    transcription, transcription_with_the_clients_turns,
]


@pytest.fixture(scope="module")
def run(piped):
    def pass_on(message):
        record = message.record
        logging.getLogger("pipecat").handle(logging.LogRecord(
            record["name"], record["level"].no, "", record["line"], record["message"], None, None))

    logger.remove()
    logger.add(pass_on, level="WARNING")
    with side_by_side(SCENARIOS, piped, ADVICE) as result:
        yield result
    logger.remove()


@for_each(SCENARIOS)
def test_pipecat(run, scenario):
    run(scenario)
