"""Quotas as the openai SDK meets them: what is refused, what the client is told, and that it can go on
when the time that it was told is over."""

import asyncio
import functools
import subprocess
import time

import jwt
import openai
import pytest
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer

FREE = "sk-free-0123456789abcdef"
TRIAL = "sk-trial-0123456789abcdef"
SECRET = "a-secret-of-many-more-than-the-thirty-two-characters-that-it-must-have"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    keys = tmp_path_factory.mktemp("quotas") / "keys.txt"
    keys.write_text(f"{TRIAL} name=trial quotas=turns=2/day,tokens=100000/day\n{FREE}\n")
    with ParleyServer(
        "--api-keys-file", str(keys), "--quotas-per-session", "events=40/day",
        PARLEY_JWT_SECRET=SECRET,
    ) as running:
        yield running


def client(server, key):
    return openai.AsyncOpenAI(
        api_key=key, base_url=server.base_url, max_retries=0,
        websocket_base_url=f"ws://127.0.0.1:{server.port}/v1",
    )


def session(server, key):
    """A connection of the SDK."""
    return client(server, key).realtime.connect(
        model="parley", websocket_connection_options=PATIENT_WEBSOCKET)


def to_the_end(test):
    """Runs a test that is a coroutine, until it has ended."""
    return functools.wraps(test)(lambda *fixtures, **named: asyncio.run(test(*fixtures, **named)))


async def ask(connection):
    """One typed turn: its response, and the quotas that the client is told of."""
    await connection.conversation.item.create(
        item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    )
    await connection.response.create(response={"output_modalities": ["text"]})
    response = None
    async for event in connection:
        if event.type == "response.done":
            response = event.response
        if event.type == "rate_limits.updated":
            return response, event.rate_limits
    raise AssertionError("the connection ended")


@to_the_end
async def test_a_turn_too_many_fails_and_the_session_goes_on(server):
    async with session(server, TRIAL) as connection:
        for left in (1, 0):
            response, limits = await ask(connection)
            assert response.status == "completed"
            assert [limit.name for limit in limits] == ["requests", "tokens"]
            assert [limit.limit for limit in limits] == [2, 100_000]
            assert limits[0].remaining == left
            assert 43_000 < limits[0].reset_seconds <= 86_400
        response, _ = await ask(connection)
        assert response.status == "failed"
        assert response.status_details.error.code == "rate_limit_exceeded"
        await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        async for event in connection:
            if event.type == "session.updated":
                break
    # The same key over HTTP: the SDK raises its own error, with the time to come back.
    with pytest.raises(openai.RateLimitError) as refusal:
        await client(server, TRIAL).chat.completions.create(
            model="parley", messages=[{"role": "user", "content": "Hi"}])
    assert refusal.value.code == "rate_limit_exceeded"
    assert "2 turns per day for this key" in refusal.value.message
    assert 1 <= int(refusal.value.response.headers["retry-after"]) <= 43_200
    # Another key is not touched.
    async with session(server, FREE) as connection:
        response, limits = await ask(connection)
        assert response.status == "completed" and limits == []


@to_the_end
async def test_the_sdk_comes_back_when_it_is_told_to(server):
    token = jwt.encode(
        {"sub": "anna", "exp": time.time() + 600, "parley": {"quotas": ["turns=40/minute"]}},
        SECRET, "HS256")
    patient = client(server, token).with_options(max_retries=20)
    ask = functools.partial(
        patient.chat.completions.create, model="parley",
        messages=[{"role": "user", "content": "Hi"}])
    # All at once: one more than the quota has, which comes back when the quota has filled up for it, after
    # a second and a half.
    replies = await asyncio.gather(*(ask() for _ in range(41)))
    assert all(reply.choices[0].message.content for reply in replies)


@to_the_end
async def test_a_flood_of_events_is_refused_one_by_one(server):
    async with session(server, FREE) as connection:
        for number in range(45):
            await connection.send({"type": "response.cancel", "event_id": f"event_{number}"})
        codes = {}
        async for event in connection:
            if event.type == "error":
                codes[event.error.event_id] = event.error.code
            if len(codes) == 45:
                break
        refused = {name for name, code in codes.items() if code == "rate_limit_exceeded"}
        assert refused == {f"event_{number}" for number in range(40, 45)}


def test_a_bad_quota_is_one_line(tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{FREE} quotas=turns=20/hour\n")
    outcome = subprocess.run(
        [BINARY, "serve", "--port", "0", "--api-keys-file", str(keys)],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert outcome.returncode != 0
    assert "quotas=turns=20/minute" in outcome.stderr and FREE not in outcome.stderr
    outcome = subprocess.run(
        [BINARY, "serve", "--quotas-per-key", "turns=5/hour"],
        capture_output=True, text=True, timeout=HANG_GUARD, check=False)
    assert outcome.returncode != 0
    assert "quotas-per-key" in outcome.stderr
