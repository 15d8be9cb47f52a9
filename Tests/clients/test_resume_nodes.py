"""Sessions that go on at another server: two servers, one real Redis, and clients whose server is
killed, restarted, or left for another."""

import asyncio
import contextlib
import json
import time

import pytest
import websockets
from parley_server import HANG_GUARD, ParleyServer, free_port
from redis_server import RedisServer
from resuming_caller import RESTART, TAKEN_OVER, Caller

pytestmark = pytest.mark.skipif(
    not RedisServer.INSTALLED, reason="redis-server is not installed")

TOOL = {
    "type": "function", "name": "get_weather", "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@contextlib.contextmanager
def cluster(model, redis, *options, of_second=()):
    """Two servers of one Redis."""
    made = arguments(model, redis, *options)
    with ParleyServer(*made, PARLEY_LLM_KEY="the-key") as first:
        with ParleyServer(*made, *of_second, PARLEY_LLM_KEY="the-key") as second:
            for server in (first, second):
                while json.loads(server.get("/admin/sessions")[2])["nodes"] < 2:
                    time.sleep(0.05)
            yield first, second


def arguments(model, redis, *options):
    return [
        "--store", redis.url, "--llm", model.url, "--model", "scripted", "--shards", "2", *options]


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


def kill(server):
    """SIGKILL."""
    server.process.kill()
    server.process.wait()
    server.expected_status = -9


async def is_stored(redis, caller, done):
    """Waits until the store has an item of a conversation in its final form."""
    key = f"parley:{{{caller.session['id']}}}"
    while b'"completed"' not in (await asyncio.to_thread(redis.hget, key, f"item:{done}") or b""):
        await asyncio.sleep(0.02)


async def reply(caller):
    """Waits for the end of a reply; returns its text, and the id of its last item."""
    done = await caller.until("response.done")
    item = done["response"]["output"][-1]
    part = item["content"][0]
    return part.get("text", part.get("transcript")), item["id"]


def numbers(count):
    return "".join(f"w{number} " for number in range(count))


def test_a_killed_server_costs_no_conversation(model, redis):
    """Takes two seconds, in which servers learn of each other and of the end of one."""
    with cluster(model, redis) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(output_modalities=["text"], instructions="Be brief.")
            await caller.ask("Remember blue.")
            text, item = await reply(caller)
            assert text == "You said: Remember blue."
            await is_stored(raw(redis), caller, item)
            model.second_half.clear()
            await caller.ask("number 100 halts at 60")
            while caller.words().count("w") < 60:
                await caller.next()
            session, known = caller.session["id"], len(model.requests)
            await asyncio.to_thread(kill, first)
            with pytest.raises(websockets.ConnectionClosedError):
                while True:
                    await caller.connection.recv()
            caller.server = second
            model.second_half.set()
            resumed = await caller.come_back()
            assert resumed["type"] == "parley.resumed"
            assert resumed["session"]["id"] == session
            assert resumed["session"]["instructions"] == "Be brief."
            # Its model had not finished, and is asked again. What the client has of it is taken back.
            text, _ = await reply(caller)
            assert text == numbers(100)
            assert len(model.requests) == known + 1
            told = [each["content"] for each in model.requests[-1]["body"]["messages"]]
            assert told[1:] == ["Remember blue.", "You said: Remember blue.", "number 100 halts at 60"]
            await caller.ask("And now?")
            assert (await reply(caller))[0] == "You said: And now?"
            await caller.close()

        run(test())


def raw(redis):
    """A connection whose answers are bytes."""
    return type(redis.client)(port=redis.port, protocol=2)


def test_a_restart_cuts_no_spoken_reply_short(model, redis):
    # The second sends its part at once, and not at the pace of its playing.
    with cluster(model, redis, "--drain-delay-ms", "0", "--drain-jitter-ms", "0",
                 of_second=("--playout-lead-ms", "60000")) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(audio={"output": {"transport": "binary"}})
            await caller.ask("number 60")
            # Two seconds are heard.
            while len(caller.packets) < 20:
                await caller.next()
            first.process.terminate()
            caller.server = second
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await caller.next()
            assert closed.value.rcvd.code == RESTART
            assert caller.count("parley.going_away") == 1
            resumed = await caller.come_back()
            assert resumed["recovered"]
            while caller.count("response.done") < 2:
                await caller.next()
            await asyncio.to_thread(first.process.wait, HANG_GUARD)
            ends = [event["response"] for event in caller.events if event["type"] == "response.done"]
            assert [end["status"] for end in ends] == ["incomplete", "completed"]
            assert ends[0]["status_details"]["reason"] == "handed_over"
            # What was sent is heard to its end, and the rest is said once.
            cut = [event["transcript"] for event in caller.events
                   if event["type"] == "conversation.item.truncated" and "transcript" in event]
            rest = ends[1]["output"][0]["content"][0]["transcript"]
            assert len(cut) == 1 and rest
            assert f"{cut[0]} {rest}".split() == numbers(60).split()
            await caller.close()

        run(test())


def test_a_call_that_is_not_answered_is_answered_elsewhere(model, redis):
    with cluster(model, redis) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(output_modalities=["text"], tools=[TOOL])
            await caller.ask("What is the weather in Bergen?")
            done = await caller.until("response.done")
            call = done["response"]["output"][0]
            assert call["type"] == "function_call"
            await is_stored(raw(redis), caller, call["id"])
            await asyncio.to_thread(kill, first)
            caller.server = second
            await caller.come_back()
            await caller.send("conversation.item.create", item={
                "type": "function_call_output", "call_id": call["call_id"], "output": "rain"})
            await caller.send("response.create")
            assert (await reply(caller))[0] == "The answer is rain."
            await caller.close()

        run(test())


def test_a_client_that_reaches_another_server_misses_nothing(model, redis):
    with cluster(model, redis) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(output_modalities=["text"])
            await caller.ask("number 100")
            while caller.words().count("w") < 20:
                await caller.next()
            old, known = caller.connection, len(model.requests)
            await caller.stop_reading()
            caller.server = second
            assert (await caller.come_back())["recovered"]
            old.transport.resume_reading()
            assert (await reply(caller))[0] == caller.words() == numbers(100)
            assert len(model.requests) == known
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await old.recv()
            assert closed.value.rcvd.code == TAKEN_OVER
            # The session stays where it was, and is led through the other server.
            assert int(first.metric("parley_sessions")) == 1
            assert int(second.metric("parley_sessions")) == 0
            await caller.cut()
            assert (await caller.come_back())["recovered"]
            await caller.ask("Two.")
            assert (await reply(caller))[0] == "You said: Two."
            await caller.close()

        run(test())


def test_a_server_that_others_cannot_reach_loses_the_session(model, redis):
    with ParleyServer(*arguments(model, redis, "--node-url", f"http://127.0.0.1:{free_port()}"),
                      PARLEY_LLM_KEY="the-key") as first:
        with ParleyServer(*arguments(model, redis), PARLEY_LLM_KEY="the-key") as second:
            async def test():
                caller = Caller(first)
                await caller.open()
                await caller.configure(output_modalities=["text"])
                await caller.ask("One.")
                _, item = await reply(caller)
                await is_stored(raw(redis), caller, item)
                old, session = caller.connection, caller.session["id"]
                caller.server = second
                resumed = await caller.come_back()
                assert resumed["session"]["id"] == session
                await caller.ask("Two.")
                assert (await reply(caller))[0] == "You said: Two."
                # Nothing happens at the first server: its heartbeat tells it.
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    while True:
                        await old.recv()
                assert closed.value.rcvd.code == TAKEN_OVER
                assert int(first.metric("parley_resumes_taken_over_total")) == 1
                while int(await asyncio.to_thread(first.metric, "parley_sessions")):
                    await asyncio.sleep(0.02)
                await caller.close()

            run(test())


def test_without_redis_a_session_lives_on_and_is_reached_from_everywhere(model, redis):
    with cluster(model, redis) as (first, second):
        async def test():
            caller, stranger = Caller(first), Caller(second)
            await caller.open()
            await caller.configure(output_modalities=["text"])
            redis.suspend()
            await caller.ask("One.")
            assert (await reply(caller))[0] == "You said: One."
            for server in [second, first]:
                await caller.cut()
                caller.server = server
                assert (await caller.come_back())["recovered"]
                await caller.ask("Two.")
                assert (await reply(caller))[0] == "You said: Two."
            # What nobody knows begins anew.
            stranger.resume = caller.resume | {
                "handle": "sess_0123456789" + caller.resume["handle"][15:]}
            resumed = await stranger.come_back()
            assert not resumed["recovered"]
            assert resumed["session"]["id"] != caller.session["id"]
            redis.resume()
            await caller.close()
            await stranger.close()

        run(test())


def test_a_redis_that_is_full_costs_a_killed_server_s_clients_their_session_alone(model, redis):
    """Takes three seconds, after which a silent node counts as gone."""
    with cluster(model, redis) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(output_modalities=["text"])
            await caller.ask("One.")
            _, item = await reply(caller)
            await is_stored(raw(redis), caller, item)
            lost = caller.session["id"]
            await asyncio.to_thread(redis.command, "CONFIG", "SET", "maxmemory", "1")
            await asyncio.to_thread(kill, first)
            caller.server = second
            while True:
                try:
                    resumed = await caller.come_back()
                    break
                except websockets.InvalidStatus as refused:
                    assert refused.response.status_code == 503
                    assert int(refused.response.headers["Retry-After"]) > 0
                    await asyncio.sleep(0.1)
            assert not resumed["recovered"] and resumed["session"]["id"] != lost
            await caller.configure(output_modalities=["text"])
            await caller.ask("Two.")
            assert (await reply(caller))[0] == "You said: Two."
            await caller.close()

        run(test())


def test_a_redis_that_comes_back_empty_learns_of_sessions_at_rest(model, redis):
    """Takes the time between two reviews of what the store should have (StoredSession.shortestReview)."""
    with cluster(model, redis) as (first, second):
        async def test():
            caller = Caller(first)
            await caller.open()
            await caller.configure(output_modalities=["text"])
            await caller.ask("Remember blue.")
            _, item = await reply(caller)
            await is_stored(raw(redis), caller, item)
            await asyncio.to_thread(redis.stop)
            await asyncio.to_thread(redis.start)
            # Without any event of the session.
            await is_stored(raw(redis), caller, item)
            await asyncio.to_thread(kill, first)
            caller.server = second
            assert (await caller.come_back())["session"]["id"] == caller.session["id"]
            await caller.ask("And now?")
            assert (await reply(caller))[0] == "You said: And now?"
            assert "Remember blue." in str(model.requests[-1]["body"]["messages"])
            await caller.close()

        run(test())
