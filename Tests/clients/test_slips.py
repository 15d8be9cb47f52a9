"""Slips of clients that other servers name: each is refused in words, or does no harm. Raw events, as most
client libraries do not make these mistakes."""

import json

import pytest
import websockets.asyncio.client
from parley_server import PATIENT_WEBSOCKET, ParleyServer
from raw_session import RawSession
from realtime_session import TOOL, run
from scripted_model import ScriptedModel

PENDING = "In progress: this call has not returned yet. Its result will follow; do not repeat the call."


@pytest.fixture(scope="module")
def model():
    with ScriptedModel() as model:
        yield model


@pytest.fixture(scope="module")
def server(model):
    with ParleyServer("--llm", model.url) as server:
        yield server


class Slipping(RawSession):
    """A session in text."""

    async def refusal(self, kind, **fields):
        """Sends an event that is to be refused; returns the error."""
        await self.send(kind, event_id="mine", **fields)
        error = (await self.until("error"))["error"]
        assert error["event_id"] == "mine"
        return error

    async def say(self, text):
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.send("conversation.item.create", item=item)

    async def respond(self):
        """Asks for a response; returns its items."""
        await self.send("response.create")
        return (await self.until("response.done"))["response"]["output"]

    async def answer(self, call_id, output):
        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        await self.send("conversation.item.create", item=item)


async def converse(server, test):
    async with websockets.asyncio.client.connect(
        server.realtime_url, **PATIENT_WEBSOCKET
    ) as connection:
        session = Slipping(connection)
        await session.until("session.created")
        await session.send("session.update", session={
            "type": "realtime", "output_modalities": ["text"], "tools": [TOOL]})
        await session.until("session.updated")
        await test(session)


def talk(server, test):
    run(converse(server, test))


@pytest.mark.parametrize("name, place", [
    ("turn_detection", "session.audio.input.turn_detection"),
    ("voice", "session.audio.output.voice"), ("input_audio_format", None), ("modalities", None),
])
def test_fields_of_the_beta_are_refused_by_name(server, name, place):
    async def test(session):
        error = await session.refusal("session.update", session={"type": "realtime", name: None})
        assert (error["code"], error["param"]) == ("unknown_parameter", f"session.{name}")
        assert place is None or f"'{place}'" in error["message"]

    talk(server, test)


def test_a_misspelt_field_is_refused_and_changes_nothing(server):
    async def test(session):
        detection = {"type": "server_vad", "silence_duration": 900}
        error = await session.refusal("session.update", session={
            "type": "realtime", "instructions": "x", "audio": {"input": {"turn_detection": detection}}})
        assert error["param"] == "session.audio.input.turn_detection.silence_duration"
        assert "'silence_duration_ms'" in error["message"]
        await session.send("session.update", session={"type": "realtime"})
        assert (await session.until("session.updated"))["session"]["instructions"] == ""

    talk(server, test)


def test_a_server_may_ignore_unknown_fields():
    async def test(session):
        await session.send("session.update", session={"type": "realtime", "voice": "echo", "x": 1})
        await session.until("session.updated")

    with ParleyServer("--refuse-unknown-fields", "false") as server:
        talk(server, test)


def test_the_output_of_an_unknown_call_is_refused(server):
    async def test(session):
        await session.say("the weather in Oslo")
        (call,) = await session.respond()
        item = {"type": "function_call_output", "call_id": call["id"], "output": "sunny"}
        error = await session.refusal("conversation.item.create", item=item)
        assert (error["code"], error["param"]) == ("invalid_tool_call_id", "item.call_id")
        await session.answer(call["call_id"], "sunny")
        (message,) = await session.respond()
        assert message["content"][0]["text"] == "The answer is sunny."

    talk(server, test)


@pytest.mark.parametrize("padding", ["", " "])
def test_an_event_in_a_binary_message_is_told_so(server, padding):
    async def test(session):
        event = {"type": "session.update", "session": {"type": "realtime"}}
        await session.connection.send((json.dumps(event) + padding).encode())
        error = (await session.until("error"))["error"]
        assert error["code"] == "invalid_audio" and "text messages" in error["message"]

    talk(server, test)


def test_the_model_is_shown_a_call_that_is_under_way(server, model):
    async def test(session):
        await session.say("the weather in Oslo and Rome")
        oslo, rome = await session.respond()
        await session.answer(rome["call_id"], "rainy")
        await session.say("are you there?")
        await session.respond()
        outputs = {
            message["tool_call_id"]: message["content"]
            for message in model.requests[-1]["body"]["messages"] if message["role"] == "tool"
        }
        assert outputs == {oslo["call_id"]: PENDING, rome["call_id"]: "rainy"}
        await session.answer(oslo["call_id"], "sunny")
        await session.respond()
        messages = model.requests[-1]["body"]["messages"]
        answers = [message["content"] for message in messages if message["role"] == "tool"]
        assert answers == ["sunny", "rainy"]
        (calls,) = [message["tool_calls"] for message in messages if message.get("tool_calls")]
        assert [call["id"] for call in calls] == [oslo["call_id"], rome["call_id"]]

    talk(server, test)


def test_speech_that_stops_coming_is_a_turn(model, speech):
    """The microphone is muted, or the client sends nothing in silence."""
    async def test(session):
        # Within the last word.
        await session.connection.send(speech[:2 * 24 * 1_900])
        started = await session.until("input_audio_buffer.speech_started")
        stopped = await session.until("input_audio_buffer.speech_stopped")
        assert stopped["item_id"] == started["item_id"]
        done = await session.until("response.done")
        assert done["response"]["status"] == "completed"

    with ParleyServer("--llm", model.url, PARLEY_AUDIO_GAP_MS="1000") as server:
        talk(server, test)


def test_a_call_after_words_is_answered_while_the_words_are_played(server, model):
    """The client answers as soon as it has the arguments, and asks for the next response."""
    async def test(session):
        await session.send("session.update", session={
            "type": "realtime", "output_modalities": ["audio"]})
        await session.until("session.updated")
        await session.say("announce the weather in Rome")
        await session.send("response.create")
        call = await session.until("response.function_call_arguments.done")
        await session.answer(call["call_id"], "sunny")
        await session.send("response.create")
        first = (await session.until("response.done"))["response"]
        assert [item["type"] for item in first["output"]] == ["message", "function_call"]
        assert first["status"] == "completed"
        second = (await session.until("response.done"))["response"]
        assert second["output"][0]["content"][0]["transcript"] == "The answer is sunny."

    talk(server, test)


def test_a_message_typed_during_a_reply_is_answered_after_it(server):
    async def test(session):
        await session.send("session.update", session={
            "type": "realtime", "output_modalities": ["audio"]})
        await session.until("session.updated")
        await session.say("a reply that takes three seconds to be played to its end")
        await session.send("response.create")
        # Most of it is still to be played.
        await session.until("response.output_audio.delta")
        await session.say("and another")
        done = []
        while not done:
            await session.send("response.create")
            event = await session.next()
            while event["type"] not in ("response.done", "error"):
                event = await session.next()
            if event["type"] == "response.done":
                done.append(event["response"])
            else:
                # The end of the model's answer is still on its way.
                assert event["error"]["code"] == "conversation_already_has_active_response"
        done.append((await session.until("response.done"))["response"])
        said = ("a reply that takes three seconds to be played to its end", "and another")
        for response, words in zip(done, said, strict=True):
            assert response["status"] == "completed"
            assert response["output"][0]["content"][0]["transcript"] == f"You said: {words}"

    talk(server, test)
