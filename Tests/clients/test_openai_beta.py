"""The openai SDK of the beta's time completes every kind of turn in the beta's dialect.

It runs in an environment of its own (run.sh): the SDK is openai 1.99, whose `client.beta.realtime`
asks for the dialect by its header. The SDK's parser accepts nearly anything, so every event is also
held against the tables of its types, and its types validate it strictly."""

import asyncio
import base64
import contextlib
import json
import urllib.error
import urllib.request

import pytest
from event_schema import check_event
from openai import AsyncOpenAI, OpenAI
from openai.types.beta.realtime import RealtimeServerEvent
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET
from pydantic import TypeAdapter
from recordings import word_errors, words
from websockets.sync.client import connect as connect_websocket

EVENTS = TypeAdapter(RealtimeServerEvent)
TOOL = {
    "type": "function", "name": "get_weather", "description": "Weather of a city",
    "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    },
}
# The SDK has no class for this event, which the beta's server sent.
BESIDE_THE_TYPES = {"transcription_session.created"}
# Types of models and voices are lists of OpenAI's names.
MODEL = "gpt-4o-realtime-preview"


class Session:
    """Wraps the SDK's connection; `events` are all events so far, in the SDK's own types."""

    def __init__(self, connection):
        self.connection = connection
        self.events = []

    async def next(self):
        data = await asyncio.wait_for(self.connection.recv_bytes(), HANG_GUARD)
        check_event(data, is_beta=True)
        name = json.loads(data)["type"]
        event = self.connection.parse_event(data)
        # TranscriptionSession requires client_secret, which only the REST API's answers have.
        if name not in BESIDE_THE_TYPES and name != "transcription_session.updated":
            assert type(EVENTS.validate_json(data)) is type(event)
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
        await self.connection.session.update(session=session)
        return (await self.until("session.updated")).session

    async def say(self, text):
        """Adds a typed message of the user."""
        content = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": content}
        )
        return (await self.until("conversation.item.created")).item

    async def respond(self, **response):
        """Requests a response, and reads to its end."""
        start = len(self.events)
        await self.connection.response.create(response=response)
        await self.until("rate_limits.updated")
        return self.events[start:]

    async def append(self, audio, milliseconds=100):
        """Sends audio in pieces."""
        size = 2 * 24 * milliseconds
        for start in range(0, len(audio), size):
            piece = base64.b64encode(audio[start : start + size]).decode()
            await self.connection.input_audio_buffer.append(audio=piece)

    def of(self, *types):
        return [event for event in self.events if event.type in types]


@contextlib.asynccontextmanager
async def connect(server, **query):
    """Opens a session, and reads to the event that creates it."""
    client = AsyncOpenAI(
        api_key="any", base_url=server.base_url,
        websocket_base_url=server.base_url.replace("http", "ws"))
    async with client.beta.realtime.connect(
        model=MODEL, extra_query=query, websocket_connection_options=PATIENT_WEBSOCKET
    ) as connection:
        session = Session(connection)
        await session.next()
        yield session


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


def series(events):
    """The types of a response's events, repeated ones once, without `rate_limits.updated`."""
    deltas = {
        "response.text.delta", "response.audio.delta", "response.audio_transcript.delta",
        "response.function_call_arguments.delta", "rate_limits.updated",
    }
    return [event.type for event in events if event.type not in deltas]


def joined(events, name):
    """The deltas of a text, which its `done` repeats as a whole."""
    text = "".join(event.delta for event in events if event.type == f"{name}.delta")
    done = next(event for event in events if event.type == f"{name}.done")
    whole = getattr(done, "text", None) or getattr(done, "transcript", None)
    assert (whole or getattr(done, "arguments", None)) == text
    return text


def test_session_update_with_every_field(parley):
    fields = {
        "modalities": ["text"], "instructions": "Be brief.", "voice": "verse",
        "input_audio_format": "g711_ulaw", "output_audio_format": "g711_alaw",
        "input_audio_transcription": {
            "model": "gpt-4o-transcribe", "language": "en", "prompt": "robots",
        },
        "input_audio_noise_reduction": {"type": "near_field"},
        "turn_detection": {
            "type": "server_vad", "threshold": 0.6, "prefix_padding_ms": 200,
            "silence_duration_ms": 700, "create_response": False, "interrupt_response": False,
        },
        "tools": [TOOL], "tool_choice": "required", "temperature": 0.7,
        "max_response_output_tokens": 300, "speed": 1.25,
        "tracing": {"workflow_name": "w", "group_id": "g"},
    }

    async def test():
        async with connect(parley) as session:
            created = session.events[0].session
            assert session.events[0].type == "session.created"
            assert created.model == MODEL and created.id.startswith("sess_")
            assert set(created.modalities) == {"text", "audio"}
            assert created.input_audio_format == created.output_audio_format == "pcm16"
            assert created.temperature == 0.8 and created.max_response_output_tokens == "inf"
            assert created.turn_detection.silence_duration_ms == 500
            updated = await session.update(model=MODEL, **fields)
            assert {name: updated.to_dict()[name] for name in fields} == fields
            await session.update(turn_detection=None, input_audio_transcription=None)
            assert session.events[-1].session.turn_detection is None
            assert session.events[-1].session.input_audio_transcription is None
            assert session.events[-1].session.voice == "verse"

    run(test())


