"""An agent that keeps the conversation itself (Open Responses, previous_response_id): it is sent only
what is new, it knows nothing that the user has not heard, and it may forget."""

import asyncio
import json

import pytest
from parley_server import ROOT
from realtime_session import TOOL, run
from test_brain import Brain, asked_by_server, connect

BRAIN = ROOT / "Tests/clients/state_brain.py"


@pytest.fixture(scope="module")
def brain():
    with Brain(BRAIN) as brain:
        yield brain


@pytest.fixture(scope="module")
def parley(brain):
    with asked_by_server(brain, "", "--llm-keep-state", "true") as server:
        yield server


def last(server):
    """The body of the newest request, and its items in short."""
    body = server.brain.requests[-1]["body"]
    return body, [item.get("content") or item["type"] for item in body["input"]]


def test_only_what_is_new_is_sent(parley):
    async def test():
        async with connect(parley) as session:
            await session.update(instructions="Be brief.", tools=[TOOL])
            assert await session.turn("hello") == (["You said: hello"], [])
            body, items = last(parley)
            assert items == ["hello"] and "previous_response_id" not in body
            known = "user: hello | assistant: You said: hello | user: recite"
            assert await session.turn("recite") == ([known], [])
            body, items = last(parley)
            assert items == ["recite"] and body["previous_response_id"].startswith("resp_")
            # They are not inherited.
            assert body["instructions"] == "Be brief." and body["tools"][0]["name"] == TOOL["name"]
            # Another session knows nothing of it.
            async with connect(parley) as other:
                assert await other.turn("recite") == (["user: recite"], [])

    run(test())


def test_the_output_of_a_call_goes_to_the_agent_that_made_it(parley):
    async def test():
        async with connect(parley) as session:
            await session.update(tools=[TOOL])
            _, calls = await session.turn("how is the weather")
            assert json.loads(calls[0].arguments) == {"city": "Oslo"}
            await session.connection.conversation.item.create(item={
                "type": "function_call_output", "call_id": calls[0].call_id, "output": "sunny"})
            await session.until("conversation.item.done")
            assert (await session.go_on())[0] == ["I found: sunny"]
            body, items = last(parley)
            assert items == ["function_call_output"] and body["previous_response_id"]
            # A call that is not answered yet: the whole conversation is sent, and says so.
            await session.turn("how is the weather")
            assert (await session.turn("hello"))[0] == ["You said: hello"]
            body, items = last(parley)
            assert "previous_response_id" not in body and items.count("function_call") == 2
            assert (await session.turn("and now"))[0] == ["You said: and now"]
            assert last(parley)[1] == ["and now"]

    run(test())


def test_a_commentary_is_an_item_of_its_own(parley):
    async def test():
        async with connect(parley) as session:
            texts, _ = await session.turn("where is order 42")
            assert texts == ["One moment.", "Order 42 ships on Friday."]
            types = session.types()
            # The first is done while the agent still works.
            first_end = types.index("response.output_text.done")
            assert "response.output_text.delta" in types[first_end:]
            assert (await session.turn("hello"))[0] == ["You said: hello"]
            assert last(parley)[1] == ["hello"]

    run(test())


def test_a_stream_that_was_interrupted_leaves_what_was_said(parley):
    async def test():
        async with connect(parley) as session:
            await session.turn("hello")
            hello = last(parley)[0]
            await session.say("tell me a story")
            await session.connection.response.create()
            await session.until("response.output_text.delta")
            await session.connection.response.cancel()
            done = (await session.until("response.done")).response
            heard = done.output[0].content[0].text
            await session.until("rate_limits.updated")
            (known,), _ = await session.turn("recite")
            assert known == (
                "user: hello | assistant: You said: hello | user: tell me a story | "
                f"assistant: {heard} | user: recite")
            body, items = last(parley)
            assert items == ["tell me a story", heard, "recite"]
            assert "previous_response_id" not in hello and body["previous_response_id"]

    run(test())


@pytest.mark.parametrize("first", [True, False])
def test_what_was_not_heard_of_a_spoken_reply_is_not_known(parley, first):
    """The agent has written and kept the whole reply, and the user has heard a second of it."""

    async def test():
        async with connect(parley) as session:
            if not first:
                await session.turn("hello")
            number = len(parley.brain.requests)
            await session.update(output_modalities=["audio"])
            await session.say("tell me a tale")
            await session.connection.response.create()
            item = (await session.until("response.output_item.added")).item
            assert await asyncio.to_thread(parley.brain.end, number) == {
                "completed": True, "status": 200}
            while True:
                event = await session.until("response.output_audio.delta", "response.done")
                assert event.type != "response.done", "the reply was spoken to its end"
                if len(session.of("response.output_audio.delta")) >= 3:
                    break
            await session.connection.response.cancel()
            await session.until("rate_limits.updated")
            await session.connection.conversation.item.truncate(
                item_id=item.id, content_index=0, audio_end_ms=40)
            await session.until("conversation.item.truncated")
            await session.update(output_modalities=["text"])
            (known,), _ = await session.turn("recite")
            assert "number 2" not in known and known.endswith("user: recite")
            assert known.startswith("user: tell me a tale" if first else "user: hello | assistant")
            body, items = last(parley)
            assert ("previous_response_id" in body) is not first
            assert items[0] == "tell me a tale"

    run(test())


def test_an_item_that_was_deleted_is_not_known(parley):
    async def test():
        async with connect(parley) as session:
            secret = (await session.say("my number is 1234")).item
            await session.go_on()
            await session.connection.conversation.item.delete(item_id=secret.id)
            await session.until("conversation.item.deleted")
            (known,), _ = await session.turn("recite")
            assert known == "assistant: You said: my number is 1234 | user: recite"
            assert "previous_response_id" not in last(parley)[0]

    run(test())


def test_an_agent_that_has_forgotten_is_told_everything(parley):
    async def test():
        async with connect(parley) as session:
            await session.turn("hello")
            await session.turn("forget")
            count = len(parley.brain.requests)
            (known,), _ = await session.turn("recite")
            assert known == (
                "user: hello | assistant: You said: hello | user: forget | "
                "assistant: You said: forget | user: recite")
            asked = parley.brain.requests[count:]
            assert ["previous_response_id" in request["body"] for request in asked] == [True, False]
            await session.turn("hello again")
            assert last(parley)[1] == ["hello again"]

    run(test())


def test_without_the_setting_nothing_is_kept(brain):
    async def test(server):
        async with connect(server) as session:
            await session.say("hello")
            await session.connection.response.create()
            # This agent refuses that.
            assert (await session.until("response.done")).response.status == "failed"
            assert last(server)[0]["store"] is False

    with asked_by_server(brain) as server:
        run(test(server))
