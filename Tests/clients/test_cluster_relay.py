"""Sidebands and the replies of chats on several servers that share a Redis: a client that asks one
node gets what is at another."""

import asyncio
import contextlib
import http.client
import json
import ssl

import pytest
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import TOOL, run
from redis_server import RedisServer
from scripted_model import HALVES
from secure_server import SecureServer
from test_cluster import until
from test_cluster_secrets import make_secret
from test_sideband import KEY, LOOKUP, OPERATOR, OTHER, called, opened, refusal, session_id
from test_ui_messages import part
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.skipif(
    not RedisServer.INSTALLED, reason="redis-server is not installed")


@contextlib.contextmanager
def cluster(folder, model, make=ParleyServer, *arguments):
    """Two servers with the same keys and a Redis, each of which knows the other."""
    keys = folder / "keys"
    keys.write_text(f"{KEY} name=app\n{OTHER}\n{OPERATOR} operator\n")
    with RedisServer() as redis, contextlib.ExitStack() as stack:
        nodes = [
            make(
                "--store", redis.url, "--llm", model.url, "--model", "scripted",
                "--api-keys-file", str(keys), "--shards", "2", "--drain-jitter-ms", "0", *arguments,
                PARLEY_LLM_KEY="the-key")
            for _ in range(2)]
        for node in nodes:
            stack.enter_context(node)
        until(lambda: all(figure(node, "nodes") == 2 for node in nodes))
        yield nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory, model):
    with cluster(tmp_path_factory.mktemp("relay"), model) as started:
        yield started


@pytest.fixture
def mortal_nodes(tmp_path, model):
    """A cluster whose nodes a test may end."""
    with cluster(tmp_path, model) as started:
        yield started


def figure(node, name):
    """A member of the list of sessions."""
    page = node.get("/admin/sessions", {"Authorization": f"Bearer {OPERATOR}"})[2]
    return json.loads(page).get(name)


def metric(node, name):
    page = node.get("/metrics", {"Authorization": f"Bearer {OPERATOR}"})[2].decode()
    return int(next(line.split()[-1] for line in page.splitlines() if line.startswith(f"{name} ")))


def is_answered(node, status, unknown=404):
    """Whether the status is also the other node's answer. Until that has answered it is 503, and where its
    heartbeat is late, the node that was asked knows only itself."""
    return status != 503 and (status != unknown or figure(node, "nodes") == 2)


@contextlib.asynccontextmanager
async def joined(node, key=KEY, **query):
    """A sideband of a session at the other node."""
    async with contextlib.AsyncExitStack() as stack:
        while True:
            try:
                sideband = await stack.enter_async_context(opened(node, key, **query))
                break
            except InvalidStatus as refused:
                if is_answered(node, refused.response.status_code):
                    raise
        yield sideband


async def private_call(near, far):
    """A sideband at one node serves a function of a session at the other."""
    async with (
        called(far) as client,
        joined(
            near, call_id=session_id(client), extra_query={"tools": "lookup_order"}
        ) as sideband,
    ):
        assert sideband.events[0].session.id == session_id(client)
        await sideband.update(tools=[TOOL, LOOKUP])
        await client.say('call lookup_order {"number": 7}')
        await client.respond()
        call = await sideband.until("response.function_call_arguments.done")
        assert call.name == "lookup_order" and json.loads(call.arguments) == {"number": 7}
        await sideband.until("response.done")
        await sideband.connection.conversation.item.create(item={
            "type": "function_call_output", "call_id": call.call_id, "output": "shipped",
        })
        await sideband.connection.response.create()
        done = await client.until("response.done")
        assert done.response.output[0].content[0].text == "The answer is shipped."
        await sideband.until("response.done")
        shown = "".join(event.model_dump_json() for event in client.events)
        assert "function_call" not in shown and call.call_id not in shown
        assert await asyncio.to_thread(metric, near, "parley_relays") == 1


def test_a_sideband_serves_a_session_of_another_node(nodes):
    until(lambda: metric(nodes[0], "parley_relays") == 0)
    before = [metric(nodes[0], f"parley_relays_{name}") for name in ("total", "failed_total")]
    run(private_call(nodes[0], nodes[1]))
    until(lambda: metric(nodes[0], "parley_relays") == 0)
    after = [metric(nodes[0], f"parley_relays_{name}") for name in ("total", "failed_total")]
    assert after == [before[0] + 1, before[1]]


async def decided_refusal(node, *arguments, **query):
    """The refusal of a sideband, once the other node has answered."""
    while not is_answered(node, (answer := await refusal(node, *arguments, **query))[0]):
        await asyncio.sleep(0.05)
    return answer


def test_who_may_join_at_another_node(nodes):
    async def test():
        async with called(nodes[1]) as client:
            call_id = session_id(client)
            unknown = (404, "session_not_found")
            assert await decided_refusal(nodes[0], OTHER, call_id) == unknown
            assert await decided_refusal(nodes[0], KEY, "sess_0000000000") == unknown
            assert await refusal(nodes[0], "sk-wrong", call_id) == (401, "invalid_api_key")
            async with joined(nodes[0], OPERATOR, call_id=call_id):
                pass
            async with joined(nodes[0], call_id=call_id, extra_query={"tools": "a"}):
                taken = (409, "tools_taken")
                assert await decided_refusal(nodes[0], KEY, call_id, tools="a") == taken

    run(test())
    assert nodes[1].get("/nodes/sessions/sess_a", {"Authorization": f"Bearer {KEY}"})[0] == 404


