"""The guide, the demo agent of a new user's first minute: facts by a tool call that the client sees, a
count that is interrupted, speech, and what the page is told."""

import http.server
import json
import threading
import time

import pytest
from parley_server import HANG_GUARD, ParleyServer
from realtime_session import connect, run
from recordings import DATA, convert, word_errors, words

TOOLS = {"type": "mcp", "server_label": "parley", "require_approval": "never"}


@pytest.fixture(scope="module")
def guide():
    # Spoken replies are sent at once.
    with ParleyServer("--demo-agent", "guide", "--playout-lead-ms", "60000") as server:
        yield server


async def begin(session, text):
    """Sends a message, and asks for the reply; returns how many events came before."""
    await session.say(text)
    start = len(session.events)
    await session.connection.response.create()
    return start


async def ask(session, text, responses):
    """Sends a message, and reads to the end of `responses` responses; returns their events."""
    start = await begin(session, text)
    for _ in range(responses):
        await session.until("rate_limits.updated")
    return session.events[start:]


async def interrupt(session, text, numbers):
    """Asks for a count, and interrupts it after some numbers; returns those that were said."""
    start = await begin(session, text)
    for _ in range(numbers):
        await session.until("response.output_text.delta")
    await session.connection.response.cancel()
    done = await session.until("response.done")
    assert done.response.status == "cancelled"
    await session.until("rate_limits.updated")
    (counted,) = said(session.events[start:])
    assert len(counted.split()) >= numbers
    return counted.split()


def calls(events):
    return [
        (event.item.name, json.loads(event.item.output)) for event in events
        if event.type == "response.output_item.done" and event.item.type == "mcp_call"
    ]


def said(events):
    return [event.text for event in events if event.type == "response.output_text.done"]


def test_facts_are_looked_up_with_a_tool_that_the_client_sees(guide):
    async def test():
        async with connect(guide) as session:
            await session.update(output_modalities=["text"], tools=[TOOLS])
            await session.until("mcp_list_tools.completed")
            events = await ask(session, "How many sessions are open?", 2)
            assert calls(events) == [("count_sessions", {"sessions_open": 1})]
            assert said(events) == ["One session is open. It is yours."]
            events = await ask(session, "And how long did that take?", 2)
            ((name, result),) = calls(events)
            assert name == "read_latency" and result["first_token_ms"] >= 0
            assert said(events)[0].startswith("Your last message was typed.")
            events = await ask(session, "How much memory do you use?", 2)
            ((name, result),) = calls(events)
            assert name == "read_memory" and 1_000 < result["session_bytes"] < 100_000
            events = await ask(session, "How do I use my own model?", 1)
            assert "--llm" in said(events)[0] and "make brain" in said(events)[0]

    run(test())


def test_a_count_is_interrupted_and_goes_on(guide):
    async def test():
        async with connect(guide) as session:
            await session.update(output_modalities=["text"])
            # A minute of numbers, so that a slow machine interrupts it as well.
            counted = await interrupt(session, "Count to a hundred.", 3)
            counted += await interrupt(session, "Go on.", 2)
            # What is said between changes nothing.
            assert said(await ask(session, "Stop.", 1)) == ["All right."]
            assert "demo" in said(await ask(session, "I like trains.", 1))[0]
            counted += await interrupt(session, "Continue.", 2)
            assert counted == [f"{number}," for number in range(1, len(counted) + 1)]

    run(test())


def test_the_other_clients_know_the_guide_too(guide):
    """`parley talk` offers no tools, so that the guide says what is missing."""
    done = guide.talk("--text", "how many sessions are open")
    assert done.returncode == 0 and "your client does not offer" in done.stdout
    done = guide.talk("--text", "what is parley")
    assert "server for voice agents" in done.stdout


def test_speech_is_understood_and_answered_with_speech(guide, tmp_path):
    # Takes real time: the terminal sends a recording as a microphone does.
    reply = tmp_path / "reply.wav"
    speech = convert(DATA / "goforward.raw", tmp_path / "speech.wav")
    turn = guide.turns("--wav", str(speech), "--out", str(reply))[0]
    assert word_errors(words("go forward ten meters"), words(turn["heard"])) <= 1
    assert turn["reply"].startswith(f"I heard: {turn['heard'].rstrip('.')}")
    assert reply.stat().st_size > 2 * 24_000


class Models(http.server.BaseHTTPRequestHandler):
    """A model server that has one model."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "small"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def brain():
    """The base URL of a model of this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def setup(server):
    """The page's setup, once the server knows about the model."""
    deadline = time.monotonic() + HANG_GUARD
    while time.monotonic() < deadline:
        status, headers, body = server.get("/page/setup.json")
        assert status == 200 and headers["Content-Type"] == "application/json"
        found = json.loads(body)
        if found["local_model"]["state"] != "unknown":
            return found
        time.sleep(0.02)
    raise TimeoutError("the server still asks")


def test_the_page_is_told_of_a_model_of_this_machine(brain):
    with ParleyServer("--demo-agent", "guide", "--local-model-url", brain) as server:
        found = setup(server)
        voices = {voice["name"]: voice["description"] for voice in found.pop("voices")}
        assert voices["marin"] == "a woman, medium" and len(voices) >= 13
        assert found == {
            "agent": "guide", "administers": True, "tool_servers": ["parley"], "languages": ["en"],
            "local_model": {"url": brain, "state": "running", "model": "small", "is_used": False},
        }
    with ParleyServer("--llm", brain, "--local-model-url", brain) as server:
        found = setup(server)
        assert found["agent"] == "model" and found["tool_servers"] == []
        assert found["local_model"]["is_used"] is True


def test_without_a_model_the_page_is_told_so(brain):
    nowhere = brain.replace("/v1", "/other")
    with ParleyServer("--local-model-url", nowhere) as server:
        found = setup(server)
        assert found["agent"] == "echo" and found["local_model"]["state"] == "absent"
    with ParleyServer("--local-model-url", "") as server:
        assert "local_model" not in json.loads(server.get("/page/setup.json")[2])