def test_text_turn(parley):
    async def test():
        async with connect(parley) as session:
            await session.update(modalities=["text"])
            item = await session.say("Hello there")
            assert item.content[0].text == "Hello there"
            events = await session.respond(
                metadata={"request": "one"}, temperature=1.1, max_response_output_tokens=100)
            assert series(events) == [
                "response.created", "response.output_item.added", "conversation.item.created",
                "response.content_part.added", "response.text.done",
                "response.content_part.done", "response.output_item.done", "response.done",
            ]
            text = joined(events, "response.text")
            created, done = events[0].response, events[-2].response
            assert created.metadata == done.metadata == {"request": "one"}
            assert (created.temperature, created.max_output_tokens) == (1.1, 100)
            assert created.modalities == ["text"] and created.output_audio_format == "pcm16"
            assert done.status == "completed"
            assert (done.output[0].content[0].type, done.output[0].content[0].text) == ("text", text)
            await session.connection.conversation.item.retrieve(item_id=done.output[0].id)
            shown = (await session.until("conversation.item.retrieved")).item
            assert (shown.content[0].type, shown.content[0].text) == ("text", text)

    run(test())


def test_earlier_words_of_the_agent_are_taken(piped, model):
    async def test():
        async with connect(piped) as session:
            await session.update(modalities=["text"])
            for content in [{"type": "text", "text": "I am Ada."},
                            {"type": "audio", "transcript": "I was asked."}]:
                await session.connection.conversation.item.create(
                    item={"type": "message", "role": "assistant", "content": [content]})
                item = (await session.until("conversation.item.created")).item
                assert item.content[0].to_dict() == content
            await session.say("Who are you?")
            await session.respond()
            said = [each["content"] for each in model.requests[-1]["body"]["messages"]]
            assert said[-3:] == ["I am Ada.", "I was asked.", "Who are you?"]

    run(test())


def test_audio_turn_under_server_vad(parley, speech):
    async def test():
        async with connect(parley) as session:
            await session.update(
                modalities=["text", "audio"], voice="alloy", input_audio_format="pcm16",
                output_audio_format="pcm16", input_audio_transcription={"model": "whisper-1"},
                turn_detection={"type": "server_vad"})
            await session.append(speech)
            await session.until("rate_limits.updated")
            turn = [
                event for event in session.events if "transcription" not in event.type][2:7]
            assert [event.type for event in turn] == [
                "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
                "input_audio_buffer.committed", "conversation.item.created", "response.created",
            ]
            assert turn[3].item.id == turn[0].item_id
            assert turn[3].item.content[0].type == "input_audio"
            heard = session.of("conversation.item.input_audio_transcription.completed")
            if not heard:
                heard = [await session.until(
                    "conversation.item.input_audio_transcription.completed")]
            assert word_errors(words("go forward ten meters"), words(heard[0].transcript)) <= 1
            response = session.events[session.events.index(turn[4]):]
            text = joined(response, "response.audio_transcript")
            audio = b"".join(
                base64.b64decode(event.delta) for event in response
                if event.type == "response.audio.delta")
            assert text.strip() and len(audio) > 2 * 24000 * 0.3
            assert session.of("response.audio.done") and session.of("response.content_part.done")
            done = session.of("response.done")[0].response
            part = done.output[0].content[0]
            assert (done.status, part.type, part.transcript) == ("completed", "audio", text)
            await session.connection.conversation.item.truncate(
                item_id=done.output[0].id, content_index=0, audio_end_ms=100)
            assert (await session.until("conversation.item.truncated")).audio_end_ms == 100

    run(test())


