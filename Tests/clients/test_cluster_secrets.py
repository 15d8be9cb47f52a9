"""Client secrets on several servers that share a Redis: each opens its session at every node."""

import asyncio
import http.client
import json
import os
import re
import signal

import pytest
from parley_server import HANG_GUARD, PATIENT_WEBSOCKET, ParleyServer
from redis_server import RedisServer
from test_cluster import until
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.skipif(
    not RedisServer.INSTALLED, reason="redis-server is not installed")

KEY = "sk-key-0123456789abcdef"
OTHER = "sk-other-0123456789abcdef"
MADE_UP = "ek_" + "A" * 43


@pytest.fixture
def cluster(tmp_path):
    """A Redis and two servers with the same keys."""
    keys = tmp_path / "keys"
    keys.write_text(f"{KEY} operator\n{OTHER}\n")
    arguments = ["--api-keys-file", str(keys), "--auth-failures-per-minute-per-address", "0"]
    with (
        RedisServer() as redis,
        ParleyServer("--store", redis.url, *arguments) as one,
        ParleyServer("--store", redis.url, *arguments) as two,
    ):
        until(lambda: all(node.get("/readyz?store")[0] == 200 for node in (one, two)))
        yield redis, one, two, keys


def make_secret(node, seconds=60, key=KEY, **session):
    body = {"session": {"type": "realtime"} | session, "expires_after": {"seconds": seconds}}
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=HANG_GUARD)
    try:
        connection.request(
            "POST", "/v1/realtime/client_secrets", json.dumps(body),
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())["value"]
    finally:
        connection.close()


def open_session(node, credential):
    """The session that a credential opens, or the status of its refusal."""
    async def test():
        headers = {"Authorization": f"Bearer {credential}"}
        try:
            async with connect(
                    node.realtime_url, additional_headers=headers, **PATIENT_WEBSOCKET) as link:
                return json.loads(await link.recv())["session"]
        except InvalidStatus as refusal:
            return refusal.response.status_code

    return asyncio.run(asyncio.wait_for(test(), HANG_GUARD))


def shared_session(node, credential):
    """The session that a secret of another node opens, and how often it was refused before: Redis may have
    it later than its maker, and on a busy machine answers late."""
    answers = []
    until(lambda: answers.append(open_session(node, credential)) or answers[-1] != 401)
    return answers[-1], len(answers) - 1


def test_a_secret_opens_its_own_session_at_every_node(cluster):
    redis, one, two, _ = cluster
    secret = make_secret(one, model="bound", instructions="Be brief.")
    until(lambda: redis.client.keys("parley:secret:*"))
    session, refusals = shared_session(two, secret)
    assert (session["model"], session["instructions"]) == ("bound", "Be brief.")
    # From then on the node knows it.
    redis.client.flushall()
    assert open_session(two, secret)["model"] == "bound"
    assert open_session(two, MADE_UP) == 401
    page = two.get("/metrics", {"Authorization": f"Bearer {KEY}"})[2].decode()
    looked_up = {
        outcome: int(count) for outcome, count in re.findall(
            r'^parley_client_secret_lookups_total\{outcome="(\w+)"\} (\d+)$', page, re.MULTILINE)}
    failed = looked_up.pop("failed")
    assert looked_up == {"found": 1, "missing": 1} and failed <= refusals
    # Redis has neither the secret nor the key.
    make_secret(one, instructions="Be brief.")
    until(lambda: redis.client.keys("parley:secret:*"))
    for name in redis.client.keys("parley:secret:*"):
        record = redis.client.get(name)
        assert "ek_" not in name + record and KEY not in name + record
        assert 0 < redis.client.ttl(name) <= 60


def test_a_secret_goes_with_its_key_and_with_its_time(cluster):
    redis, one, two, keys = cluster
    lasting, other = make_secret(one), make_secret(one, key=OTHER)
    assert shared_session(two, lasting)[0]["type"] == "realtime"
    keys.write_text(f"{OTHER}\n")
    for node in (one, two):
        os.kill(node.process.pid, signal.SIGHUP)
        until(lambda node=node: open_session(node, lasting) == 401)
    assert shared_session(two, other)[0]["type"] == "realtime"
    # Takes real time: no secret lasts less than ten seconds.
    brief = make_secret(one, seconds=10, key=OTHER)
    assert shared_session(two, brief)[0]["type"] == "realtime"
    until(lambda: open_session(two, brief) == 401)
    assert open_session(one, brief) == 401


def test_while_redis_stands_still_secrets_are_good_at_their_own_node(cluster):
    redis, one, two, _ = cluster
    secret = make_secret(one, instructions="Be brief.")
    until(lambda: redis.client.keys("parley:secret:*"))
    redis.suspend()
    # The first question waits for its time limit; then nobody asks any more.
    for _ in range(3):
        assert open_session(two, secret) == 401
    for node in (one, two):
        assert open_session(node, KEY)["type"] == "realtime"
    assert open_session(one, secret)["instructions"] == "Be brief."
    assert open_session(one, MADE_UP) == 401
    redis.resume()
    until(lambda: two.get("/readyz?store")[0] == 200)
    assert shared_session(two, secret)[0]["instructions"] == "Be brief."
