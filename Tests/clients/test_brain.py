"""Agents of others behind the server: the brains of examples/brain, and LangGraph's AG-UI adapter.

They run as processes of their own, with their real packages; the official openai SDK is the client.
Some tests need a server that gives an agent its memory back, or signs its requests, which
`parley asyncapi` and `parley openapi` show."""

import asyncio
import base64
import contextlib
import functools
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from openai import AsyncOpenAI
from openai.types.realtime import RealtimeServerEvent
from parley_server import BINARY, HANG_GUARD, PATIENT_WEBSOCKET, ROOT, ParleyServer, free_port
from pydantic import TypeAdapter
from realtime_session import TOOL, Session, run

EXAMPLES = ROOT / "examples/brain"
LOGS = ROOT / ".build/test"
EVENTS = TypeAdapter(RealtimeServerEvent)


def describes(document, text):
    """Whether the server's own description has a text."""
    done = subprocess.run([BINARY, document], capture_output=True, text=True, check=True)
    return text in done.stdout


SIGNS = describes("openapi", "jwks.json")
needs_memory = pytest.mark.skipif(
    not describes("asyncapi", "parley.agent.event"), reason="the server keeps no mementos")
needs_signatures = pytest.mark.skipif(
    not SIGNS, reason="the server does not sign requests")


class Brain:
    """An agent from `with` to its end; `requests` are what reached it."""

    def __init__(self, file, **environment):
        self.file, self.port = file, free_port()
        self.environment = os.environ | environment
        self.record = LOGS / f"brain-{self.port}.jsonl"
        self.process = None

    @property
    def url(self):
        """What the server is given."""
        suffix = "" if self.kind == "ag-ui" else "v1"
        return f"http://127.0.0.1:{self.port}/{suffix}"

    @property
    def kind(self):
        kinds = {"chat_brain.py": "chat", "state_brain.py": "responses"}
        return kinds.get(self.file.name, "ag-ui")

    def __enter__(self):
        LOGS.mkdir(parents=True, exist_ok=True)
        watched = ROOT / "Tests/clients/watched_brain.py"
        with open(LOGS / f"brain-{self.port}.log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, watched, self.file, str(self.port), self.record],
                env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + HANG_GUARD
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"{self.file.name} did not start, see {log.name}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def listens(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def lines(self):
        # The last line may not be written to its end.
        return [json.loads(line) for line in self.record.read_text(encoding="utf-8").split("\n")[:-1]]

    @property
    def requests(self):
        return [line for line in self.lines() if "path" in line]

    def end(self, number):
        """The end of a request. It may come after the answer, and after the next request."""
        deadline = time.monotonic() + HANG_GUARD
        while True:
            for line in self.lines():
                if "completed" in line and line.get("number") == number:
                    return {name: line[name] for name in ("completed", "status")}
            assert time.monotonic() < deadline, f"request {number} has no end"
            time.sleep(0.01)

    def post(self, headers, body=None):
        """Sends a request as the server does, without it; returns its end."""
        body = body or {"messages": [{"role": "user", "content": "hello"}]}
        path = "chat/completions" if self.kind == "chat" else ""
        request = urllib.request.Request(
            f"{self.url}{'/' if path else ''}{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json"} | headers)
        try:
            with urllib.request.urlopen(request, timeout=HANG_GUARD) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Turns(Session):
    """A session whose extension events are apart, in `extensions`."""

    def __init__(self, connection):
        super().__init__(connection)
        self.extensions = []

    async def next(self):
        while True:
            data = await self.connection.recv_bytes()
            event = json.loads(data)
            if not event["type"].startswith("parley."):
                self.events.append(EVENTS.validate_json(data))
                return self.events[-1]
            self.extensions.append(event)

    async def turn(self, text, **response):
        """A typed turn: the texts of the messages and the calls of the response."""
        await self.say(text)
        return await self.go_on(**response)

    async def go_on(self, **response):
        await self.respond(**response)
        done = self.of("response.done")[-1].response
        assert done.status == "completed", done.status_details
        texts = [item.content[0].text for item in done.output if item.type == "message"]
        return texts, [item for item in done.output if item.type == "function_call"]


@contextlib.asynccontextmanager
async def connect(server):
    """A session that writes."""
    client = AsyncOpenAI(api_key="any", base_url=server.base_url)
    async with client.realtime.connect(
        model="any", websocket_connection_options=PATIENT_WEBSOCKET
    ) as connection:
        session = Turns(connection)
        assert (await session.next()).type == "session.created"
        await session.update(output_modalities=["text"])
        yield session


