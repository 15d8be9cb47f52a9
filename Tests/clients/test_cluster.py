"""Several servers that share a Redis: each finds the sessions of all."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import time

import pytest
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer
from redis_server import RedisServer
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

KEY = "sk-operator-0123456789"
OTHER = "sk-other-0123456789"
SINGLE = "sk-single-0123456789"


@pytest.fixture(scope="module")
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The file of keys of all nodes."""
    keys = tmp_path_factory.mktemp("cluster") / "keys"
    keys.write_text(
        f"{KEY} name=boss operator\n{OTHER} name=other\n{SINGLE} name=single max-sessions=1\n")
    return keys


@contextlib.contextmanager
def cluster(redis, keys, *options):
    """Three servers with the same keys. `options` are those of each."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                ParleyServer("--store", redis.url, "--api-keys-file", str(keys), *own))
            for own in options or [[]] * 3]
        yield started


def knows_all(node, count=3):
    return ask(node, "/admin/sessions")[1].get("nodes") == count


@pytest.fixture(scope="module")
def nodes(redis, keys):
    with cluster(redis, keys) as started:
        until(lambda: all(map(knows_all, started)))
        yield started


def until(holds):
    deadline = time.monotonic() + HANG_GUARD
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ask(node, path, method="GET", key=KEY, **fields):
    """Sends a request; returns the status and the JSON of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=HANG_GUARD)
    try:
        headers = {"Authorization": f"Bearer {key}"} | fields
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return answer.status, json.loads(body) if body else {}
    finally:
        connection.close()


@contextlib.asynccontextmanager
async def session(node, key=KEY):
    """An open session: yields its id and its connection."""
    url = f"{node.realtime_url}?model=m"
    headers = {"Authorization": f"Bearer {key}"}
    async with connect(url, additional_headers=headers, **PATIENT_WEBSOCKET) as link:
        yield json.loads(await link.recv())["session"]["id"], link


def run(test):
    asyncio.run(asyncio.wait_for(test, HANG_GUARD))


def decide(node, path, *method, count=3, **options):
    """The answer to a request for a session, once all nodes have given theirs. On a busy machine one may be
    late, and then it is 503. One whose heartbeat is late is not asked, and then it is 404."""
    answers = []

    def is_decided():
        answers.append(ask(node, path, *method, **options))
        status = answers[-1][0]
        return status != 503 and (status != 404 or knows_all(node, count))

    until(is_decided)
    return answers[-1]


def all_sessions(node, query, count):
    """A page of sessions that all nodes have answered, once the cluster has so many sessions."""
    pages = []

    def is_whole():
        status, page = ask(node, f"/admin/sessions?{query}")
        assert status == 200
        pages.append(page)
        return (page["nodes"], page["nodes_answered"]) == (3, 3) and page["states"]["idle"] == count

    until(is_whole)
    return pages[-1]


def hang_up(node, session_id, **options):
    return decide(node, f"/v1/realtime/calls/{session_id}/hangup", "POST", **options)[0]


def test_every_node_lists_the_sessions_of_all(nodes):
    async def test():
        async with session(nodes[0]) as (first, _), session(nodes[1]) as (second, _):
            for node in nodes:
                page = await asyncio.to_thread(all_sessions, node, "order=id", 2)
                assert [row["id"] for row in page["data"]] == sorted([first, second])
                assert len({row["node"] for row in page["data"]}) == 2
                assert not page["has_more"]
            own = await asyncio.to_thread(ask, nodes[2], "/admin/sessions?scope=node")
            assert own[1]["nodes"] == 1 and own[1]["data"] == []
            status, one = await asyncio.to_thread(decide, nodes[2], f"/admin/sessions/{second}")
            assert status == 200 and one["id"] == second and one["parts"]["session"] > 0
            page = await asyncio.to_thread(all_sessions, nodes[2], "limit=1", 2)
            assert len(page["data"]) == 1 and page["has_more"]

    run(test())
    assert decide(nodes[0], "/admin/sessions/sess_nobody")[0] == 404