def test_function_call(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(modalities=["text"], tools=[TOOL], tool_choice="auto")
            await session.say("What is the weather in Oslo?")
            events = await session.respond()
            assert series(events) == [
                "response.created", "response.output_item.added", "conversation.item.created",
                "response.function_call_arguments.done", "response.output_item.done",
                "response.done",
            ]
            assert joined(events, "response.function_call_arguments") == '{"city":"Oslo"}'
            call = events[-2].response.output[0]
            assert (call.type, call.name) == ("function_call", "get_weather")
            await session.connection.conversation.item.create(
                item={"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
            await session.until("conversation.item.created")
            events = await session.respond()
            assert joined(events, "response.text") == "The answer is sunny."
            assert events[-2].response.usage.total_tokens == 12

    run(test())


def test_cancel(piped):
    async def test():
        async with connect(piped) as session:
            await session.update(modalities=["text"])
            await session.say("Tell me a story")
            await session.connection.response.create()
            await session.until("response.text.delta")
            await session.connection.response.cancel()
            done = (await session.until("response.done")).response
            assert (done.status, done.status_details.reason) == ("cancelled", "client_cancelled")

    run(test())


@pytest.mark.parametrize(("session_fields", "param"), [
    ({"modalities": ["video"]}, "session.modalities"),
    ({"input_audio_format": "mp3"}, "session.input_audio_format"),
    ({"temperature": 2}, "session.temperature"),
    ({"max_response_output_tokens": 0}, "session.max_response_output_tokens"),
    ({"turn_detection": {"type": "server_vad", "prefix_padding_ms": 3_600_000}},
     "session.turn_detection.prefix_padding_ms"),
])
def test_an_error_names_the_betas_field(parley, session_fields, param):
    async def test():
        async with connect(parley) as session:
            await session.connection.session.update(session=session_fields, event_id="mine")
            error = (await session.until("error")).error
            assert (error.type, error.param) == ("invalid_request_error", param)
            assert error.event_id == "mine"
            # The session lives on.
            assert (await session.update(voice="echo")).voice == "echo"

    run(test())


def test_a_transcription_session(parley, speech):
    async def test():
        async with connect(parley, intent="transcription") as session:
            assert session.events[0].type == "transcription_session.created"
            await session.connection.transcription_session.update(session={
                "input_audio_format": "pcm16",
                "input_audio_transcription": {"model": "gpt-4o-transcribe", "language": "en"},
                "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
            })
            updated = (await session.until("transcription_session.updated")).session
            assert updated.input_audio_transcription.model == "gpt-4o-transcribe"
            assert updated.turn_detection.silence_duration_ms == 400
            await session.append(speech)
            heard = await session.until("conversation.item.input_audio_transcription.completed")
            assert word_errors(words("go forward ten meters"), words(heard.transcript)) <= 1
            assert not session.of("response.created")

    run(test())


def test_an_ephemeral_key_opens_the_session_that_it_was_made_for(parley):
    client = OpenAI(api_key="any", base_url=parley.base_url)
    made = client.beta.realtime.sessions.create(
        model=MODEL, modalities=["text"], instructions="Be brief.", voice="sage",
        client_secret={"expires_after": {"anchor": "created_at", "seconds": 60}})
    assert made.client_secret.value.startswith("ek_") and made.client_secret.expires_at > 0
    assert (made.modalities, made.voice, made.instructions) == (["text"], "sage", "Be brief.")
    # As a browser connects: its key and the dialect are subprotocols.
    subprotocols = [
        "realtime", f"openai-insecure-api-key.{made.client_secret.value}",
        "openai-beta.realtime-v1",
    ]
    url = parley.base_url.replace("http", "ws") + f"/realtime?model={MODEL}"
    with connect_websocket(url, subprotocols=subprotocols, open_timeout=HANG_GUARD) as socket:
        assert socket.subprotocol == "realtime"
        text = socket.recv(HANG_GUARD)
        check_event(text, is_beta=True)
        session = json.loads(text)["session"]
        assert (session["modalities"], session["voice"]) == (["text"], "sage")


def test_a_key_for_transcription(parley):
    client = OpenAI(api_key="any", base_url=parley.base_url)
    made = client.beta.realtime.transcription_sessions.create(
        input_audio_format="pcm16", input_audio_transcription={"model": "whisper-1"})
    assert made.client_secret.value.startswith("ek_")
    assert made.input_audio_transcription.model == "whisper-1"


def test_a_refused_request_for_a_key_names_the_field(parley):
    request = urllib.request.Request(
        f"{parley.base_url}/realtime/sessions", json.dumps({"modalities": ["video"]}).encode(),
        {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=HANG_GUARD)
    assert refused.value.code == 400
    assert json.load(refused.value)["error"]["param"] == "modalities"
