"""The official openai SDK as client and as sideband of one session, on a server with several shards:
what the sideband sees and may do, private functions, hanging up, and what it may not."""

import asyncio
import contextlib
import json
import time

import openai
import pytest
from openai import AsyncOpenAI
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from realtime_session import TOOL, Session, run
from websockets.exceptions import ConnectionClosed, InvalidStatus

KEY = "sk-app-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"
OPERATOR = "sk-operator-0123456789abcdef"
LOOKUP = {
    "type": "function", "name": "lookup_order", "description": "The state of an order",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
}


@pytest.fixture(scope="module")
def guarded(model, tmp_path_factory):
    """Four shards with keys, and the scripted model."""
    keys = tmp_path_factory.mktemp("sideband") / "keys.txt"
    keys.write_text(f"{KEY} name=app max-session-seconds=3600\n{OTHER}\n{OPERATOR} operator\n")
    with ParleyServer(
        "--llm", model.url, "--model", "scripted", "--api-keys-file", str(keys), "--shards", "4",
        "--max-sideband-queued-bytes", "262144", PARLEY_LLM_KEY="the-key",
    ) as server:
        yield server


def sdk(server, key=KEY):
    return AsyncOpenAI(api_key=key, base_url=server.base_url, max_retries=0)


@contextlib.asynccontextmanager
async def opened(server, key=KEY, options=None, **connect):
    """A connection of the SDK, read to `session.created`."""
    async with sdk(server, key).realtime.connect(
        websocket_connection_options=PATIENT_WEBSOCKET | (options or {}), max_retries=0, **connect
    ) as connection:
        session = Session(connection)
        assert (await session.next()).type == "session.created"
        yield session


@contextlib.asynccontextmanager
async def called(server, key=KEY):
    """A session of text with the client's own tool."""
    async with opened(server, key, model="any") as client:
        await client.update(output_modalities=["text"], tools=[TOOL])
        yield client


def test_a_sideband_gets_signs_of_life(guarded):
    async def test():
        async with called(guarded) as client, opened(guarded, call_id=session_id(client)) as side:
            for session in (side, client):
                # The SDK has no class for the event.
                await session.connection.send({"type": "parley.ping"})
                answer = await asyncio.wait_for(session.connection.recv_bytes(), HANG_GUARD)
                assert json.loads(answer)["type"] == "parley.pong"

    run(test())


def metric(server, name):
    """A figure of the page for operators."""
    page = server.get("/metrics", {"Authorization": f"Bearer {OPERATOR}"})[2].decode()
    return int(next(line.split()[-1] for line in page.splitlines() if line.startswith(f"{name} ")))


async def metric_is(server, name, value):
    """Waits until a figure has a value."""
    while await asyncio.to_thread(metric, server, name) != value:
        await asyncio.sleep(0.01)


def session_id(session):
    return session.events[0].session.id


async def refusal(server, key, call_id, **query):
    """The status and code of a refused sideband."""
    with pytest.raises(InvalidStatus) as refused:
        async with opened(server, key, call_id=call_id, extra_query=query):
            pass
    response = refused.value.response
    return response.status_code, json.loads(response.body)["error"]["code"]


def test_a_sideband_sees_and_steers_the_session(guarded, model):
    async def test():
        async with called(guarded) as client:
            # The kernel spreads connections over the shards.
            for turn in range(8):
                async with opened(guarded, call_id=session_id(client)) as sideband:
                    assert sideband.events[0].session.id == session_id(client)
                    assert sideband.events[0].session.tools[0].name == "get_weather"
                    await sideband.update(instructions=f"Be kind, {turn}.")
                    updated = await client.until("session.updated")
                    assert updated.session.instructions == f"Be kind, {turn}."
                    start = len(client.events)
                    await client.say("Hello there")
                    await client.respond()
                    await sideband.until("rate_limits.updated")
                    seen = [event.event_id for event in sideband.events[2:]]
                    assert seen == [event.event_id for event in client.events[start:]]
            first = model.requests[-1]["body"]["messages"][0]
            assert first["content"] == "Be kind, 7."

    run(test())


def test_a_private_call_is_not_seen_by_the_client(guarded):
    async def test():
        async with (
            called(guarded) as client,
            opened(
                guarded, call_id=session_id(client), extra_query={"tools": "lookup_order"}
            ) as sideband,
        ):
            session = await sideband.update(tools=[TOOL, LOOKUP])
            assert [tool.name for tool in session.tools] == ["get_weather", "lookup_order"]
            await client.say('call lookup_order {"number": 7}')
            await client.respond()
            call = await sideband.until("response.function_call_arguments.done")
            assert call.name == "lookup_order" and json.loads(call.arguments) == {"number": 7}
            await sideband.until("response.done")
            # The client replaces its tools meanwhile.
            session = await client.update(tools=[])
            assert session.tools == []
            await sideband.connection.conversation.item.create(item={
                "type": "function_call_output", "call_id": call.call_id, "output": "shipped",
            })
            await sideband.connection.response.create()
            done = await client.until("response.done")
            assert done.response.output[0].content[0].text == "The answer is shipped."
            assert done.response.output[0].type == "message"
            session = (await sideband.until("session.updated")).session
            assert [tool.name for tool in session.tools] == ["lookup_order"]
            shown = "".join(event.model_dump_json() for event in client.events)
            assert "function_call" not in shown
            assert call.call_id not in shown

    run(test())