@contextlib.contextmanager
def asked_by_server(brain, path="", *arguments, **options):
    """A server with a brain."""
    asked = ("--llm", brain.url + path, "--llm-kind", brain.kind)
    with ParleyServer(*asked, *arguments, **options) as server:
        server.brain = brain
        yield server


@pytest.fixture(scope="module")
def brains():
    """Starts each brain once, because its packages take seconds of CPU to load: a function of the
    file."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda file: stack.enter_context(Brain(file)))


@pytest.fixture(scope="module", params=["chat_brain.py", "agui_brain.py"])
def parley(request, brains):
    with asked_by_server(brains(EXAMPLES / request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def agui(brains):
    with asked_by_server(brains(EXAMPLES / "agui_brain.py")) as server:
        yield server


@pytest.fixture(scope="module", params=["", "outcome"])
def langgraph(request, brains):
    brain = brains(ROOT / "Tests/clients/agui_langgraph.py")
    with asked_by_server(brain, request.param) as server:
        yield server


# ---- Both brains


def test_a_typed_turn_is_answered(parley):
    async def test():
        number = len(parley.brain.requests)
        async with connect(parley) as session:
            assert await session.turn("hello") == (["You said: hello"], [])
            assert parley.brain.end(number) == {"completed": True, "status": 200}

    run(test())


def test_the_brains_own_tool_is_no_call_for_the_client(parley):
    async def test():
        async with connect(parley) as session:
            texts, calls = await session.turn("where is order 42")
            assert "".join(texts) == "One moment. Order 42 ships on Friday."
            assert not calls
            # AG-UI says where a message ends, so that the first is spoken while the tool runs.
            assert len(texts) == (2 if parley.brain.kind == "ag-ui" else 1)

    run(test())


def test_a_tool_of_the_clients_is_called_and_its_result_goes_back(parley):
    async def test():
        async with connect(parley) as session:
            await session.update(tools=[TOOL])
            texts, calls = await session.turn("how is the weather")
            assert not texts and [call.name for call in calls] == ["get_weather"]
            await session.connection.conversation.item.create(item={
                "type": "function_call_output", "call_id": calls[0].call_id, "output": "sunny"})
            await session.until("conversation.item.done")
            texts, calls = await session.go_on()
            assert texts[0].endswith("sunny") and not calls

    run(test())


def test_an_interruption_closes_the_stream_and_the_next_turn_works(parley):
    async def test():
        number = len(parley.brain.requests)
        async with connect(parley) as session:
            await session.say("tell me a long story")
            await session.connection.response.create()
            await session.until("response.output_text.delta")
            await session.connection.response.cancel()
            done = (await session.until("response.done")).response
            assert done.status == "cancelled"
            assert parley.brain.end(number) == {"completed": False, "status": 200}
            await session.until("rate_limits.updated")
            assert await session.turn("hello") == (["You said: hello"], [])
            # The half that was heard is in the conversation, and no more.
            messages = parley.brain.requests[-1]["body"]["messages"]
            assert [message["role"] for message in messages] == ["user", "assistant", "user"]
            assert len(messages[1]["content"]) < 20_000

    run(test())


@needs_memory
def test_a_session_is_remembered_and_no_other(parley):
    if parley.brain.kind == "chat" and not SIGNS:
        pytest.skip("the server does not name the session")

    async def test():
        async with connect(parley) as session:
            assert (await session.turn("my name is Ada"))[0] == ["Nice to meet you, Ada."]
            assert (await session.turn("what is my name"))[0] == ["Your name is Ada."]
            async with connect(parley) as other:
                assert (await other.turn("what is my name"))[0] == ["I do not know."]

    run(test())


def test_a_brain_that_dies_fails_the_response():
    async def test(server):
        async with connect(server) as session:
            await session.turn("hello")
            server.brain.process.kill()
            await session.say("hello")
            await session.connection.response.create()
            done = (await session.until("response.done")).response
            assert done.status == "failed"
            assert done.status_details.error.code == "upstream_error"

    # A brain of its own, which takes seconds of CPU to load.
    with Brain(EXAMPLES / "agui_brain.py") as brain, asked_by_server(brain) as server:
        run(test(server))


# ---- Pydantic AI


def test_the_run_is_what_ag_ui_expects(agui):
    async def test():
        async with connect(agui) as session:
            await session.update(instructions="Be brief.", tools=[TOOL])
            await session.turn("hello")
            request = agui.brain.requests[-1]
            body = request["body"]
            assert request["headers"]["accept"] == "text/event-stream"
            assert set(body) == {
                "threadId", "runId", "protocolVersion", "state", "messages", "tools", "context",
                "forwardedProps",
            }
            assert [message["role"] for message in body["messages"]] == ["system", "user"]
            assert body["tools"] == [{
                "name": "get_weather", "description": TOOL["description"],
                "parameters": TOOL["parameters"],
            }]

    run(test())


@needs_memory
@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("Yes, please.", "Order 42 is cancelled."), ("No, keep it.", "No, keep it."),
        ("What does that cost?", "What does that cost?"),
    ],
)
def test_the_users_words_answer_an_interrupt(agui, words, result):
    async def test():
        async with connect(agui) as session:
            question = await session.turn("please cancel order 42")
            assert question == (["Shall I really cancel order 42?"], [])
            assert (await session.turn(words))[0] == [result]
            body = agui.brain.requests[-1]["body"]
            assert body["threadId"].startswith("sess_") and body["runId"].startswith("resp_")
            (answer,) = body["resume"]
            assert answer["status"] == "resolved"
            assert answer["payload"]["approved"] is (words == "Yes, please.")
            # The next run is an ordinary one, and has the call with its result.
            assert (await session.turn("hello"))[0] == ["You said: hello"]
            body = agui.brain.requests[-1]["body"]
            assert "resume" not in body
            roles = [message["role"] for message in body["messages"]]
            assert roles[:3] == ["user", "assistant", "tool"]

    run(test())


@needs_memory
def test_events_of_the_brain_reach_the_client(agui):
    async def test():
        async with connect(agui) as session:
            await session.turn("my name is Ada")
            events = [e for e in session.extensions if e["type"] == "parley.agent.event"]
            values = {event["value"]["type"]: event["value"] for event in events}
            assert values["STATE_SNAPSHOT"]["snapshot"] == {"name": "Ada"}
            assert values["TOOL_CALL_START"]["toolCallName"] == "note_name"

    run(test())


# ---- LangGraph's adapter


def test_langgraph_streams_calls_tools_and_fails(langgraph):
    async def test():
        async with connect(langgraph) as session:
            assert await session.turn("hello") == (["You said: hello"], [])
            # Text of a node that does not stream.
            assert await session.turn("quiet") == (["Not streamed."], [])
            texts, _ = await session.turn("where is order 42")
            assert texts == ["One moment. ", "I found: Order 42 ships on Friday."]
            await session.say("fail")
            await session.connection.response.create()
            done = (await session.until("response.done")).response
            assert done.status == "failed"

    run(test())


def test_langgraph_calls_a_tool_of_the_clients(langgraph):
    async def test():
        async with connect(langgraph) as session:
            await session.update(tools=[TOOL])
            _, calls = await session.turn("how is the weather")
            assert json.loads(calls[0].arguments) == {"city": "Oslo"}
            await session.connection.conversation.item.create(item={
                "type": "function_call_output", "call_id": calls[0].call_id, "output": "sunny"})
            await session.until("conversation.item.done")
            assert (await session.go_on())[0] == ["I found: sunny"]

    run(test())


@needs_memory
def test_langgraph_finds_its_messages_again(langgraph):
    async def test():
        async with connect(langgraph) as session:
            await session.turn("hello")
            await session.turn("where is order 42")
            texts, _ = await session.turn("list")
            assert texts == ["I know: human ai human ai tool ai human"]

    run(test())


@needs_memory
def test_langgraph_is_resumed(langgraph):
    async def test():
        async with connect(langgraph) as session:
            assert (await session.turn("buy"))[0] == ["Which color?"]
            assert (await session.turn("Blue, please."))[0] == ["You answered: Blue, please."]
            texts, _ = await session.turn("list")
            assert texts == ["I know: human ai human"]

    run(test())


# ---- Signatures


def key_name(key):
    """The name of a P-256 key in the set of keys."""
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    text = json.dumps(
        {name: public[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption())


KEY, OTHER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))


@pytest.fixture(scope="module", params=["chat_brain.py", "agui_brain.py"])
def guarded(request, tmp_path_factory):
    """A server that signs its requests with KEY, and its brain, which answers only signed ones."""
    file = tmp_path_factory.mktemp("keys") / "keys.pem"
    file.write_bytes(pem(KEY))
    port = free_port()
    keys = f"http://127.0.0.1:{port}/.well-known/jwks.json"
    brain = Brain(EXAMPLES / request.param, PARLEY_JWKS=keys)
    brain.environment["BRAIN_AUDIENCE"] = brain.url
    signs = ("--sign-requests", "true", "--signing-key-file", str(file))
    with brain, asked_by_server(brain, "", *signs, port=port) as server:
        server.key_file = file
        yield server


def published(server):
    """The server's public keys."""
    return json.loads(server.get("/.well-known/jwks.json")[2])["keys"]