def test_a_session_is_hung_up_from_any_node(nodes):
    async def test():
        async with session(nodes[0]) as (first, link), session(nodes[0], OTHER) as (second, _):
            assert await asyncio.to_thread(hang_up, nodes[2], first, key=OTHER) == 404
            assert await asyncio.to_thread(hang_up, nodes[2], first) == 200
            with pytest.raises(ConnectionClosed):
                while True:
                    await link.recv()
            assert link.close_code == 1000
            # A key reaches its own sessions, wherever they are.
            assert await asyncio.to_thread(hang_up, nodes[1], second, key=OTHER) == 200
            assert await asyncio.to_thread(hang_up, nodes[1], second) == 404

    run(test())


def test_a_node_that_is_gone_is_uncertain_and_then_forgotten(keys):
    with RedisServer() as redis, cluster(redis, keys) as nodes:
        until(lambda: knows_all(nodes[0]))
        nodes[2].process.kill()
        nodes[2].process.wait()
        nodes[2].expected_status = -9
        pages = []

        def has_other_answered():
            pages.append(ask(nodes[0], "/admin/sessions")[1])
            return pages[-1]["nodes_answered"] == 2

        until(has_other_answered)
        assert pages[-1]["nodes"] in (2, 3)
        assert ask(nodes[0], "/v1/realtime/calls/sess_nobody/hangup", "POST")[0] in (404, 503)
        # Takes real time: a node counts as alive for three seconds after its last heartbeat.
        until(lambda: ask(nodes[0], "/admin/sessions")[1]["nodes"] == 2)
        assert hang_up(nodes[0], "sess_nobody", count=2) == 404


async def sideband_of(node, call_id):
    """A sideband at another node, once the session's node has answered."""
    headers = {"Authorization": f"Bearer {KEY}"}
    while True:
        try:
            return await connect(
                f"{node.realtime_url}?call_id={call_id}", additional_headers=headers,
                **PATIENT_WEBSOCKET)
        except InvalidStatus as refusal:
            status = refusal.response.status_code
            assert status == 503 or (status == 404 and not await asyncio.to_thread(knows_all, node))


def test_a_session_is_found_while_another_node_is_silent(keys):
    async def test(nodes):
        async with session(nodes[1]) as (first, _), session(nodes[1]) as (second, link):
            status, row = await asyncio.to_thread(decide, nodes[0], f"/admin/sessions/{first}")
            assert status == 200 and row["id"] == first
            assert await asyncio.to_thread(hang_up, nodes[0], second) == 200
            with pytest.raises(ConnectionClosed):
                while True:
                    await link.recv()
            async with await sideband_of(nodes[0], first) as sideband:
                created = json.loads(await sideband.recv())
                assert created["session"]["id"] == first

    # The third node is alive, and where the others look for it nothing is ever answered.
    with RedisServer() as redis, socket.create_server(("127.0.0.1", 0)) as silent:
        away = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with cluster(redis, keys, [], [], ["--node-url", away]) as nodes:
            # Takes real time: a list of sessions waits two seconds for a node.
            until(lambda: knows_all(nodes[0]))
            run(test(nodes))


def test_a_keys_sessions_are_limited_over_all_nodes(nodes):
    def is_admitted(node):
        async def test():
            async with session(node, SINGLE):
                pass

        try:
            asyncio.run(asyncio.wait_for(test(), HANG_GUARD))
            return True
        except InvalidStatus as refusal:
            assert refusal.response.status_code == 429
            return False

    def stays_refused(node):
        """Whether it still knows of the session; False where it has lost a node from sight meanwhile,
        whose heartbeat may come late on a busy machine."""
        is_refused = not is_admitted(node)
        assert is_refused or not knows_all(node)
        return is_refused

    async def test():
        async with session(nodes[0], SINGLE):
            # No other has seen the key; each learns of the session from its next report.
            for node in nodes[1:]:
                await asyncio.to_thread(until, lambda node=node: not is_admitted(node))
                await asyncio.to_thread(until, lambda node=node: stays_refused(node))
        for node in nodes[1:]:
            await asyncio.to_thread(until, lambda node=node: is_admitted(node))

    run(test())