def test_a_call_that_a_sideband_leaves_is_answered(guarded, model):
    async def test():
        async with called(guarded) as client:
            async with opened(
                guarded, call_id=session_id(client), extra_query={"tools": "lookup_order"}
            ) as sideband:
                await sideband.update(tools=[LOOKUP])
                await client.say('call lookup_order {"number": 7}')
                await client.respond()
                await sideband.until("response.done")
            done = await client.until("response.done")
            assert "not available" in done.response.output[0].content[0].text
            assert "tools" not in model.requests[-1]["body"]

    run(test())


def test_a_sideband_cancels_and_its_errors_are_its_own(guarded):
    async def test():
        async with called(guarded) as client:
            async with opened(guarded, call_id=session_id(client)) as sideband:
                await sideband.connection.response.cancel(event_id="mine")
                error = (await sideband.until("error")).error
                assert (error.code, error.event_id) == ("response_cancel_not_active", "mine")
                await client.say("Tell me a story")
                await client.connection.response.create()
                await sideband.until("response.output_text.delta")
                await sideband.connection.response.cancel()
                done = await client.until("response.done")
                assert done.response.status == "cancelled"
                assert not client.of("error")

    run(test())


def test_who_may_join(guarded):
    async def test():
        async with called(guarded) as client:
            call_id = session_id(client)
            assert await refusal(guarded, OTHER, call_id) == (404, "session_not_found")
            assert await refusal(guarded, KEY, "sess_0000000000") == (404, "session_not_found")
            secret = (await sdk(guarded).realtime.client_secrets.create()).value
            assert await refusal(guarded, secret, call_id) == (403, "insufficient_permissions")
            assert await refusal(guarded, "sk-wrong", call_id) == (401, "invalid_api_key")
            async with opened(guarded, OPERATOR, call_id=call_id):
                pass
            # The session of a client secret belongs to the key that has made the secret.
            async with called(guarded, secret) as page:
                async with opened(
                    guarded, call_id=session_id(page), extra_query={"tools": "lookup_order"}
                ):
                    assert await refusal(
                        guarded, KEY, session_id(page), tools="lookup_order"
                    ) == (409, "tools_taken")

    run(test())


def test_hanging_up(guarded):
    async def test():
        async with called(guarded) as client:
            call_id = session_id(client)
            async with opened(guarded, call_id=call_id) as sideband:
                with pytest.raises(openai.NotFoundError):
                    await sdk(guarded, OTHER).realtime.calls.hangup(call_id)
                assert await sdk(guarded).realtime.calls.hangup(call_id) is None
                for session in (client, sideband):
                    with pytest.raises(ConnectionClosed) as closed:
                        await session.next()
                    assert closed.value.rcvd.code == 1000
                with pytest.raises(openai.NotFoundError):
                    await sdk(guarded).realtime.calls.hangup(call_id)

    run(test())


def test_a_slow_sideband_is_cut_off_and_the_call_goes_on(guarded):
    async def test():
        async with called(guarded) as client:
            # One message waits in the library, and the rest in the sockets and the server.
            async with opened(
                guarded, call_id=session_id(client), options={"max_queue": 1}
            ) as sideband:
                cut_off = metric(guarded, "parley_sidebands_cut_off_total")
                for _ in range(200):
                    await client.say("x" * 50_000)
                    if metric(guarded, "parley_sidebands_cut_off_total") > cut_off:
                        break
                await metric_is(guarded, "parley_sidebands_cut_off_total", cut_off + 1)
                await client.say("Hello there")
                await client.respond()
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await sideband.connection.recv_bytes()
                assert closed.value.rcvd is None or closed.value.rcvd.code == 1013
        await metric_is(guarded, "parley_sidebands", 0)

    run(test())


def test_the_session_says_when_it_ends(guarded):
    async def test():
        async with called(guarded) as client:
            # The SDK's type of this event's session has no such field, and keeps it all the same.
            ends = {event.session.to_dict().get("expires_at") for event in client.of(
                "session.created", "session.updated")}
            assert len(ends) == 1 and abs(ends.pop() - time.time() - 3600) < HANG_GUARD
            async with opened(guarded, OTHER, model="any") as endless:
                assert "expires_at" not in endless.events[0].session.to_dict()

    run(test())


def test_many_sidebands_on_many_shards(guarded):
    async def test():
        async with called(guarded) as client, contextlib.AsyncExitStack() as stack:
            joined = [
                await stack.enter_async_context(opened(guarded, call_id=session_id(client)))
                for _ in range(4)
            ]
            assert await refusal(guarded, KEY, session_id(client)) == (429, "too_many_sidebands")
            await client.say("Hello there")
            await client.respond()
            await asyncio.gather(*(sideband.until("response.done") for sideband in joined))

    run(asyncio.wait_for(test(), HANG_GUARD))