async def end(sideband):
    """The code with which a sideband is closed."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await sideband.connection.recv()
    return closed.value.rcvd and closed.value.rcvd.code


def test_the_sessions_end_ends_the_sideband(nodes):
    async def test():
        async with called(nodes[1]) as client:
            async with joined(nodes[0], call_id=session_id(client)) as sideband:
                await client.connection.close()
                assert await end(sideband) == 1000

    run(test())
    until(lambda: metric(nodes[0], "parley_relays") == 0)


def test_a_node_that_is_killed_ends_the_sideband(mortal_nodes):
    nodes = mortal_nodes

    async def test():
        async with called(nodes[1]) as client:
            async with joined(nodes[0], call_id=session_id(client)) as sideband:
                nodes[1].process.kill()
                nodes[1].expected_status = -9
                assert await end(sideband) == 1012

    with contextlib.suppress(ConnectionClosed):
        run(test())
    until(lambda: metric(nodes[0], "parley_relays") == 0)
    assert nodes[0].get("/healthz")[0] == 200


def test_a_node_that_restarts_ends_its_sidebands_and_not_the_session(mortal_nodes):
    nodes = mortal_nodes

    async def test():
        async with called(nodes[1]) as client:
            async with joined(nodes[0], call_id=session_id(client)) as sideband:
                nodes[0].process.terminate()
                assert await end(sideband) == 1012
            await client.say("Hello")
            await client.respond()

    run(test())
    assert nodes[0].process.wait(HANG_GUARD) == 0


# Chats


def ask(node, method, path, body=None, key=KEY, context=None):
    make = http.client.HTTPSConnection if context else http.client.HTTPConnection
    options = {"context": context} if context else {}
    connection = make("127.0.0.1", node.port, timeout=HANG_GUARD, **options)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    return connection.getresponse()


def begin(node, model, **options):
    """A reply of which the first half is said; the second waits for `model.second_half`."""
    model.second_half.clear()
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
    body = {"id": "chat 1/2", "trigger": "submit-message", "system": "Stop halfway.",
            "messages": [message]}
    answer = ask(node, "POST", "/api/chat", json.dumps(body), **options)
    assert answer.status == 200 and any(b'be. "' in line for line in answer)
    return answer


def resume(node, **options):
    """The answer, once the other node has answered, and the store where the key is a client secret."""
    answers = []

    def is_decided():
        answers.append(ask(node, "GET", "/api/chat/chat%201%2F2/stream", **options))
        return answers[-1].status != 401 and is_answered(node, answers[-1].status, unknown=204)

    until(is_decided)
    return answers[-1]


def deltas(answer):
    """The text of a stream, which must have an end."""
    read = [part(line) for line in answer if line.startswith(b"data: ")]
    assert read.pop() is None
    return "".join(value["delta"] for value in read if value["type"] == "text-delta")


def lose_and_resume(near, far, model, **options):
    """A reply that begins at one node is read at the other, from its start."""
    first = begin(far, model, **options)
    answer = resume(near, **options)
    assert answer.status == 200 and answer.headers["connection"] == "close"
    first.close()
    model.second_half.set()
    assert deltas(answer) == "".join(HALVES)
    # It was delivered.
    assert resume(near, **options).status == 204


def test_a_reply_is_read_again_at_another_node(nodes, model):
    lose_and_resume(nodes[0], nodes[1], model)
    assert resume(nodes[0]).status == 204 and resume(nodes[1]).status == 204


def test_a_reply_is_its_callers_at_every_node(nodes, model):
    first = begin(nodes[1], model)
    assert resume(nodes[0], key=OTHER).status == 204
    assert resume(nodes[0]).status == 200
    model.second_half.set()
    assert first.read().endswith(b"data: [DONE]\n\n")


def test_the_users_of_an_application_have_chats_of_their_own(nodes, model):
    page, other = (make_secret(nodes[1], key=KEY) for _ in range(2))
    first = begin(nodes[1], model, key=page)
    assert resume(nodes[0], key=other).status == 204
    assert resume(nodes[0]).status == 204
    answer = resume(nodes[0], key=page)
    first.close()
    model.second_half.set()
    assert answer.status == 200 and deltas(answer) == "".join(HALVES)


def test_a_node_that_is_killed_breaks_the_reply_off(mortal_nodes, model):
    nodes = mortal_nodes
    first = begin(nodes[1], model)
    answer = resume(nodes[0])
    first.close()
    assert any(b'be. "' in line for line in answer)
    nodes[1].process.kill()
    nodes[1].expected_status = -9
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    model.second_half.set()


# TLS


def test_nodes_talk_over_tls(tmp_path, model):
    bundle = tmp_path / "authorities.pem"
    made = []

    def make(*arguments, **environment):
        folder = tmp_path / f"node{len(made)}"
        folder.mkdir()
        server = SecureServer(folder, *arguments)
        server.environment |= environment
        made.append(server)
        bundle.write_bytes(b"".join(server.certificate.read_bytes() for server in made))
        return server

    with cluster(tmp_path, model, make, "--service-ca", str(bundle)) as secure:
        trusted = ssl.create_default_context(cafile=bundle)
        lose_and_resume(secure[0], secure[1], model, context=trusted)
        assert metric(secure[0], "parley_relays_total") == 1
