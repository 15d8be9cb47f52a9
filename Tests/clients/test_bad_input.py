"""Input of a broken or hostile client, as raw messages. Each gets one clear answer, and the session
still answers a typed turn."""

import asyncio
import base64
import contextlib
import random

import pytest
import websockets.asyncio.client
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from raw_session import RawSession

COMMITS = 300


def encoded(audio):
    return base64.b64encode(audio).decode()


class Misbehaving(RawSession):
    """`events` are all events so far."""

    def __init__(self, connection):
        super().__init__(connection)
        self.events = []

    async def next(self):
        event = await super().next()
        self.events.append(event)
        return event

    async def until(self, *kinds):
        """Reads to the first event of one of the kinds, ignoring errors, and returns it."""
        while True:
            event = await self.next()
            if event["type"] in kinds:
                return event

    async def update(self, **session):
        """Changes the session; returns `session.updated`, or the `error` that refuses it."""
        await self.send(
            "session.update", session={"type": "realtime", **session}, event_id="update"
        )
        while True:
            event = await self.until("session.updated", "error")
            if event["type"] != "error" or event["error"]["event_id"] == "update":
                return event

    async def append(self, audio, milliseconds=1000):
        """Appends 24 kHz samples in pieces."""
        size = 2 * 24 * milliseconds
        for start in range(0, len(audio), size):
            await self.send("input_audio_buffer.append", audio=encoded(audio[start : start + size]))

    async def errors(self, count):
        """The next `count` errors."""
        return [(await self.until("error"))["error"] for _ in range(count)]

    async def check_text_turn(self):
        """Requires that a typed turn is answered with text, after any answers in progress."""
        audio = {"input": {"turn_detection": None}}
        assert (await self.update(output_modalities=["text"], audio=audio))["type"] != "error"
        content = [{"type": "input_text", "text": "Still there?"}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)
        while True:
            await self.send("response.create", response={"metadata": {"turn": "typed"}})
            event = await self.until("response.created", "error")
            if event["type"] == "error":
                code = event["error"]["code"]
                assert code == "conversation_already_has_active_response", event
                await self.until("response.done")
            elif event["response"]["metadata"]:
                break
        while True:
            response = (await self.until("response.done"))["response"]
            if response["metadata"]:
                break
        assert response["status"] == "completed", response
        assert response["output"][0]["content"][0]["text"].strip()

    def count(self, kind):
        return sum(event["type"] == kind for event in self.events)


@contextlib.asynccontextmanager
async def connect(server):
    options = {"max_size": None, **PATIENT_WEBSOCKET}
    async with websockets.asyncio.client.connect(server.realtime_url, **options) as connection:
        session = Misbehaving(connection)
        assert (await session.next())["type"] == "session.created"
        yield session


def check(server, misbehave):
    """Runs `misbehave(session)`, then a typed turn in the same session."""
    async def test():
        async with connect(server) as session:
            await misbehave(session)
            await session.check_text_turn()

    asyncio.run(asyncio.wait_for(test(), HANG_GUARD))


def detection(**fields):
    return {"input": {"turn_detection": {"type": "server_vad", **fields}}}


def test_a_low_threshold_still_hears_the_end_of_speech(parley, speech):
    async def misbehave(session):
        await session.update(output_modalities=["text"], audio=detection(threshold=0.1))
        await session.append(speech + bytes(2 * 24000))
        await session.until("input_audio_buffer.speech_started")
        await session.until("input_audio_buffer.speech_stopped")
        await session.until("input_audio_buffer.committed")

    check(parley, misbehave)


def test_a_minute_of_padding_is_refused_or_leaves_the_session_hearing(parley, speech):
    async def misbehave(session):
        answer = await session.update(
            output_modalities=["text"], audio=detection(prefix_padding_ms=60_000))
        if answer["type"] == "error":
            assert answer["error"]["param"].endswith("turn_detection.prefix_padding_ms")
            return
        await session.append(bytes(2 * 24000 * 65) + speech)
        await session.until("input_audio_buffer.committed")
        assert session.count("error") == 0

    check(parley, misbehave)


def test_a_flood_of_empty_commits_is_as_many_errors(parley):
    async def misbehave(session):
        for _ in range(COMMITS):
            await session.send("input_audio_buffer.commit")
        codes = {error["code"] for error in await session.errors(COMMITS)}
        assert codes == {"input_audio_buffer_commit_empty"}

    check(parley, misbehave)


def test_a_flood_of_commits_ends_in_transcripts_or_clear_errors_not_in_a_stall(parley):
    async def misbehave(session):
        heard = "conversation.item.input_audio_transcription"
        transcription = {"model": "default"}
        await session.update(
            audio={"input": {"turn_detection": None, "transcription": transcription}}
        )
        for _ in range(COMMITS):
            await session.append(bytes(2 * 24 * 500))
            await session.send("input_audio_buffer.commit")
        for _ in range(COMMITS):
            end = await session.until(f"{heard}.completed", f"{heard}.failed", "error")
            if not end["type"].endswith("completed"):
                assert end["error"]["code"] and end["error"]["message"], end

    check(parley, misbehave)


@pytest.mark.parametrize(
    "audio",
    ["!", "AAA", "AAAA====", "AA==AA==", "AAA\n", "-_-_", "é" * 4, "AB==", 5, None, ["AAAA"]],
)
def test_base64_nonsense_names_its_field(parley, audio):
    async def misbehave(session):
        await session.send("input_audio_buffer.append", audio=audio, event_id="mine")
        (error,) = await session.errors(1)
        assert error["event_id"] == "mine"
        assert error["param"] == "audio"
        assert error["code"] in ("invalid_value", "invalid_type", "missing_required_parameter")

    check(parley, misbehave)


def test_half_a_sample_is_an_error_in_text_and_in_binary(parley):
    async def misbehave(session):
        await session.send("input_audio_buffer.append", audio=encoded(b"\1\2\3"))
        await session.connection.send(b"\1\2\3")
        assert {error["code"] for error in await session.errors(2)} == {"invalid_audio"}

    check(parley, misbehave)


@pytest.mark.parametrize("seed", range(3))
def test_random_opus_packets_are_sound_or_errors(parley, seed):
    async def misbehave(session):
        generator = random.Random(seed)
        await session.update(audio={"input": {"format": {"type": "audio/opus"}}})
        for _ in range(200):
            size = generator.choice([0, 1, 2, 3, 20, 60, 200, 1275, 1500, 20_000])
            packet = generator.randbytes(size)
            if generator.random() < 0.5:
                await session.connection.send(packet)
            else:
                await session.send("input_audio_buffer.append", audio=encoded(packet))
        # Some packets are empty, so not all of them can be valid sound.
        assert (await session.errors(1))[0]["code"] == "invalid_audio"

    check(parley, misbehave)