def signature(audience, key=KEY, algorithm="ES256", kid=key_name(KEY), **changed):
    """A token as the server writes it for an audience, with changes; None leaves a claim out."""
    now = int(time.time())
    claims = {
        "iss": "parley", "aud": audience, "sub": "ada", "sid": "sess_1",
        "turn": "resp_1", "iat": now, "exp": now + 60, "jti": "1",
    } | changed
    claims = {name: value for name, value in claims.items() if value is not None}
    return {"X-Parley-Signature": jwt.encode(claims, key, algorithm, {"kid": kid})}


INPUT = {
    "threadId": "sess_1", "runId": "resp_1", "state": {}, "tools": [], "context": [],
    "forwardedProps": {}, "messages": [{"id": "1", "role": "user", "content": "hello"}],
}


@needs_signatures
def test_a_signed_request_is_answered(guarded):
    status, text = guarded.brain.post(signature(guarded.brain.url), INPUT)
    assert status == 200 and "You said: " in text


@needs_signatures
@pytest.mark.parametrize(
    "headers", [{}, {"X-Parley-Session": "sess_1"}, {"X-Parley-Signature": "x.y.z"}])
def test_requests_without_a_signature_are_refused(guarded, headers):
    status, text = guarded.brain.post(headers, INPUT)
    assert status == 401 and "You said" not in text