def test_a_pass_cannot_be_made_up(nodes, redis):
    script = ("return (redis.call('GET', 'parley:node-secret'):gsub('.', "
              "function(c) return string.format('%02x', c:byte()) end))")
    secret = bytes.fromhex(redis.command("EVAL", script, "0"))
    target = "/admin/sessions?scope=node"
    [receiver] = [
        name for name in redis.command("ZRANGE", "parley:nodes", "0", "-1").splitlines()
        if f":{nodes[0].port}" in redis.command("GET", f"parley:node:{name}")]

    def sign(facts, secret=secret, receiver=receiver, target=target, method="GET"):
        text = f"parley node 2\n{receiver}\n{method} {target}\n{facts}"
        code = hmac.new(secret, text.encode(), hashlib.sha256).digest()
        return facts + "." + base64.urlsafe_b64encode(code).decode().rstrip("=")

    def status(value, **options):
        return ask(nodes[0], target, **{"Parley-Node": value}, **options)[0]

    # A pass may last twenty seconds.
    now = int(time.time())
    facts = f"3.-.-.{now + 18}"
    good = sign(facts)
    assert status(good, key="sk-none-0123456789") == 200
    # The request has an operator's key, which would do without a pass.
    assert ask(nodes[0], target)[0] == 200
    code = good.rsplit(".", 1)[1]
    flipped = ("B" if code[0] == "A" else "A") + code[1:]
    for value in [
            f"{facts}.{flipped}", f"{facts}.{'A' * 43}", f"{facts}.", facts, "", "....",
            sign(facts, secret=bytes(32)), sign(facts, receiver="another"),
            sign(facts, target="/admin/sessions"), sign(facts, method="POST"),
            f"3.-.-.{now + 17}.{code}", sign(f"3.-.-.{now - 60}"),
            sign(f"3.-.-.{now + 3600}"), sign(f"0.-.-.{now + 18}"), sign(f"3.-.{now + 18}")]:
        assert status(value) == 401, value


# scripts/cluster.sh


def free_range(count=13):
    """The first of some ports on which no program listens now. Those of free_port end below."""
    firsts = range(20_000, 32_000, 20)
    begin = os.getpid() % len(firsts)
    for first in [*firsts[begin:], *firsts[:begin]]:
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
                return first
            except OSError:
                continue
    raise RuntimeError("no ports are free")


class Script:
    """scripts/cluster.sh with ports of its own."""

    def __init__(self):
        self.port = free_range()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")
        } | {
            "PARLEY_BINARY": BINARY, "CLUSTER_PORT": str(self.port), "CLUSTER_DETACHED": "1",
            "CLUSTER_PROMETHEUS": "0", "CLUSTER_NODES": "2",
        }

    def __enter__(self):
        self.shown = self.do("up")
        return self

    def __exit__(self, *_):
        self.do("down")

    def do(self, *arguments, status=0):
        done = subprocess.run(
            [ROOT / "scripts/cluster.sh", *arguments], env=self.environment, timeout=HANG_GUARD,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def await_states(self, **states):
        """Waits until the parts are shown so: on a busy machine a node may be silent for a moment."""
        def are_shown():
            lines = [line.split() for line in self.do("status").splitlines()[1:]]
            return {words[0]: words[3] for words in lines} == states

        until(are_shown)

    def pids(self):
        lines = [line.split() for line in self.do("status").splitlines()[1:]]
        return {words[0]: words[2] for words in lines}


def test_the_script_starts_rolls_kills_and_ends_a_cluster():
    async def talk(port):
        url = f"ws://127.0.0.1:{port}/v1/realtime?model=m"
        while True:
            try:
                async with connect(url, **PATIENT_WEBSOCKET) as link:
                    assert json.loads(await link.recv())["type"] == "session.created"
                    return link.response.headers["X-Served-By"]
            except InvalidStatus as refusal:
                # HAProxy has taken a node out of service whose answer to a check was late.
                assert refusal.response.status_code == 503

    # Takes real time: each restart waits until HAProxy has checked the node.
    with Script() as script:
        assert f"http://127.0.0.1:{script.port}" in script.shown
        script.await_states(node1="ready", node2="ready", redis="ready")
        assert "a cluster runs on port" in script.do("up", status=1)
        before = script.pids()
        script.do("roll")
        after = script.pids()
        assert after["redis"] == before["redis"]
        assert all(after[node] != before[node] for node in ["node1", "node2"])
        script.do("kill", "1")
        script.await_states(node1="down", node2="ready", redis="ready")
        # The next client never meets the node that is gone.
        assert {asyncio.run(talk(script.port)) for _ in range(4)} == {"node2"}
        script.do("start", "1")
        script.do("redis", "kill")
        script.await_states(node1="ready", node2="ready", redis="down")
        assert "name a node" in script.do("kill", "7", status=1)
    assert "no cluster runs" in script.do("status", status=1)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", script.port), timeout=1)
