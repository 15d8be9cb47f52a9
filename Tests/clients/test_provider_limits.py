"""A provider that may have one request at a time: the others wait in the server, leave when their user
interrupts, and are refused where too many wait."""

import http.client
import json
import time

import pytest
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import connect, run
from scripted_model import ScriptedModel

NAMES = ["in_flight", "waiting", "refused_total"]


@pytest.fixture
def limited():
    with ScriptedModel() as model:
        arguments = ("--llm", model.url, "--llm-concurrency", "1", "--llm-queue", "1")
        with ParleyServer(*arguments, "--shards", "2") as server:
            server.model = model
            yield server


def counts(server):
    """Requests in flight, waiting and refused."""
    return [
        int(server.metric(f'parley_model_requests_{name}{{provider="llm"}}')) for name in NAMES]


def until(server, expected):
    """The server counts where a request is once its own thread has handled it."""
    deadline = time.monotonic() + HANG_GUARD
    while counts(server) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert counts(server) == expected


def ask(server, text, stream=False):
    """Sends a text request; returns the answer's status, fields and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG_GUARD)
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body),
            {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())
    finally:
        connection.close()


async def begin(session, text):
    """Asks for a response, and does not wait for it."""
    await session.update(output_modalities=["text"])
    await session.say(text)
    await session.connection.response.create()


def test_a_place_a_wait_and_a_refusal(limited):
    async def test():
        async with connect(limited) as first, connect(limited) as second, connect(limited) as third:
            await begin(first, "tell me a story")
            await first.until("response.output_text.delta")
            await begin(second, "hello")
            await second.until("response.created")
            until(limited, [1, 1, 0])
            # A third is refused, by event and by status.
            await begin(third, "hello")
            done = (await third.until("response.done")).response
            assert done.status == "failed"
            error = done.status_details.error
            assert error.code == "rate_limit_exceeded"
            for stream in [False, True]:
                status, fields, body = ask(limited, "hello", stream)
                assert status == 429 and 1 <= int(fields["Retry-After"]) <= 60
                assert body["error"]["code"] == "rate_limit_exceeded"
                assert f"in {fields['Retry-After']} s" in body["error"]["message"]
            until(limited, [1, 1, 3])
            # The second's turn comes when the first is interrupted.
            assert len(limited.model.requests) == 1
            await first.connection.response.cancel()
            assert (await second.until("response.done")).response.status == "completed"
            until(limited, [0, 0, 3])
            # The third may ask again.
            await third.until("rate_limits.updated")
            events = await third.respond()
            assert events[-2].response.status == "completed"
            name = 'parley_model_turns_total{provider="llm",outcome="failed"}'
            assert limited.metric(name) == "0"

    run(test())


def test_a_waiting_request_leaves_when_its_user_interrupts(limited):
    async def test():
        async with connect(limited) as first, connect(limited) as second:
            await begin(first, "tell me a story")
            await first.until("response.output_text.delta")
            await begin(second, "hello")
            await second.until("response.created")
            until(limited, [1, 1, 0])
            await second.connection.response.cancel()
            assert (await second.until("response.done")).response.status == "cancelled"
            until(limited, [1, 0, 0])
            await first.connection.response.cancel()
            until(limited, [0, 0, 0])
            assert len(limited.model.requests) == 1

    run(test())


def test_the_fallback_takes_over_where_too_many_wait():
    with ScriptedModel() as main, ScriptedModel() as spare:
        arguments = (
            "--llm", main.url, "--llm-concurrency", "1", "--llm-queue", "0", "--llm-fallback",
            "spare", "--providers", f"name=spare url={spare.url}")
        with ParleyServer(*arguments) as server:

            async def test():
                async with connect(server) as session:
                    await begin(session, "tell me a story")
                    await session.until("response.output_text.delta")
                    status, _, body = ask(server, "hello")
                    assert status == 200
                    assert body["choices"][0]["message"]["content"] == "You said: hello"
                    assert len(main.requests) == len(spare.requests) == 1
                    until(server, [1, 0, 1])

            run(test())