@needs_signatures
@pytest.mark.parametrize(
    "changes",
    [
        {"key": OTHER}, {"aud": "http://other.test/"}, {"iss": "other"}, {"sid": None}, {"exp": 1},
        {"exp": None}, {"kid": "two"}, {"key": "a" * 32, "algorithm": "HS256"},
        {"key": None, "algorithm": "none"},
    ],
)
def test_other_signatures_are_refused(guarded, changes):
    changes = {"audience": guarded.brain.url} | changes
    status, text = guarded.brain.post(signature(**changes), INPUT)
    assert status == 401 and "You said" not in text


async def sign(server):
    """The signature of a turn's request."""
    async with connect(server) as session:
        assert await session.turn("hello") == (["You said: hello"], [])
        return server.brain.requests[-1]["headers"]["x-parley-signature"]


def key_of_turn(server):
    return jwt.get_unverified_header(asyncio.run(sign(server)))["kid"]


@needs_signatures
def test_a_key_that_the_server_makes_signs_its_requests(brains):
    brain = brains(EXAMPLES / "chat_brain.py")
    with asked_by_server(brain, "", "--sign-requests", "true") as server:
        token = asyncio.run(sign(server))
        name = jwt.get_unverified_header(token)["kid"]
        (key,) = [key for key in published(server) if key["kid"] == name]
        claims = jwt.decode(
            token, jwt.PyJWK(key), algorithms=["ES256"], issuer="parley", audience=brain.url,
            options={"require": ["aud", "exp", "iat", "iss", "jti", "sid", "turn"]})
        assert claims["sid"].startswith("sess_") and claims["turn"].startswith("resp_")


@needs_signatures
def test_the_servers_signature_is_accepted_and_its_file_of_keys_is_read_again(guarded):
    def names():
        return [key["kid"] for key in published(guarded)]

    def reload(line):
        guarded.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + HANG_GUARD
        while line not in guarded.log_path.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert line in guarded.log_path.read_text()

    old, new = key_name(KEY), key_name(OTHER)
    assert names() == [old]
    assert key_of_turn(guarded) == old
    # A file without a key changes nothing.
    guarded.key_file.write_text("no key")
    reload("signing keys not reloaded")
    assert names() == [old] and key_of_turn(guarded) == old
    guarded.key_file.write_bytes(pem(OTHER))
    reload("signing keys reloaded")
    # The old key signs for five more minutes: the agent keeps the set without the new one.
    assert names() == [new, old] and key_of_turn(guarded) == old
